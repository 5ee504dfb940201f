//! Runs with the standard hooks that keep files or checkpoints.

use serde_json::{Value, json};

use crate::{edit, tiny};

/// The plugins with these hooks.
pub const PLUGINS: [&str; 12] = [
    "sconce-plugin-checkpoints",
    "sconce-plugin-console",
    "sconce-plugin-control",
    "sconce-plugin-csv",
    "sconce-plugin-debugging",
    "sconce-plugin-logging",
    "sconce-plugin-metrics",
    "sconce-plugin-models",
    "sconce-plugin-optimisation",
    "sconce-plugin-profiling",
    "sconce-plugin-report",
    "sconce-plugin-tracking",
];

/// Hooks that keep files or checkpoints, or tensors in a checkpoint, each with the settings that write most: a name for
/// tables, and the entry.
pub fn keeping() -> Vec<(&'static str, Value)> {
    let entries = [
        (
            "checkpoint",
            json!({"hook": "checkpoint", "config": {"keep_last": 1, "best": [{"monitor": "loss"}], "load_best": true,
                "publish": ["best"], "last": "newest"}}),
        ),
        (
            "background",
            json!({"hook": "checkpoint", "config": {"keep_last": 1, "best": [{"monitor": "loss"}], "load_best": true,
                "background": true}}),
        ),
        (
            "early-stopping",
            json!({"hook": "early-stopping", "config": {"monitor": "loss", "patience": 9, "restore_best": true}}),
        ),
        (
            "stop-on-nan",
            json!({"hook": "stop-on-nan", "config": {"action": "roll-back"}}),
        ),
        (
            "loss-spike",
            json!({"hook": "loss-spike", "config": {"window": 2, "rtol": 0.05, "action": "roll-back",
                "roll_back": {"times": 9, "learning_rate_factor": 0.3}}}),
        ),
        (
            "lr-range-test",
            json!({"hook": "lr-range-test", "config": {"steps": 3, "stop": false}}),
        ),
        ("csv", json!("csv")),
        ("jsonl", json!("jsonl")),
        ("tensorboard", json!("tensorboard")),
        ("training-trace", json!("training-trace")),
        ("report", json!("report")),
        (
            "predictions",
            json!({"hook": "predictions", "config": {"phases": ["val", "test"]}}),
        ),
        ("classification", json!("classification")),
        (
            "accumulate",
            json!({"hook": "accumulate", "config": {"variables": ["outputs"], "phases": ["val"]}}),
        ),
        (
            "plot-lines",
            json!({"hook": "plot-lines", "config": {"metrics": ["loss"]}}),
        ),
        ("model-complexity", json!("model-complexity")),
        (
            "activation-stats",
            json!({"hook": "activation-stats", "config": {"every": 1}}),
        ),
        (
            "gradient-flow",
            json!({"hook": "gradient-flow", "config": {"every": 1}}),
        ),
        ("visualize", json!("visualize")),
        ("memory", json!({"hook": "memory", "config": {"every": 2}})),
        ("profile", json!("profile")),
        (
            "trace",
            json!({"hook": "trace", "config": {"schedule": {"skip_first": 2, "active": 3}}}),
        ),
        (
            "save-file",
            json!({"hook": "save-file", "config": {"files": ["manifest.json"], "at": ["start", "end"]}}),
        ),
        ("ema", json!({"hook": "ema", "config": {"decay": 0.9}})),
        ("swa", json!({"hook": "swa", "config": {"start": 0.5}})),
    ];
    entries.into()
}

/// A short run with these hooks. Its validation loss is best after the second of the first four epochs.
pub fn manifest(hooks: &[Value], epochs: u32) -> Value {
    let manifest = edit(tiny(), "/train/epochs", json!(epochs));
    let manifest = edit(manifest, "/threads", json!(1));
    let optimizer = json!({"kind": "sgd", "learning_rate": 1.5});
    edit(
        edit(manifest, "/optimizer", optimizer),
        "/hooks",
        json!(hooks),
    )
}
