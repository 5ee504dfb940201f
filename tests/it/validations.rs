//! Validations by epochs and by iterations, and what resumes in the middle.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-fixture-faults",
    "sconce-plugin-csv",
    "sconce-plugin-sockets",
];

/// Three batches an epoch, two epochs.
fn manifest(every: Value) -> Value {
    let manifest = edit(tiny(), "/train/validate_every", every);
    let csv = json!({"hook": "csv", "config": {"variables": ["loss", "accuracy"]}});
    edit(manifest, "/hooks", json!([csv]))
}

/// The iterations after which the run has validated.
fn validated(place: &Workplace) -> Vec<u64> {
    let table = place.read("out/val.csv");
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let column = header
        .iter()
        .position(|name| *name == "iteration")
        .expect("a column");
    let cell = |line: &str| {
        line.split(',')
            .nth(column)
            .and_then(|cell| cell.parse().ok())
    };
    lines.map(|line| cell(line).expect("a number")).collect()
}

fn ran(manifest: &Value) -> Workplace {
    let place = Workplace::new(PLUGINS);
    place.run(manifest).expect(0, &[]);
    place
}

#[test]
fn validations_follow_epochs_or_iterations() {
    for (every, accumulate, expected) in [
        (json!(2), 1, vec![6]),
        (json!({"iterations": 2}), 1, vec![2, 4, 6]),
        (json!({"iterations": 4}), 1, vec![4, 6]),
        // Within an update it waits for the update's end.
        (json!({"iterations": 1}), 2, vec![2, 3, 5, 6]),
    ] {
        let manifest = edit(
            manifest(every.clone()),
            "/train/accumulate",
            json!(accumulate),
        );
        assert_eq!(validated(&ran(&manifest)), expected, "{every}");
    }
    for (every, words) in [
        (json!({"iterations": 0}), "iterations"),
        (json!({"iteration": 2}), "iteration"),
        (json!("often"), "validate_every"),
    ] {
        let place = Workplace::new(PLUGINS);
        place.write(&manifest(every));
        place
            .sconce(&["check", "manifest.json"])
            .expect(2, &[words, "train.validate_every"]);
    }
}

#[test]
fn a_run_resumed_before_or_after_a_validation_within_an_epoch_has_the_same_bits() {
    let manifest = manifest(json!({"iterations": 2}));
    let results = |place: &Workplace| {
        let weights = std::fs::read(place.path("out/weights.safetensors")).expect("weights");
        (
            weights,
            ["train", "val", "test"].map(|phase| place.read(&format!("out/{phase}.csv"))),
        )
    };
    let expected = results(&ran(&manifest));
    // Saved before the second validation, and after it.
    for (at, phase) in [("after_iter", "train"), ("after_loop", "val")] {
        let asker = |what: &str, text: &str| {
            json!({"hook": "asker", "priority": "LOWEST", "config":
                {"at": at, "phase": phase, "what": what, "text": text, "after_iteration": 4, "once": true}})
        };
        let place = Workplace::new(PLUGINS);
        let mut stopped = manifest.clone();
        let hooks = stopped["hooks"].as_array_mut().expect("a list");
        hooks.extend([asker("save_checkpoint", "here"), asker("stop", "enough")]);
        place.run(&stopped).expect(0, &[]);
        place.write(&manifest);
        let resumed = place.sconce(&[
            "run",
            "manifest.json",
            "--resume",
            "here",
            "--allow-changes",
        ]);
        resumed.expect(0, &["resumes from"]);
        assert_eq!(validated(&place), [2, 4, 6], "saved at {at}({phase})");
        assert!(results(&place) == expected, "saved at {at}({phase})");
    }
}

#[test]
fn validations_within_epochs_are_the_same_on_two_ranks() {
    let manifest = edit(
        manifest(json!({"iterations": 1})),
        "/train/accumulate",
        json!(2),
    );
    let manifest = edit(manifest, "/distributed", json!({"batches": "update"}));
    let expected = place_values(&ran(&manifest));
    let place = Workplace::new(PLUGINS);
    place.write(&manifest);
    place
        .sconce(&["launch", "-n", "2", "manifest.json"])
        .expect(0, &[]);
    assert_eq!(place_values(&place), expected);
}

/// The metrics of each validation.
fn place_values(place: &Workplace) -> Vec<Vec<String>> {
    let table = place.read("out/val.csv");
    let header: Vec<String> = table
        .lines()
        .take(1)
        .flat_map(|line| line.split(','))
        .map(str::to_owned)
        .collect();
    let wanted: Vec<usize> = (0..header.len())
        .filter(|&column| ["loss", "accuracy"].contains(&header[column].as_str()))
        .collect();
    let rows = table.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        wanted
            .iter()
            .map(|&column| cells[column].to_owned())
            .collect()
    });
    rows.collect()
}
