//! Many hooks at once: a run that is stopped and resumed has the bits of one that is not.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-checkpoints",
    "sconce-plugin-control",
    "sconce-plugin-csv",
    "sconce-plugin-debugging",
    "sconce-plugin-metrics",
    "sconce-plugin-optimisation",
];

/// Hooks whose states depend on the run alone, not on the time that it takes.
fn manifest() -> Value {
    let hooks = json!([
        {"hook": "checkpoint", "config": {"epochs": 1}},
        {"hook": "loss-spike", "config": {"window": 4, "rtol": 0.01, "action": "warn"}},
        {"hook": "stop-on-nan", "config": {"watch": ["loss", "gradients"], "allowed": 2}},
        {"hook": "early-stopping", "config": {"patience": 9}},
        {"hook": "on-plateau", "config": {"long_term": 3, "short_term": 1, "action": "lower-rate"}},
        {"hook": "grad-clip", "config": {"max_norm": 0.5}},
        {"hook": "grad-noise", "config": {"eta": 0.01}},
        {"hook": "weight-constraint", "config": {"kind": "max-norm", "max": 1.0}},
        {"hook": "loss-scale", "config": {"mode": "dynamic"}},
        {"hook": "ema", "config": {"decay": 0.9}},
        {"hook": "gradient-flow", "config": {"every": 1}},
        "compute-stats",
        "classification",
        "anomaly",
        "csv"
    ]);
    let manifest = edit(tiny(), "/hooks", hooks);
    let manifest = edit(manifest, "/threads", json!(1));
    edit(manifest, "/train/epochs", json!(4))
}

#[test]
fn a_run_with_many_hooks_goes_on_as_if_never_stopped() {
    let straight = Workplace::new(PLUGINS);
    straight.run(&manifest()).expect(0, &[]);
    let stopped = Workplace::new(PLUGINS);
    stopped.write(&manifest());
    let run = ["run", "manifest.json"];
    stopped
        .sconce(&[&run[..], &["--set", "train.epochs=2"]].concat())
        .expect(0, &[]);
    stopped
        .sconce(&[&run[..], &["--resume", "epoch-2"]].concat())
        .expect(0, &[]);
    let (expected, found) = (
        straight.checkpoint("epoch-4"),
        stopped.checkpoint("epoch-4"),
    );
    let names =
        |all: &std::collections::BTreeMap<String, _>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected));
    let differing: Vec<&String> = expected
        .iter()
        .filter(|(name, content)| found.get(*name) != Some(content))
        .map(|(name, _)| name)
        .collect();
    assert!(differing.is_empty(), "{differing:?}");
    for file in ["train.csv", "val.csv", "gradient-flow.csv"] {
        assert_eq!(
            stopped.read(&format!("out/{file}")),
            straight.read(&format!("out/{file}")),
            "{file}"
        );
    }
}
