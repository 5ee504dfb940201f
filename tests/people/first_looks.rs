//! A part of the data, a dry run, quiet and loud runs.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

fn with_csv() -> (Workplace, Value) {
    let place = Workplace::new(&["sconce-plugin-csv", "sconce-plugin-console"]);
    let manifest = edit(tiny(), "/hooks", json!(["csv", "console"]));
    place.write(&manifest);
    (place, manifest)
}

#[test]
fn limits_are_in_batches_of_their_phase() {
    let (place, _) = with_csv();
    let arguments = [
        "run",
        "manifest.json",
        "--limit-train",
        "2",
        "--limit-val",
        "1",
    ];
    let finished = place
        .sconce(&arguments)
        .expect(0, &["16 train, 8 val, 6 test"]);
    assert!(
        finished.stdout.contains("4 iterations"),
        "{}",
        finished.stdout
    );
    let manifest: Value = serde_json::from_str(&place.read("out/manifest.json")).expect("JSON");
    assert_eq!(
        manifest["train"]["limit_train"], 2,
        "it is told in the run's manifest"
    );
    place
        .sconce(&["check", "manifest.json", "--set", "train.limit_train=0"])
        .expect(2, &["train.limit_train", "at least 1"]);
}

/// The trained weights.
fn weights(place: &Workplace) -> Vec<u8> {
    std::fs::read(place.path("out/weights.safetensors")).expect("they are there")
}

#[test]
fn a_limit_beyond_the_data_changes_no_bit_and_a_lower_one_does() {
    let trained = |limit: &[&str]| {
        let (place, _) = with_csv();
        place
            .sconce(&[&["run", "manifest.json"], limit].concat())
            .expect(0, &[]);
        weights(&place)
    };
    let whole = trained(&[]);
    assert_eq!(trained(&["--limit-train", "3"]), whole);
    assert_eq!(trained(&["--limit-train", "1000"]), whole);
    assert_ne!(trained(&["--limit-train", "2"]), whole);
}

#[test]
fn overfitting_validates_on_what_it_trains_on() {
    let (place, _) = with_csv();
    let optimizer = r#"optimizer={"kind": "adamw", "learning_rate": 0.02}"#;
    let arguments = ["run", "manifest.json", "--overfit", "1", "--set", optimizer];
    let more = ["--set", "train.epochs=150", "--set", "model.hidden=[64]"];
    let finished = place
        .sconce(&[&arguments[..], &more].concat())
        .expect(0, &["8 train, 8 val"]);
    assert!(
        finished.stdout.contains("val: loss 0."),
        "{}",
        finished.stdout
    );
    assert!(
        finished.stdout.contains("accuracy 1.0000"),
        "{}",
        finished.stdout
    );
    assert!(!finished.stdout.contains("test:"), "there is no test");
}

#[test]
fn a_dry_run_keeps_nothing() {
    let (place, _) = with_csv();
    let finished = place
        .sconce(&["run", "manifest.json", "--dry-run"])
        .expect(0, &[]);
    assert!(
        finished.stdout.contains("1 epochs, 1 iterations"),
        "{}",
        finished.stdout
    );
    assert!(finished.stdout.contains("a dry run"), "{}", finished.stdout);
    assert!(!place.path("out").exists(), "nothing is left");
}

#[test]
fn quiet_runs_say_nothing_but_their_results() {
    let (place, _) = with_csv();
    let finished = place
        .sconce(&["run", "manifest.json", "--quiet"])
        .expect(0, &[]);
    assert_eq!(finished.stderr, "");
    assert!(
        finished.stdout.contains("completed: 2 epochs"),
        "{}",
        finished.stdout
    );
}

#[test]
fn words_can_be_json() {
    let (place, _) = with_csv();
    let finished = place
        .sconce(&["run", "manifest.json", "--log-format", "json"])
        .expect(0, &[]);
    let messages: Vec<Value> = finished
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    let first = messages.first().expect("something is said");
    assert_eq!(
        (&first["level"], &first["source"]),
        (&json!("info"), &json!("sconce"))
    );
    assert!(
        first["message"]
            .as_str()
            .is_some_and(|text| text.contains("run `tiny`"))
    );
    assert!(
        messages
            .iter()
            .any(|message| message["source"] == "console")
    );
    assert!(first["time"].as_f64().is_some_and(|time| time > 1e9));
}

#[test]
fn a_loss_that_is_no_number_is_warned_of_once() {
    let (place, _) = with_csv();
    let arguments = [
        "run",
        "manifest.json",
        "--set",
        "optimizer.learning_rate=1e38",
    ];
    let finished = place.sconce(&arguments).expect(
        0,
        &[
            "in train, epoch 0",
            "`stop-on-nan`",
            "a lower learning rate",
        ],
    );
    let warnings = finished.stderr.matches("will hardly recover").count();
    assert_eq!(warnings, 1, "{}", finished.stderr);
}

#[test]
fn names_of_other_systems_are_understood() {
    let place = Workplace::new(&[]);
    let mut manifest = edit(tiny(), "/optimizer", json!({"kind": "adamw", "lr": 0.01}));
    manifest["callbacks"] = json!([]);
    place.run(&manifest).expect(
        2,
        &["did you mean `learning_rate`?", "did you mean `hooks`?"],
    );
}

#[test]
fn without_a_command_it_says_what_is_here_and_what_to_do_next() {
    let place = Workplace::new(&[]);
    let finished = place.sconce::<&str>(&[]).expect(0, &[]);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines.len() <= 10, "{}", finished.stdout);
    for words in ["hooks of", "demo", "new-run", "new-plugin NAME", "help"] {
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
}

#[test]
fn the_demonstration_trains_and_writes_a_report() {
    let place = Workplace::new(&[]);
    let finished = place.sconce(&["demo", "--epochs", "2"]).expect(0, &[]);
    for words in [
        "the report: sconce-demo/run/report.html",
        "Next:",
        "compare",
    ] {
        assert!(finished.stdout.contains(words), "{}", finished.stdout);
    }
    assert!(place.read("sconce-demo/run/report.html").contains("<html"));
    // Its manifest is one's own now, and a second demonstration does not touch it.
    place
        .sconce(&["check", "sconce-demo/demo.json"])
        .expect(0, &[]);
    place
        .sconce(&["demo"])
        .expect(2, &["`sconce-demo` is there already", "sconce demo OTHER"]);
}
