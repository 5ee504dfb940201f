//! What hooks ask for is served, or refused with a reason.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

/// A tiny run with an asker and a recorder behind it.
fn ask(config: Value) -> (Workplace, Finished) {
    let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-faults"]);
    let manifest = edit(
        tiny(),
        "/hooks",
        json!([{"hook": "asker", "config": config, "priority": "HIGH"}, "recorder"]),
    );
    let finished = place.run(&manifest);
    (place, finished)
}

fn points(place: &Workplace, phase: &str) -> Vec<String> {
    place
        .records("record.jsonl")
        .iter()
        .filter(|call| call["phase"] == phase)
        .filter_map(|call| call["point"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn a_stop_ends_the_training_after_the_iteration_and_tests_all_the_same() {
    let (place, finished) = ask(json!({"at": "after_loss", "what": "stop", "text": "enough"}));
    let finished = finished.expect(0, &[]);
    assert!(
        finished.stdout.contains("stopped by `asker` (enough)"),
        "{}",
        finished.stdout
    );
    let train = points(&place, "train");
    assert_eq!(
        train[train.len() - 6..],
        [
            "after_iter",
            "after_epoch",
            "epoch_profile",
            "after_cycle",
            "after_loop",
            "after_run"
        ]
    );
    assert_eq!(
        train.iter().filter(|point| *point == "after_iter").count(),
        1
    );
    assert!(
        points(&place, "val").is_empty(),
        "a partial epoch is not validated"
    );
    assert!(!points(&place, "test").is_empty());
    let last = place.records("record.jsonl").pop().expect("calls");
    assert_eq!(last["detail"], "stopped: enough");
    assert_eq!(last["epoch"], 0, "the epoch is not finished");
}

#[test]
fn a_stop_after_the_epoch_finishes_the_epoch_and_its_validation() {
    let (place, finished) =
        ask(json!({"at": "before_iter", "what": "stop_after_epoch", "text": "enough"}));
    finished.expect(0, &[]);
    let iterations = points(&place, "train")
        .iter()
        .filter(|p| *p == "after_iter")
        .count();
    assert_eq!(iterations, 3);
    assert!(!points(&place, "val").is_empty());
}

#[test]
fn a_skipped_batch_has_no_forward_pass_but_counts() {
    let (place, finished) = ask(json!({"at": "before_iter", "what": "skip_batch"}));
    finished.expect(0, &[]);
    let train = points(&place, "train");
    assert!(
        !train
            .iter()
            .any(|point| point == "after_forward" || point == "before_update")
    );
    assert_eq!(
        train.iter().filter(|point| *point == "after_iter").count(),
        6
    );
}

#[test]
fn a_skipped_update_leaves_the_parameters_alone() {
    let (place, finished) = ask(json!({"at": "before_update", "what": "skip_update"}));
    finished.expect(0, &[]);
    let records = place.records("record.jsonl");
    assert!(!records.iter().any(|call| call["point"] == "after_update"));
    let validations: Vec<&Value> = records
        .iter()
        .filter(|call| call["point"] == "after_epoch" && call["phase"] == "val")
        .map(|call| &call["metrics"])
        .collect();
    assert_eq!(validations[0], validations[1], "no update, no change");
}

#[test]
fn a_learning_rate_holds_at_once_and_stays() {
    let (place, finished) = ask(
        json!({"at": "before_update", "what": "set_learning_rate", "number": 0.125, "after_iteration": 2}),
    );
    finished.expect(0, &[]);
    let records = place.records("record.jsonl");
    let rates: Vec<f64> = records
        .iter()
        .filter(|call| call["point"] == "before_update")
        .filter_map(|call| call["learning_rate"].as_f64())
        .collect();
    assert_eq!(rates, [0.01, 0.01, 0.125, 0.125, 0.125, 0.125]);
}

#[test]
fn a_published_metric_is_seen_by_later_hooks_until_the_next_pass() {
    let (place, finished) =
        ask(json!({"at": "after_loss", "what": "publish", "text": "grad_norm", "number": 2.5}));
    finished.expect(0, &[]);
    let records = place.records("record.jsonl");
    let seen = |point: &str| -> Vec<bool> {
        records
            .iter()
            .filter(|call| call["point"] == point && call["phase"] == "train")
            .map(|call| call["metrics"].to_string().contains("[\"grad_norm\",2.5]"))
            .collect()
    };
    assert_eq!(seen("after_epoch"), [true, true]);
    assert_eq!(
        seen("before_epoch"),
        [false, false],
        "a new pass begins without it"
    );
}

#[test]
fn an_illegal_request_is_an_error_that_names_hook_and_point() {
    for (what, at, words) in [
        (
            "skip_batch",
            "after_loss",
            "`skip_batch` is not legal at `after_loss` (train); it is at before_iter",
        ),
        (
            "skip_update",
            "before_iter",
            "`skip_update` is not legal at `before_iter` (train)",
        ),
        (
            "set_learning_rate",
            "after_loss",
            "`set_learning_rate` is not legal at `after_loss` (train)",
        ),
        ("stop", "after_run", "`stop` is not legal at `after_run`"),
        (
            "scale_loss",
            "after_backward",
            "`scale_loss` is not legal at `after_backward` (train); it is at after_loss",
        ),
        (
            "save_checkpoint",
            "after_forward",
            "`save_checkpoint` is not legal at `after_forward` (train); it is at before_run",
        ),
        (
            "validate",
            "before_iter",
            "`validate` is not legal at `before_iter` (train); it is at before_loop",
        ),
        (
            "roll_back",
            "after_loss",
            "`roll_back` is not legal at `after_loss` (train); it is at before_epoch",
        ),
        (
            "swap_parameters",
            "before_update",
            "`swap_parameters` is not legal at `before_update` (train)",
        ),
        (
            "swap_back",
            "module_backward",
            "`swap_back` is not legal at `module_backward` (train)",
        ),
    ] {
        let (_place, finished) = ask(json!({"at": at, "what": what}));
        let at = format!("hook `asker` failed at `{at}`");
        finished.expect(4, &[words, &at, "lib.rs:"]);
    }
}

#[test]
fn arguments_out_of_range_are_errors() {
    for (config, words) in [
        (
            json!({"at": "before_run", "what": "set_learning_rate", "number": -1.0}),
            "finite and not negative, found -1",
        ),
        (
            json!({"at": "after_loss", "what": "publish", "text": ""}),
            "a metric's name has 1 to 256 bytes",
        ),
        (
            json!({"at": "after_loss", "what": "publish", "text": "loss"}),
            "the metric `loss` is the task's",
        ),
    ] {
        let (_place, finished) = ask(config);
        finished.expect(4, &[words]);
    }
}

#[test]
fn a_scaled_loss_scales_the_gradients_and_nothing_else() {
    // Powers of two change no bits: a doubled loss is a doubled learning rate.
    let train = |rate: f64, hooks: Value| {
        let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-faults"]);
        let optimizer = json!({"kind": "sgd", "learning_rate": rate});
        let manifest = edit(tiny(), "/optimizer", optimizer);
        place.run(&edit(manifest, "/hooks", hooks)).expect(0, &[]);
        let losses: Vec<Value> = (place.records("record.jsonl").iter())
            .filter(|call| call["point"] == "after_loss")
            .map(|call| call["loss"].clone())
            .collect();
        (place.checkpoint("end"), losses)
    };
    let save = json!({"hook": "asker", "config": {"at": "after_loop", "phase": "train", "what": "save_checkpoint", "text": "end"}});
    let scale = |factor: f64| json!({"hook": "asker", "config": {"at": "after_loss", "phase": "train", "what": "scale_loss", "number": factor}});
    let (scaled, losses) = train(0.0625, json!([scale(8.0), scale(0.25), save, "recorder"]));
    let (plain, plain_losses) = train(0.125, json!([save, "recorder"]));
    assert_eq!(
        scaled["parameters/fc1.weight"],
        plain["parameters/fc1.weight"]
    );
    assert_eq!(losses, plain_losses, "what is reported stays as it is");
    let (other, _) = train(0.0625, json!([save, "recorder"]));
    assert_ne!(
        other["parameters/fc1.weight"],
        plain["parameters/fc1.weight"]
    );
}

#[test]
fn a_validation_asked_for_in_mid_epoch_changes_no_bit_of_the_training() {
    let run = |hooks: Value| {
        let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-faults"]);
        place.run(&edit(tiny(), "/hooks", hooks)).expect(0, &[]);
        place
    };
    let save = json!({"hook": "asker", "config": {"at": "after_loop", "phase": "train", "what": "save_checkpoint", "text": "end"}});
    let ask = json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train", "what": "validate", "after_iteration": 2, "once": true}});
    let asked = run(json!([ask, save, "recorder"]));
    let plain = run(json!([save, "recorder"]));
    assert_eq!(
        asked.checkpoint("end")["parameters/fc1.weight"],
        plain.checkpoint("end")["parameters/fc1.weight"]
    );
    let records = asked.records("record.jsonl");
    let validations: Vec<(u64, u64)> = (records.iter())
        .filter(|call| call["point"] == "before_loop" && call["phase"] == "val")
        .filter_map(|call| Some((call["iteration"].as_u64()?, call["ordinal"].as_u64()?)))
        .collect();
    assert_eq!(validations, [(2, 0), (3, 1), (6, 0)]);
    // The epoch around it goes on as if nothing had been.
    let train = |place: &Workplace| -> Vec<Value> {
        (place.records("record.jsonl").into_iter())
            .filter(|call| call["phase"] == "train" && call["point"] != "epoch_profile")
            .map(|mut call| {
                call["ordinal"] = Value::Null;
                // Who asked for the checkpoint.
                call["detail"] = Value::Null;
                call
            })
            .collect()
    };
    let (asked, plain) = (train(&asked), train(&plain));
    assert!(!asked.is_empty() && asked.len() == plain.len());
    // Call by call, so that a difference can be read.
    for (asked, plain) in asked.iter().zip(&plain) {
        assert_eq!(asked, plain);
    }
}
