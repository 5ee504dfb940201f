//! Training works, and works the same way twice.

use sconce_tests::{Workplace, digits, edit, shared_mnist, tiny};
use serde_json::json;
use sha2::{Digest, Sha256};

const STANDARD: &[&str] = &[
    "sconce-plugin-console",
    "sconce-plugin-csv",
    "sconce-plugin-stop-after",
];

/// The last column of that name in a CSV file of a run.
fn last(place: &Workplace, file: &str, column: &str) -> f64 {
    let text = place.read(&format!("out/{file}"));
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    let index = header
        .split(',')
        .position(|name| name == column)
        .unwrap_or_else(|| panic!("no column {column} in {header}"));
    let last = lines.last().expect("a row");
    let cell = last.split(',').nth(index).expect("a cell");
    cell.parse().expect("a number")
}

#[test]
fn the_digits_are_at_chance_first_and_learned_in_five_epochs() {
    let place = Workplace::new(STANDARD);
    let manifest = edit(digits(), "/hooks", json!(["console", "csv"]));
    let manifest = edit(manifest, "/train/initial_validation", json!(true));
    let finished = place.run(&manifest).expect(0, &["epoch"]);
    assert!(
        finished.stdout.starts_with("completed: 5 epochs"),
        "{}",
        finished.stdout
    );
    let first = place.read("out/val.csv");
    let rows: Vec<&str> = first.lines().collect();
    assert_eq!(
        rows.len(),
        1 + 1 + 5,
        "header, initial validation, five epochs:\n{first}"
    );
    let column = rows[0]
        .split(',')
        .position(|name| name == "accuracy")
        .expect("accuracy");
    let untrained: f64 = rows[1]
        .split(',')
        .nth(column)
        .expect("a cell")
        .parse()
        .expect("a number");
    assert!(
        untrained < 0.3,
        "an untrained model is near chance, found {untrained}"
    );
    let trained = last(&place, "val.csv", "accuracy");
    assert!(trained > 0.95, "validation accuracy {trained}");
    assert!(last(&place, "test.csv", "accuracy") > 0.93);
}

#[test]
fn the_real_mnist_images_are_learned() {
    let Some((images, labels)) = shared_mnist() else {
        return;
    };
    let place = Workplace::new(STANDARD);
    let manifest = edit(digits(), "/model", json!({"kind": "mlp", "hidden": [256]}));
    let manifest = edit(
        manifest,
        "/data",
        json!({"kind": "idx", "images": images, "labels": labels, "val": {"count": 1000}}),
    );
    let manifest = edit(manifest, "/train/epochs", json!(10));
    let manifest = edit(manifest, "/hooks", json!(["csv"]));
    place.run(&manifest).expect(0, &["9000 train, 1000 val"]);
    let accuracy = last(&place, "val.csv", "accuracy");
    assert!(accuracy >= 0.94, "validation accuracy {accuracy}");
}

/// The bits of a run: every loss, as the recorder wrote it.
fn bits(seed: u64, threads: u64) -> String {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    let manifest = edit(tiny(), "/seed", json!(seed));
    let manifest = edit(manifest, "/threads", json!(threads));
    let manifest = edit(
        manifest,
        "/optimizer",
        json!({"kind": "adamw", "learning_rate": 0.01}),
    );
    let manifest = edit(manifest, "/hooks", json!(["recorder"]));
    place.run(&manifest).expect(0, &[]);
    let record = place.read("out/record.jsonl");
    assert!(record.lines().count() > 50);
    format!("{:x?}", Sha256::digest(record.as_bytes()))
}

#[test]
fn two_runs_of_the_same_manifest_end_in_the_same_bits() {
    for threads in [1, 2] {
        assert_eq!(bits(7, threads), bits(7, threads), "{threads} threads");
    }
    assert_ne!(bits(7, 1), bits(8, 1), "another seed is another run");
}

#[test]
fn a_run_without_hooks_and_a_run_without_epochs_are_runs_too() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    place
        .run(&tiny())
        .expect(0, &["hooks, in the order of their calls: none"]);
    let manifest = edit(tiny(), "/train/epochs", json!(0));
    let manifest = edit(manifest, "/hooks", json!(["recorder"]));
    place.run(&manifest).expect(0, &[]);
    let points: Vec<String> = place
        .records("record.jsonl")
        .iter()
        .filter(|call| call["phase"] == "train")
        .filter_map(|call| call["point"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(
        points,
        ["before_run", "before_loop", "after_loop", "after_run"]
    );
}

#[test]
fn of_very_many_hooks_the_first_are_listed() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    place.write(&edit(tiny(), "/hooks", json!(vec!["recorder"; 60])));
    let checked = place.sconce(&["check", "manifest.json"]).expect(0, &[]);
    let has = |words: &str| checked.stdout.contains(words);
    assert!(has("recorder-50 (") && has("and 10 more"));
    assert!(!has("recorder-51 ("));
}

#[test]
fn values_on_the_command_line_win_over_the_manifest() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    let manifest = edit(tiny(), "/hooks", json!(["recorder"]));
    place.write(&manifest);
    let arguments = [
        "run",
        "manifest.json",
        "--set",
        "train.epochs=1",
        "--output",
        "elsewhere",
    ];
    place.sconce(&arguments).expect(0, &[]);
    let record = place.read("elsewhere/record.jsonl");
    assert!(record.contains("\"epochs\":1"));
    let saved = place.read("elsewhere/manifest.json");
    let saved: serde_json::Value = serde_json::from_str(&saved).expect("JSON");
    assert_eq!(saved["train"]["epochs"], 1);
    assert_eq!(saved["train"]["accumulate"], 1, "defaults are filled in");
}
