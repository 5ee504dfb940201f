//! Learning without labels: teachers, queues and centres are the same on any number of ranks, in processes of their own and after a
//! run was resumed.

use std::collections::BTreeMap;

use sconce_tests::{Finished, Workplace, tiny};
use serde_json::{Value, json};

use crate::view_sizes::{any_size, two_sizes};

const PLUGINS: &[&str] = &[
    "sconce-plugin-self-supervised",
    "sconce-plugin-sockets",
    "sconce-fixture-faults",
];

/// Two epochs of five batches, in updates of two.
fn manifest(hook: Value, views: Value) -> Value {
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
    manifest["data"] = json!({
        "kind": "synthetic-digits", "train": 38, "val": 0, "test": 0, "size": 16, "targets": "none",
        "views": views,
    });
    manifest["loss"] = json!("given");
    manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.01});
    manifest["train"] = json!({"epochs": 2, "batch_size": 8, "accumulate": 2});
    manifest["distributed"] = json!({"batches": "update", "timeout": 60.0});
    manifest["hooks"] = json!([hook, asker("after_loop", 0, "save_checkpoint", "end")]);
    manifest
}

/// Views of the images' size.
fn of_one_size(count: usize) -> Value {
    json!([{"count": count, "crop": {"scale": [0.4, 1.0]}}])
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
fn results(place: &Workplace) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let mut checkpoint = place.checkpoint("end");
    checkpoint.retain(|name, _| !name.starts_with("hooks/"));
    checkpoint
}

fn ran(
    place: Workplace,
    run: impl FnOnce(&Workplace) -> Finished,
) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    run(&place).expect(0, &[]);
    results(&place)
}

#[test]
fn teachers_queues_and_centres_have_the_same_bits_everywhere() {
    for (hook, views, kept) in [
        (
            json!({"hook": "moco", "config": {"queue": 50, "momentum": 0.9}}),
            of_one_size(2),
            "moco.queue",
        ),
        (
            json!({"hook": "dino", "config": {"momentum": 0.9}}),
            of_one_size(3),
            "dino.centre",
        ),
        (
            json!({"hook": "dino", "config": {"momentum": 0.9}}),
            two_sizes(),
            "dino.centre",
        ),
        (
            json!({"hook": "byol", "config": {"projector": "projector"}}),
            of_one_size(2),
            "byol.teacher",
        ),
    ] {
        let mut manifest = manifest(hook, views);
        if manifest["data"]["views"] == two_sizes() {
            manifest["model"] = any_size();
        }
        let expected = ran(place(&manifest), |place| {
            place.sconce(&["run", "manifest.json"])
        });
        assert!(
            expected.keys().any(|name| name.contains(kept)),
            "{:?}",
            expected.keys()
        );
        let on_ranks = ran(place(&manifest), |place| {
            place.sconce(&["launch", "-n", "2", "manifest.json"])
        });
        assert!(on_ranks == expected, "{kept} on two ranks");
        let apart = ran(place(&manifest), |place| {
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
        halves.write(&manifest);
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
    }
}

#[test]
fn methods_without_a_teacher_train_and_say_what_they_lack() {
    for hook in ["simclr", "barlow-twins", "vicreg"] {
        place(&manifest(json!(hook), of_one_size(2)))
            .sconce(&["run", "manifest.json"])
            .expect(0, &[]);
    }
    place(&manifest(json!("simclr"), of_one_size(1)))
        .sconce(&["check", "manifest.json"])
        .expect(
            3,
            &["at least 2 views of each training sample are compared, and the data have 1"],
        );
    let mut validated = manifest(json!("simclr"), of_one_size(2));
    validated["data"]["val"] = json!(8);
    place(&validated)
        .sconce(&["check", "manifest.json"])
        .expect(3, &["leave out the data for them (`val`)"]);
}
