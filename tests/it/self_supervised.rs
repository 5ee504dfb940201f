//! Learning without labels: teachers, queues and centres are the same on any number of ranks, in processes of their own and after a
//! run was resumed.

use std::collections::BTreeMap;
use std::process::Stdio;

use sconce_tests::{Finished, Workplace, tiny, until};
use serde_json::{Value, json};

use crate::view_sizes::{any_size, two_sizes};

const PLUGINS: &[&str] = &[
    "sconce-plugin-self-supervised",
    "sconce-plugin-sockets",
    "sconce-plugin-checkpoints",
    "sconce-fixture-faults",
    "sconce-fixture-wrecker",
];

/// Tensors of a checkpoint by their names: shape and bytes.
type Results = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

/// Two epochs of five batches, in updates of two.
fn manifest(hook: Value, views: usize) -> Value {
    let mut manifest = tiny();
    manifest["threads"] = json!(1);
    manifest["model"] = json!({"kind": "sequential", "layers": [
        {"kind": "flatten"},
        {"kind": "linear", "outputs": 12},
        {"kind": "batch-norm"},
        {"kind": "relu"},
        {"kind": "linear", "name": "projector", "outputs": 6},
        {"kind": "linear", "name": "predictor", "outputs": 6},
    ]});
    if hook["config"]["prototypes"].is_string() {
        let layers = manifest["model"]["layers"].as_array_mut();
        layers.expect("layers").splice(
            5..,
            [
                json!({"kind": "unit-norm", "name": "directions"}),
                json!({"kind": "linear", "name": "prototypes", "outputs": 5, "bias": false}),
            ],
        );
    }
    manifest["data"] = json!({
        "kind": "synthetic-digits", "train": 38, "val": 0, "test": 0, "size": 16, "targets": "none",
        "views": [{"count": views, "crop": {"scale": [0.4, 1.0]}}],
    });
    manifest["loss"] = json!("given");
    manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.01});
    manifest["train"] = json!({"epochs": 2, "batch_size": 8, "accumulate": 2});
    manifest["distributed"] = json!({"batches": "update", "timeout": 60.0});
    manifest["hooks"] = json!([hook, asker("after_loop", 0, "save_checkpoint", "end")]);
    manifest
}

/// As [`manifest`], with a transformer of 16 patches and a layer that masks them.
fn of_patches(hook: Value, views: usize) -> Value {
    let mut manifest = manifest(hook, views);
    manifest["model"] = json!({"kind": "sequential", "layers": [
        {"kind": "conv2d", "channels": 8, "kernel": 4, "stride": 4},
        {"kind": "positions"},
        {"kind": "mask-tokens", "name": "mask"},
        {"kind": "class-token", "name": "class"},
        {"kind": "position-embedding"},
        {"kind": "residual", "layers": [
            {"kind": "layer-norm"}, {"kind": "attention", "heads": 2},
        ]},
        {"kind": "linear", "outputs": 6},
    ]});
    manifest
}

/// As [`manifest`], with small views beside the large ones, and a model that takes both.
fn of_two_sizes(hook: Value) -> Value {
    let mut manifest = manifest(hook, 2);
    manifest["data"]["views"] = two_sizes();
    manifest["model"] = any_size();
    manifest
}

fn asker(at: &str, after: u64, what: &str, text: &str) -> Value {
    let config = json!({
        "at": at, "phase": "train", "what": what, "text": text, "after_iteration": after, "once": true,
    });
    json!({"hook": "asker", "name": format!("{what}-{at}"), "priority": "LOWEST", "ranks": "all", "config": config})
}

fn place(manifest: &Value) -> Workplace {
    let place = Workplace::new(PLUGINS);
    place.write(manifest);
    place
}

/// Everything trained and published at the end.
fn results(place: &Workplace) -> Results {
    let mut checkpoint = place.checkpoint("end");
    checkpoint.retain(|name, _| !name.starts_with("hooks/"));
    checkpoint
}

fn ran(place: Workplace, run: impl FnOnce(&Workplace) -> Finished) -> Results {
    run(&place).expect(0, &[]);
    results(&place)
}

#[test]
fn teachers_queues_and_centres_have_the_same_bits_everywhere() {
    for (hook, views, kept) in [
        (
            json!({"hook": "moco", "config": {"queue": 50, "momentum": 0.9}}),
            2,
            "moco.queue",
        ),
        (
            json!({"hook": "dino", "config": {"momentum": 0.9}}),
            3,
            "dino.centre",
        ),
        (
            json!({"hook": "byol", "config": {"projector": "projector"}}),
            2,
            "byol.teacher",
        ),
        (
            json!({"hook": "swav", "config": {"prototypes": "prototypes", "embeddings": "directions", "queue": 20}}),
            3,
            "swav.queue.1",
        ),
        (
            json!({"hook": "deep-cluster", "config": {"prototypes": "prototypes", "embeddings": "directions"}}),
            2,
            "deep-cluster.bank",
        ),
    ] {
        same_bits_everywhere(&manifest(hook, views), kept);
    }
}

#[test]
fn masks_and_their_tokens_have_the_same_bits_everywhere() {
    let hook = json!({"hook": "ibot", "config": {"momentum": 0.9}});
    let trained = same_bits_everywhere(&of_patches(hook, 3), "ibot.patch_centre");
    // The token, which begins as zeros, has taken part.
    let mut tokens = trained.iter().filter(|(name, _)| name.ends_with("mask"));
    assert!(
        tokens
            .next()
            .is_some_and(|(_, (_, bytes))| bytes.iter().any(|&byte| byte != 0))
    );
}

#[test]
fn a_teacher_of_large_views_has_the_same_bits_everywhere_beside_small_ones() {
    let hook = json!({"hook": "dino", "config": {"momentum": 0.9}});
    same_bits_everywhere(&of_two_sizes(hook), "dino.centre");
}

/// Runs a manifest alone, on two ranks, with hooks in processes of their own, and resumed: the same bits, `kept` among them.
fn same_bits_everywhere(manifest: &Value, kept: &str) -> Results {
    let expected = ran(place(manifest), |place| {
        place.sconce(&["run", "manifest.json"])
    });
    assert!(
        expected.keys().any(|name| name.contains(kept)),
        "{:?}",
        expected.keys()
    );
    let on_ranks = ran(place(manifest), |place| {
        place.sconce(&["launch", "-n", "2", "manifest.json"])
    });
    assert!(on_ranks == expected, "{kept} on two ranks");
    let apart = ran(place(manifest), |place| {
        place.sconce_in(&["run", "manifest.json"], &[("SCONCE_ISOLATE", "all")])
    });
    assert!(apart == expected, "{kept} in a process of its own");
    let mut stopped = manifest.clone();
    if let Some(hooks) = stopped["hooks"].as_array_mut() {
        hooks.push(asker("after_iter", 3, "save_checkpoint", "here"));
        hooks.push(asker("after_iter", 3, "stop", "enough"));
    }
    let halves = place(&stopped);
    halves.sconce(&["run", "manifest.json"]).expect(0, &[]);
    halves.write(manifest);
    let resumed = ran(halves, |place| {
        place.sconce(&[
            "run",
            "manifest.json",
            "--resume",
            "here",
            "--allow-changes",
        ])
    });
    assert!(resumed == expected, "{kept} after a run was resumed");
    expected
}

#[test]
fn three_and_four_ranks_have_the_bits_of_one() {
    let hook = json!({"hook": "moco", "config": {"queue": 50, "momentum": 0.9}});
    let mut manifest = manifest(hook, 2);
    manifest["train"] = json!({"epochs": 2, "batch_size": 3, "accumulate": 4});
    let expected = ran(place(&manifest), |place| {
        place.sconce(&["run", "manifest.json"])
    });
    for ranks in ["3", "4"] {
        let on_ranks = ran(place(&manifest), |place| {
            place.sconce(&["launch", "-n", ranks, "manifest.json"])
        });
        assert!(on_ranks == expected, "on {ranks} ranks");
    }
}

#[test]
fn a_run_that_was_killed_has_the_same_bits_in_the_end() {
    let hook = json!({"hook": "moco", "config": {"queue": 50, "momentum": 0.9}});
    let mut manifest = manifest(hook, 2);
    if let Some(hooks) = manifest["hooks"].as_array_mut() {
        hooks.push(json!({"hook": "checkpoint", "config": {"iterations": 3}}));
    }
    let expected = ran(place(&manifest), |place| {
        place.sconce(&["run", "manifest.json"])
    });
    let mut killed = manifest.clone();
    if let Some(hooks) = killed["hooks"].as_array_mut() {
        let config = json!({"at": "after_iter", "how": "kill", "after_iteration": 7});
        hooks.push(json!({"hook": "wrecker", "config": config}));
    }
    let place = place(&killed);
    let ended = place.sconce(&["run", "manifest.json"]);
    assert_ne!(ended.code, 0);
    place.write(&manifest);
    let resumed = ran(place, |place| {
        place.sconce(&[
            "run",
            "manifest.json",
            "--resume",
            "latest",
            "--allow-changes",
        ])
    });
    assert!(resumed == expected);
}

#[test]
fn a_plugin_that_is_replaced_in_mid_run_changes_no_bit() {
    let hook = json!({"hook": "moco", "config": {"queue": 50, "momentum": 0.9}});
    let mut manifest = manifest(hook, 2);
    manifest["train"]["epochs"] = json!(200);
    manifest["reload_at"] = json!("iteration");
    let expected = ran(place(&manifest), |place| {
        place.sconce(&["run", "manifest.json"])
    });
    let place = place(&manifest);
    let log = std::fs::File::create(place.path("log.txt")).expect("a file");
    let mut run = place.command(&["run", "manifest.json"]);
    let mut run = run.stdout(Stdio::null()).stderr(log).spawn();
    let run = run.as_mut().expect("it starts");
    until("the run has begun", || {
        let log = place.read("log.txt");
        log.contains("hooks, in the order").then_some(())
    });
    // Another file with the same code.
    let library = place.path("plugins/libsconce_plugin_self_supervised.so");
    let mut bytes = std::fs::read(&library).expect("a library");
    bytes.push(0);
    std::fs::write(place.path("plugins/new"), bytes).expect("written");
    std::fs::rename(place.path("plugins/new"), &library).expect("renamed");
    let reloaded = place.sconce(&["reload", "out", "--hook", "moco", "--wait"]);
    let status = run.wait().expect("it ends");
    assert!(status.success(), "{}", place.read("log.txt"));
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(reloaded.code, 0, "{}{}", reloaded.stderr, record["reloads"]);
    assert!(results(&place) == expected);
}

#[test]
fn methods_without_a_teacher_train_and_say_what_they_lack() {
    for hook in ["simclr", "barlow-twins", "vicreg"] {
        place(&manifest(json!(hook), 2))
            .sconce(&["run", "manifest.json"])
            .expect(0, &[]);
    }
    place(&manifest(json!("simclr"), 1))
        .sconce(&["check", "manifest.json"])
        .expect(
            3,
            &["at least 2 views of each training sample are compared, and the data have 1"],
        );
    let mut validated = manifest(json!("simclr"), 2);
    validated["data"]["val"] = json!(8);
    place(&validated)
        .sconce(&["check", "manifest.json"])
        .expect(3, &["leave out the data for them (`val`)"]);
}
