//! Where a validation saw averages in the parameters' place, these are what checkpoints keep for use, and what
//! `eval` and `predict` load; the training's own parameters are beside them.

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &["sconce-plugin-checkpoints", "sconce-plugin-optimisation"];
const TAG: &str = "best-loss";

/// Averages that are far from the parameters, and the best checkpoint by what they measured.
fn manifest(ema: Value, checkpoint: Value) -> Value {
    let hooks = json!([
        {"hook": "ema", "config": ema},
        {"hook": "checkpoint", "config": checkpoint}
    ]);
    let manifest = edit(tiny(), "/hooks", hooks);
    let manifest = edit(manifest, "/optimizer/learning_rate", json!(0.3));
    edit(manifest, "/train/epochs", json!(4))
}

fn slow() -> Value {
    json!({"decay": 0.9, "warm_up": "none"})
}

fn best_by_loss() -> Value {
    json!({"epochs": 0, "save_last": false, "best": [{"monitor": "loss"}]})
}

fn run(manifest: &Value) -> Workplace {
    let place = Workplace::new(PLUGINS);
    place.run(manifest).expect(0, &[]);
    place
}

fn state(place: &Workplace, tag: &str) -> Value {
    let text = place.read(&format!("out/checkpoints/{tag}/state.json"));
    serde_json::from_str(&text).expect("JSON")
}

/// The metric's value by which a checkpoint was chosen.
fn noted(place: &Workplace) -> f64 {
    let state = state(place, TAG);
    let values = state["values"].as_array().expect("values");
    let note = values
        .iter()
        .find(|value| value["name"] == "best_checkpoint/checkpoint");
    let note = &note.expect("a note")["value"];
    assert_eq!(note["tag"], TAG);
    note["value"].as_f64().expect("a number")
}

fn eval(place: &Workplace, more: &[&str]) -> Finished {
    place.sconce(&[&["eval", "--json"], more].concat())
}

/// Validates the best checkpoint.
fn eval_best(place: &Workplace, more: &[&str]) -> Finished {
    let checkpoint = format!("out/checkpoints/{TAG}");
    let best = ["manifest.json", "--checkpoint", &checkpoint];
    eval(place, &[&best[..], &["--phase", "val"], more].concat())
}

fn loss(finished: Finished) -> f64 {
    let finished = finished.expect(0, &[]);
    let printed: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    printed["metrics"]["loss"].as_f64().expect("a loss")
}

fn test_loss_of_the_run(place: &Workplace) -> f64 {
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    record["metrics"]["test"]["loss"].as_f64().expect("a loss")
}

#[track_caller]
fn assert_same(found: f64, expected: f64) {
    assert!(
        found.to_bits() == expected.to_bits(),
        "{found}, expected {expected}"
    );
}

#[test]
fn what_chose_the_best_checkpoint_is_what_it_keeps_and_what_eval_and_predict_load() {
    let place = run(&manifest(slow(), best_by_loss()));
    let expected = noted(&place);
    let checkpoint = format!("out/checkpoints/{TAG}");
    let at = ["--checkpoint", &checkpoint];
    let val = ["--phase", "val"];
    // What the run kept is what it ended with; the best is named beside it.
    let kept = [
        "out/weights.safetensors",
        &checkpoint,
        "the best by `val/loss`",
    ];
    eval(&place, &["out"]).expect(0, &kept);
    // Before its end, its best counts: by the run's directory, in either place, and by the checkpoint's; by the set's
    // own name too.
    let [record, beside] = ["out/run.json", "ended.json"].map(|name| place.path(name));
    fs::rename(&record, &beside).expect("renamed");
    for arguments in [
        vec!["out"],
        vec!["manifest.json", "--checkpoint", "out"],
        [&["manifest.json"], &at[..]].concat(),
        vec!["out", "--set", "ema"],
        vec!["out", "--set", "ema", "--set", "train.epochs=9"],
    ] {
        let finished = eval(&place, &[&arguments[..], &val].concat());
        assert!(
            finished.stderr.contains("the set `ema`"),
            "{}",
            finished.stderr
        );
        assert_same(loss(finished), expected);
    }
    eval(&place, &["out"]).expect(0, &[&checkpoint, "the best by `val/loss`"]);
    let parameters = loss(eval(
        &place,
        &[&["out", "--set", "parameters"], &val[..]].concat(),
    ));
    assert!(
        parameters.to_bits() != expected.to_bits(),
        "they are others"
    );
    let own = "out/checkpoints/best-loss/trained.safetensors";
    let own = ["manifest.json", "--checkpoint", own, "--phase", "val"];
    assert_same(loss(eval(&place, &own)), parameters);
    // A name that is not there, two names, and none at all.
    eval(&place, &["out", "--set", "eam"]).expect(2, &["no set `eam`", "`ema`, `parameters`"]);
    eval(&place, &["out", "--set", "ema", "--set", "x"]).expect(2, &["`--set ema` and `--set x`"]);
    eval(&place, &["manifest.json"]).expect(2, &["`--checkpoint` is missing", "run's directory"]);
    eval(&place, &["plugins"]).expect(2, &["not a run's directory"]);

    let predict = |more: &[&str]| {
        place
            .sconce(&[&["predict"], more].concat())
            .expect(0, &[])
            .stdout
    };
    let averaged = predict(&["out"]);
    assert_eq!(averaged, predict(&[&["manifest.json"], &at[..]].concat()));
    assert_ne!(averaged, predict(&["out", "--set", "parameters"]));

    // What the run ended with, too: what the test measured, and the parameters beside it.
    fs::rename(&beside, &record).expect("renamed");
    let results = ["manifest.json", "--checkpoint", "out/weights.safetensors"];
    let measured = test_loss_of_the_run(&place);
    assert_same(loss(eval(&place, &results)), measured);
    let own = loss(eval(
        &place,
        &[&results[..], &["--set", "parameters"]].concat(),
    ));
    assert!(own.to_bits() != measured.to_bits(), "they are others");
    eval(&place, &[&results[..], &["--set", "x"]].concat())
        .expect(2, &["no set `x`", "`ema`, `parameters`"]);
}

#[test]
fn the_best_that_is_loaded_at_the_end_is_what_the_test_measures() {
    let mut checkpoint = best_by_loss();
    checkpoint["load_best"] = json!(true);
    let place = run(&manifest(slow(), checkpoint));
    let measured = test_loss_of_the_run(&place);
    let of = |place: &Workplace, weights: &str| {
        loss(eval(place, &["manifest.json", "--checkpoint", weights]))
    };
    assert_same(of(&place, &format!("out/checkpoints/{TAG}")), measured);
    assert_same(of(&place, "out/weights.safetensors"), measured);
    let finished = eval(&place, &["out"]).expect(0, &["what the run kept"]);
    assert!(
        !finished.stderr.contains("the best by"),
        "it is what is kept: {}",
        finished.stderr
    );
}

#[test]
fn small_checkpoints_keep_both_sets_and_a_run_resumes_from_its_own_parameters() {
    let mut small = best_by_loss();
    small["parameters_only"] = json!(true);
    let place = run(&manifest(slow(), small));
    assert_same(loss(eval_best(&place, &[])), noted(&place));
    assert!(
        place
            .path(&format!("out/checkpoints/{TAG}/trained.safetensors"))
            .is_file()
    );
    eval(&place, &["out", "--set", "parameters"]).expect(0, &[]);

    let place = run(&manifest(slow(), json!({"epochs": 2, "keep_last": 9})));
    let files = ["out/weights.safetensors", "out/parameters.safetensors"];
    let expected = files.map(|file| fs::read(place.path(file)).expect("weights"));
    let resume = ["run", "manifest.json", "--resume", "epoch-2"];
    place.sconce(&resume).expect(0, &[]);
    assert!(files.map(|file| fs::read(place.path(file)).expect("weights")) == expected);
    // Nothing notes a best one: what the run kept; without that, its last checkpoint.
    eval(&place, &["out"]).expect(0, &["out/weights.safetensors", "what the run kept"]);
    fs::remove_file(place.path("out/run.json")).expect("removed");
    eval(&place, &["out"]).expect(0, &["out/checkpoints/epoch-4", "the last checkpoint"]);
}

#[test]
fn only_checkpoints_of_averages_name_a_measured_set_and_other_formats_are_refused() {
    let place = run(&manifest(slow(), json!({})));
    assert_eq!(state(&place, "epoch-1")["measured"], "ema");
    // The averages are published, but the validation saw the parameters.
    let unseen = json!({"decay": 0.9, "warm_up": "none", "evaluate": []});
    let place = run(&manifest(unseen, best_by_loss()));
    assert_eq!(state(&place, TAG).get("measured"), None);
    assert!(!place.path("out/parameters.safetensors").exists());
    assert_same(loss(eval_best(&place, &[])), noted(&place));
    let averages = loss(eval_best(&place, &["--set", "ema"]));
    assert!(
        averages.to_bits() != noted(&place).to_bits(),
        "they are others"
    );
    // A host that reads other formats says which.
    let path = place.path(&format!("out/checkpoints/{TAG}/index.json"));
    let text = fs::read_to_string(&path).expect("an index");
    fs::write(&path, text.replace("\"format\": 1", "\"format\": 2")).expect("written");
    let checkpoint = format!("out/checkpoints/{TAG}");
    let at = ["manifest.json", "--checkpoint", &checkpoint];
    eval(&place, &at).expect(2, &["format 2, this host reads 1"]);
}
