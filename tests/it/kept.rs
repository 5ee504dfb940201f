//! The metrics that a run gives are those of the weights that it keeps.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-checkpoints",
    "sconce-plugin-control",
    "sconce-plugin-csv",
    "sconce-plugin-optimisation",
    "sconce-plugin-stop-after",
    "sconce-fixture-recorder",
];

/// Six epochs whose losses go up and down, and a test.
fn manifest(hooks: &Value) -> Value {
    let manifest = edit(
        edit(tiny(), "/train/epochs", json!(6)),
        "/hooks",
        hooks.clone(),
    );
    edit(manifest, "/optimizer/learning_rate", json!(1.5))
}

fn json_of(place: &Workplace, file: &str) -> Value {
    serde_json::from_str(&place.read(file)).expect("JSON")
}

/// A metric as `sconce eval` measures it with the weights that the run has kept.
fn measured(place: &Workplace, phase: &str) -> f64 {
    let at = [
        "eval",
        "manifest.json",
        "--checkpoint",
        "out/weights.safetensors",
    ];
    let finished = place.sconce(&[&at[..], &["--phase", phase, "--json"]].concat());
    let object: Value = serde_json::from_str(&finished.expect(0, &[]).stdout).expect("JSON");
    object["metrics"]["loss"].as_f64().expect("a loss")
}

/// Asserts that all metrics of the record are those of the kept weights.
#[track_caller]
fn assert_measured(what: &Value, place: &Workplace, phases: &[&str]) {
    let record = json_of(place, "out/run.json");
    for phase in phases {
        let recorded = record["metrics"][phase]["loss"].as_f64();
        assert_eq!(
            recorded,
            Some(measured(place, phase)),
            "{what}: {phase}\n{record:#}"
        );
    }
}

fn best() -> Value {
    json!({"hook": "checkpoint", "config": {"best": [{"monitor": "loss"}], "load_best": true}})
}

/// Ends the run in the third epoch.
fn stop() -> Value {
    json!({"hook": "stop-after", "config": {"iterations": 8}})
}

#[test]
fn whatever_is_kept_has_the_metrics_that_are_recorded_of_it() {
    let ema = |decay: f64| json!({"hook": "ema", "config": {"decay": decay, "warm_up": "none"}});
    let early = json!({"hook": "early-stopping", "config": {"patience": 9, "restore_best": true}});
    let of_parameters = edit(best(), "/config/set", json!("parameters"));
    let small = edit(best(), "/config/parameters_only", json!(true));
    let background = edit(best(), "/config/background", json!(true));
    for (hooks, phases, checkpoint) in [
        (json!([]), &["val", "test"][..], None),
        (json!([best()]), &["val", "test"], Some("best-loss")),
        (json!([small]), &["val", "test"], Some("best-loss")),
        (json!([background]), &["val", "test"], Some("best-loss")),
        (json!([early]), &["val", "test"], Some("early-stopping")),
        (json!([ema(0.5)]), &["val", "test"], None),
        (
            json!([ema(0.5), best()]),
            &["val", "test"],
            Some("best-loss"),
        ),
        // Nobody has measured the parameters of that epoch without the averages.
        (json!([ema(0.9), of_parameters]), &["test"], None),
        (json!([stop()]), &["test"], None),
    ] {
        let place = Workplace::new(PLUGINS);
        place.run(&manifest(&hooks)).expect(0, &[]);
        assert_measured(&hooks, &place, phases);
        let record = json_of(&place, "out/run.json");
        assert_eq!(record["kept"]["checkpoint"], json!(checkpoint), "{hooks}");
    }
}

#[test]
fn a_validation_of_earlier_weights_is_given_as_the_last_one() {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&manifest(&json!([stop()]))).expect(0, &[]);
    let words = "not kept: val of epoch 2: loss ";
    assert!(finished.stdout.contains(words), "{}", finished.stdout);
    let record = json_of(&place, "out/run.json");
    assert_eq!(record["kept"]["iteration"], 8);
    assert_eq!(record["metrics"]["val"], Value::Null);
    assert_eq!(record["last"]["val"]["iteration"], 6);
    assert_eq!(record["last"]["test"], Value::Null);
}

#[test]
fn the_kept_checkpoint_is_named_with_the_last_epoch_beside_it_wherever_metrics_are_shown() {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&manifest(&json!([best(), "csv", "recorder"])));
    let finished: Finished = finished.expect(0, &[]);
    let record = json_of(&place, "out/run.json");
    let epoch = record["kept"]["epoch"].as_u64().expect("an epoch");
    assert!(epoch < 6, "the best is not the last: {record:#}");
    assert_eq!(record["last"]["val"]["epoch"], 6);
    assert_eq!(record["last"]["test"], Value::Null);
    let kept = record["metrics"]["val"]["loss"].as_f64().expect("a loss");
    let last = record["last"]["val"]["metrics"]["loss"]
        .as_f64()
        .expect("a loss");
    assert!(kept < last, "{record:#}");

    let line = format!("kept: epoch {epoch}, from the checkpoint `best-loss`");
    for words in [
        line.as_str(),
        "not kept: val of epoch 6: loss",
        "not kept: train of epoch 6",
    ] {
        assert!(
            finished.stdout.contains(words),
            "no {words:?} in:\n{}",
            finished.stdout
        );
    }
    let kept_words = format!("(epoch {epoch}, best-loss), last ");
    let listed = place.sconce(&["runs", "out", "--metric", "val/loss"]);
    let listed = listed.expect(0, &[]).stdout;
    assert!(listed.contains(&kept_words), "{listed}");
    let compared = place
        .sconce(&["compare", "out", "out", "--json"])
        .expect(0, &[]);
    let compared: Value = serde_json::from_str(&compared.stdout).expect("JSON");
    assert_eq!(compared["metrics"]["val/loss"][0], json!(kept));
    assert_eq!(compared["last"]["val/loss"][0], json!(last));
    assert_eq!(compared["kept"][0]["checkpoint"], "best-loss");
    let compared = place
        .sconce(&["compare", "out", "out"])
        .expect(0, &[])
        .stdout;
    assert!(
        compared.contains(&format!("epoch {epoch}, best-loss")),
        "{compared}"
    );
    assert!(compared.contains("(last "), "{compared}");

    // Hooks at the end see the same.
    let calls = place.records("record.jsonl");
    let end = calls
        .iter()
        .find(|call| call["point"] == "after_run")
        .expect("the end");
    let shown = end["metrics"].as_array().expect("metrics");
    assert!(
        shown.contains(&json!(["loss", record["metrics"]["train"]["loss"]])),
        "{end}"
    );
}

#[test]
fn a_resumed_run_gives_the_metrics_that_one_never_stopped_gives() {
    let place = Workplace::new(PLUGINS);
    let hooks = json!([edit(best(), "/config/keep_last", json!(9))]);
    place.run(&manifest(&hooks)).expect(0, &[]);
    let parts = ["kept", "metrics", "last"];
    let of = |record: &Value| parts.map(|part| record[part].clone());
    let expected = of(&json_of(&place, "out/run.json"));
    for tag in ["epoch-5", "epoch-6"] {
        let resume = ["run", "manifest.json", "--resume", tag];
        place.sconce(&resume).expect(0, &[]);
        assert_eq!(of(&json_of(&place, "out/run.json")), expected, "{tag}");
    }
}
