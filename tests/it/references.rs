//! Metrics, modules and data sets that hooks' entries name are there, or the run does not start.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

fn check(hooks: Value) -> Finished {
    let place = Workplace::new(&[
        "sconce-fixture-taker",
        "sconce-fixture-tensors",
        "sconce-fixture-recorder",
    ]);
    place.write(&edit(tiny(), "/hooks", hooks));
    place.sconce(&["check", "manifest.json"])
}

fn watcher(config: Value) -> Value {
    json!({"hook": "watcher", "config": config})
}

#[test]
fn a_metric_that_nobody_publishes_is_reported_with_the_nearest() {
    check(json!([watcher(json!({"monitor": "val/acuracy"}))])).expect(
        2,
        &[
            "no metric is called `acuracy`; task and hooks of this run publish `loss`, `accuracy`",
            "did you mean `accuracy`?",
            "hooks[0].config.monitor",
        ],
    );
    check(json!([watcher(
        json!({"monitor": "loss", "others": ["accuracy", "los"], "maybe": "x"})
    )]))
    .expect(
        2,
        &[
            "no metric is called `los`",
            "others[1]",
            "no metric is called `x`",
        ],
    );
    let no_validation = edit(tiny(), "/data/val", json!(0));
    let place = Workplace::new(&["sconce-fixture-taker"]);
    place.write(&edit(
        no_validation,
        "/hooks",
        json!([watcher(json!({"monitor": "val/loss"}))]),
    ));
    place
        .sconce(&["check", "manifest.json"])
        .expect(2, &["`val/loss`: the task has no data for the phase `val`"]);
}

#[test]
fn metrics_of_the_task_and_of_the_runs_hooks_are_known() {
    check(json!([watcher(
        json!({"monitor": "accuracy", "others": ["val/loss", "test/accuracy"]})
    )]))
    .expect(0, &[]);
    let clip = json!({"hook": "clip", "config": {"max_norm": 1.0}});
    check(json!([
        clip,
        watcher(json!({"monitor": "train/grad_norm", "maybe": null}))
    ]))
    .expect(0, &[]);
    check(json!([watcher(json!({"monitor": "train/grad_norm"}))]))
        .expect(2, &["no metric is called `grad_norm`"]);
}

#[test]
fn a_run_is_checked_like_a_check() {
    let place = Workplace::new(&["sconce-fixture-taker"]);
    let hooks = json!([watcher(json!({"monitor": "acuracy"}))]);
    place
        .run(&edit(tiny(), "/hooks", hooks))
        .expect(2, &["did you mean `accuracy`?"]);
    assert!(!place.path("out").exists(), "nothing is begun");
}

#[test]
fn modules_and_data_sets_that_are_not_there_are_reported() {
    check(json!([{"hook": "recorder", "modules": ["fc1", "conv*"]}])).expect(
        2,
        &[
            "`conv*` matches no module of the model, which has `fc1`, `act1`, `fc2`",
            "hooks[0].modules",
        ],
    );
    check(json!([{"hook": "recorder", "modules": ["fc["]}]))
        .expect(2, &["`fc[` is not a name pattern"]);
    check(json!([{"hook": "recorder", "streams": ["valid"]}])).expect(
        2,
        &["no data set is called `valid`; the task has train, val, test"],
    );
}

#[test]
fn metrics_under_other_systems_names_are_known() {
    let place = Workplace::new(&["sconce-fixture-taker"]);
    for (theirs, ours) in [
        ("train_loss", "train/loss"),
        ("val_loss", "val/loss"),
        ("valid_loss", "val/loss"),
        ("validation_loss", "val/loss"),
        ("eval_loss", "val/loss"),
        ("eval/loss", "val/loss"),
        ("loss/val", "val/loss"),
        ("val_acc", "val/accuracy"),
        ("val_accuracy", "val/accuracy"),
        ("acc", "val/accuracy"),
        ("test_acc", "test/accuracy"),
    ] {
        let hooks = json!([watcher(json!({"monitor": theirs}))]);
        place.write(&edit(tiny(), "/hooks", hooks));
        let hint = format!("did you mean `{ours}`?");
        place
            .sconce(&["check", "manifest.json"])
            .expect(2, &[&hint]);
    }
}

#[test]
fn a_key_of_the_entry_under_config_is_sent_back() {
    check(json!([watcher(
        json!({"monitor": "loss", "every": {"epochs": 2}})
    )]))
    .expect(
        2,
        &[
            "unknown key `every`",
            "belongs beside `hook` and `config`",
            "at hooks[0].config.every",
        ],
    );
}
