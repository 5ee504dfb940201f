//! `early-stopping`, `stop-on-nan`, `time-limit` and `check`: when they end a run, and how.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-control",
    "sconce-plugin-checkpoints",
    "sconce-fixture-faults",
    "sconce-fixture-recorder",
];

fn run(manifest: Value, hooks: Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&edit(manifest, "/hooks", hooks));
    (place, finished)
}

fn long() -> Value {
    edit(tiny(), "/train/epochs", json!(8))
}

/// Learns nothing: the loss stays as it is to the last bit.
fn stuck() -> Value {
    edit(long(), "/optimizer/learning_rate", json!(1e-30))
}

/// Learns a little in every epoch.
fn learning() -> Value {
    edit(long(), "/optimizer/learning_rate", json!(0.05))
}

/// Gets infinite within a few updates.
fn exploding() -> Value {
    edit(long(), "/optimizer/learning_rate", json!(1e30))
}

fn record(place: &Workplace) -> Value {
    serde_json::from_str(&place.read("out/run.json")).expect("JSON")
}

fn hook(name: &str, config: &Value) -> Value {
    json!([{"hook": name, "config": config}])
}

#[test]
fn early_stopping_stops_when_nothing_gets_better() {
    for (manifest, config, epochs) in [
        (stuck(), json!({}), 4),
        (stuck(), json!({"patience": 1}), 2),
        (stuck(), json!({"patience": 2, "start_from": 3}), 6),
        (
            stuck(),
            json!({"monitor": "train/accuracy", "patience": 5}),
            6,
        ),
        (learning(), json!({"monitor": "train/loss"}), 8),
        (
            learning(),
            json!({"monitor": "train/loss", "min_delta": 100.0}),
            4,
        ),
        (
            learning(),
            json!({"monitor": "train/loss", "rule": "greater"}),
            4,
        ),
        (
            learning(),
            json!({"monitor": "train/loss", "stopping_threshold": 1000.0}),
            1,
        ),
        (
            learning(),
            json!({"monitor": "train/loss", "divergence_threshold": 0.0}),
            1,
        ),
        (
            learning(),
            json!({"monitor": "train/loss", "baseline": 0.0, "patience": 2}),
            2,
        ),
    ] {
        let (place, finished) = run(manifest, hook("early-stopping", &config));
        finished.expect(0, &[]);
        let record = record(&place);
        assert_eq!(record["epochs"], epochs, "{config}: {}", record["reason"]);
        let outcome = if epochs == 8 { "completed" } else { "stopped" };
        assert_eq!(record["outcome"], outcome, "{config}");
    }
}

#[test]
fn an_epoch_without_a_validation_counts_for_nothing() {
    let manifest = edit(stuck(), "/train/validate_every", json!(2));
    let (place, finished) = run(manifest, hook("early-stopping", &json!({"patience": 2})));
    finished.expect(0, &[]);
    assert_eq!(record(&place)["epochs"], 6);
}

#[test]
fn a_resumed_patience_is_the_one_that_was_left() {
    let save = json!({"hook": "asker", "config": {"at": "after_cycle", "what": "save_checkpoint",
        "text": "a", "after_iteration": 6, "once": true}});
    let back = json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train",
        "what": "roll_back", "text": "a", "after_iteration": 10, "once": true}});
    let (place, finished) = run(stuck(), json!(["early-stopping", save, back]));
    finished.expect(0, &[]);
    assert_eq!(record(&place)["epochs"], 4);
}

#[test]
fn bad_numbers_end_the_run_where_they_are_watched() {
    for (config, words) in [
        (json!({}), "the loss is "),
        (
            json!({"watch": ["outputs"]}),
            "the outputs have a value that is infinite or NaN",
        ),
        (json!({"watch": ["gradients"]}), "the gradient of `"),
        (
            json!({"watch": ["parameters"]}),
            "` has a value that is infinite or NaN",
        ),
        (json!({"watch": ["metrics"]}), "the metric `loss` is "),
        (json!({"allowed": 2}), "in each of 3 iterations in a row"),
    ] {
        let (_, finished) = run(exploding(), hook("stop-on-nan", &config));
        finished.expect(4, &["hook `stop-on-nan` failed", words]);
    }
    let (place, finished) = run(exploding(), hook("stop-on-nan", &json!({"action": "stop"})));
    finished.expect(0, &[]);
    let record = record(&place);
    assert_eq!(record["outcome"], "stopped");
    assert!(
        record["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("the loss is "))
    );
}

#[test]
fn updates_of_bad_losses_are_left_out() {
    // One bad loss: the third batch's is scaled beyond all numbers, and its gradients with it.
    let scale = json!({"hook": "asker", "config": {"at": "after_loss", "phase": "train",
        "what": "scale_loss", "number": 1e300, "after_iteration": 2, "once": true}});
    let guard = json!({"hook": "stop-on-nan", "config":
        {"watch": ["gradients"], "action": "skip-update"}});
    let (place, finished) = run(learning(), json!([scale, guard]));
    finished.expect(0, &["is infinite or NaN; the update is left out"]);
    let record = record(&place);
    assert_eq!(
        (&record["iterations"], &record["updates"]),
        (&json!(24), &json!(23))
    );
    // One after the other: that is no run.
    let scale = json!({"hook": "asker", "config": {"at": "after_loss", "phase": "train",
        "what": "scale_loss", "number": 1e300, "after_iteration": 2}});
    let guard = json!({"hook": "stop-on-nan", "config":
        {"watch": ["gradients"], "action": "skip-update", "allowed": 3}});
    let (_, finished) = run(learning(), json!([scale, guard]));
    finished.expect(4, &["iteration 5", "in each of 4 iterations in a row"]);
}

#[test]
fn early_stopping_brings_the_best_parameters_back() {
    // Every epoch is better than none, and the first one is the best by this rule.
    let config = json!({"monitor": "train/loss", "rule": "greater", "restore_best": true});
    let save = json!({"hook": "checkpoint", "config": {}});
    let hooks = json!([{"hook": "early-stopping", "config": config}, save]);
    let (place, finished) = run(learning(), hooks);
    finished.expect(0, &[]);
    assert_eq!(record(&place)["epochs"], 4);
    let weights = std::fs::read(place.path("out/weights.safetensors")).expect("weights");
    let weights = safetensors::SafeTensors::deserialize(&weights).expect("a file");
    let best = place.checkpoint("epoch-1");
    assert!(!weights.is_empty());
    for (name, view) in weights.tensors() {
        assert_eq!(view.data(), best[&format!("parameters/{name}")].1, "{name}");
    }
}

#[test]
fn a_healthy_run_is_left_alone() {
    let config =
        json!({"watch": ["loss", "outputs", "gradients", "parameters", "metrics"], "every": 2});
    let hooks = json!([
        {"hook": "stop-on-nan", "config": config},
        {"hook": "time-limit", "config": {"hours": 5}},
        {"hook": "check", "config": {"monitor": "loss", "required": 1000}},
        {"hook": "early-stopping", "config": {"monitor": "train/loss"}},
    ]);
    let (place, finished) = run(learning(), hooks);
    finished.expect(0, &[]);
    assert_eq!(record(&place)["outcome"], "completed");
}

#[test]
fn the_time_is_over_after_an_iteration_or_an_epoch_and_leaves_a_checkpoint() {
    let tiny_time = |more: Value| {
        let mut config = json!({"seconds": 1e-9, "save": "in-time"});
        config
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        config
    };
    for (more, iterations) in [
        (json!({}), 1),
        (json!({"at": "epoch"}), 3),
        (json!({"of": "process"}), 1),
    ] {
        let (place, finished) = run(long(), hook("time-limit", &tiny_time(more.clone())));
        finished.expect(0, &[]);
        let record = record(&place);
        assert_eq!(record["iterations"], iterations, "{more}");
        assert!(
            record["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains("is over"))
        );
        assert!(
            place
                .checkpoint("in-time")
                .contains_key("parameters/fc1.weight")
        );
    }
}

#[test]
fn what_must_be_reached_and_is_not_fails_stops_or_warns() {
    let check = |more: Value| {
        let mut config = json!({"monitor": "accuracy", "required": 2.0});
        config
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        config
    };
    let words = "`accuracy` has not reached 2 in 2 epochs: its best was";
    let (_, finished) = run(long(), hook("check", &check(json!({"by_epoch": 2}))));
    finished.expect(4, &[words]);
    let config = check(json!({"by_epoch": 2, "otherwise": "stop"}));
    let (place, finished) = run(long(), hook("check", &config));
    finished.expect(0, &[]);
    assert_eq!(record(&place)["epochs"], 2);
    let config = check(json!({"otherwise": "warn"}));
    let (_, finished) = run(tiny(), hook("check", &config));
    finished.expect(0, &[words]);
    let config = json!({"monitor": "loss", "required": 1000, "stop_when_reached": true});
    let (place, finished) = run(long(), hook("check", &config));
    finished.expect(0, &[]);
    assert_eq!(record(&place)["epochs"], 1);
}

#[test]
fn nonsense_is_refused() {
    for (name, config, words) in [
        ("early-stopping", json!({"monitor": "los"}), "los"),
        ("early-stopping", json!({"patience": 0}), "patience"),
        ("early-stopping", json!({"min_delta": -1}), "min_delta"),
        (
            "stop-on-nan",
            json!({"watch": []}),
            "`watch` must name something",
        ),
        ("stop-on-nan", json!({"watch": ["lss"]}), "lss"),
        ("time-limit", json!({}), "together must be above 0"),
        ("check", json!({"monitor": "loss"}), "required"),
    ] {
        let (_, finished) = run(tiny(), hook(name, &config));
        finished.expect_refused(words);
    }
}
