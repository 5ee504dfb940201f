//! Which mount points are called, in which order, with which counters.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// A call in short: `point(phase) epoch/iteration/update/batch`.
fn short(call: &Value) -> String {
    let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| call[key].as_u64().unwrap_or_default();
    format!(
        "{}({}) {}/{}/{}/{}",
        text("point"),
        text("phase"),
        number("epoch"),
        number("iteration"),
        number("update"),
        number("batch")
    )
}

fn record(manifest: &Value) -> Vec<String> {
    let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-faults"]);
    place.run(manifest);
    place.records("record.jsonl").iter().map(short).collect()
}

/// The calls of one batch outside training.
fn evaluated(phase: &str, counters: &str, batch: u64) -> Vec<String> {
    let call = |point: &str, batch: u64| format!("{point}({phase}) {counters}/{batch}");
    vec![
        call("before_iter", batch),
        // `fc1`, `act1`, `fc2`.
        call("module_forward", batch),
        call("module_forward", batch),
        call("module_forward", batch),
        call("after_forward", batch),
        call("after_loss", batch),
        call("after_iter", batch + 1),
    ]
}

/// The calls of a whole validation or test of so many batches.
fn pass(phase: &str, counters: &str, outer: (u64, u64), batches: u64) -> Vec<String> {
    let call = |point: &str, batch: u64| format!("{point}({phase}) {counters}/{batch}");
    let mut calls = vec![call("before_loop", outer.0), call("before_epoch", 0)];
    for batch in 0..batches {
        calls.extend(evaluated(phase, counters, batch));
    }
    calls.push(call("after_epoch", batches));
    calls.push(call("epoch_profile", batches));
    calls.push(call("after_loop", outer.1));
    calls
}

/// The calls of one training batch.
fn trained(epoch: u64, iteration: u64, update: u64, batch: u64, updates: bool) -> Vec<String> {
    let call = |point: &str, iteration: u64, update: u64, batch: u64| {
        format!("{point}(train) {epoch}/{iteration}/{update}/{batch}")
    };
    let here = |point: &str| call(point, iteration, update, batch);
    let mut calls = vec![here("before_iter")];
    calls.extend(["module_forward"; 3].map(here));
    calls.extend(["after_forward", "after_loss"].map(here));
    calls.extend(["module_backward"; 3].map(here));
    calls.push(here("after_backward"));
    if updates {
        calls.push(call("before_update", iteration, update, batch));
        calls.push(call("after_update", iteration, update + 1, batch));
    }
    let update = update + u64::from(updates);
    calls.push(call("after_iter", iteration + 1, update, batch + 1));
    calls
}

#[test]
fn the_whole_order_of_two_epochs_with_accumulation_validation_checkpoint_and_test() {
    // 3 batches an epoch, an update after every second and at the epoch's end.
    let manifest = edit(tiny(), "/train/accumulate", json!(2));
    let save = json!({"at": "after_cycle", "what": "save_checkpoint", "text": "last"});
    let asker = json!({"hook": "asker", "priority": "LOWEST", "config": save});
    let manifest = edit(manifest, "/hooks", json!([asker, "recorder"]));
    let mut expected = vec![
        "before_run(train) 0/0/0/0".to_owned(),
        "before_loop(train) 0/0/0/0".to_owned(),
    ];
    for epoch in 0..2 {
        let (iteration, update) = (epoch * 3, epoch * 2);
        expected.push(format!(
            "before_epoch(train) {epoch}/{iteration}/{update}/0"
        ));
        expected.extend(trained(epoch, iteration, update, 0, false));
        expected.extend(trained(epoch, iteration + 1, update, 1, true));
        expected.extend(trained(epoch, iteration + 2, update + 1, 2, true));
        let counters = format!("{}/{}/{}", epoch + 1, iteration + 3, update + 2);
        expected.push(format!("after_epoch(train) {counters}/3"));
        expected.push(format!("epoch_profile(train) {counters}/3"));
        // 10 samples in batches of 8.
        expected.extend(pass("val", &counters, (3, 2), 2));
        expected.push(format!("after_cycle(train) {counters}/3"));
        expected.push(format!("before_save_checkpoint(train) {counters}/3"));
        expected.push(format!("after_save_checkpoint(train) {counters}/3"));
    }
    expected.push("after_loop(train) 2/6/4/3".to_owned());
    expected.extend(pass("test", "2/6/4", (3, 1), 1));
    expected.push("after_run(train) 2/6/4/3".to_owned());
    assert_eq!(record(&manifest), expected);
}

#[test]
fn with_zero_epochs_nothing_is_trained_and_the_test_runs() {
    let manifest = edit(tiny(), "/train/epochs", json!(0));
    let manifest = edit(manifest, "/hooks", json!(["recorder"]));
    let mut expected = vec![
        "before_run(train) 0/0/0/0".to_owned(),
        "before_loop(train) 0/0/0/0".to_owned(),
        "after_loop(train) 0/0/0/0".to_owned(),
    ];
    expected.extend(pass("test", "0/0/0", (0, 1), 1));
    expected.push("after_run(train) 0/0/0/0".to_owned());
    assert_eq!(record(&manifest), expected);
}

#[test]
fn every_method_is_called_in_every_phase_that_has_it() {
    let manifest = edit(tiny(), "/train/initial_validation", json!(true));
    let save = json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "a", "once": true});
    let back = json!({"at": "after_iter", "phase": "train", "what": "roll_back", "text": "a", "after_iteration": 2, "once": true});
    let fault = json!({"hook": "fault", "config": {"at": "after_run", "how": "error"}, "on_error": "ignore"});
    let hooks = json!([
        "recorder",
        {"hook": "asker", "config": save},
        {"hook": "asker", "config": back},
        fault
    ]);
    let calls = record(&edit(manifest.clone(), "/hooks", hooks));
    let failing = json!([
        "recorder",
        {"hook": "fault", "config": {"at": "after_loss", "how": "error"}}
    ]);
    let failed = record(&edit(manifest, "/hooks", failing));
    let has = |calls: &[String], start: &str| calls.iter().any(|call| call.starts_with(start));
    let loops = [
        "before_loop",
        "before_epoch",
        "before_iter",
        "module_forward",
        "after_forward",
    ];
    let ends = [
        "after_loss",
        "after_iter",
        "after_epoch",
        "epoch_profile",
        "after_loop",
    ];
    for phase in ["train", "val", "test"] {
        for point in loops.iter().chain(&ends) {
            assert!(
                has(&calls, &format!("{point}({phase})")),
                "{point} in {phase}"
            );
        }
    }
    for point in [
        "before_run",
        "module_backward",
        "after_backward",
        "before_update",
        "after_update",
        "after_cycle",
        "before_save_checkpoint",
        "after_save_checkpoint",
        "after_load_checkpoint",
        "after_run",
    ] {
        assert!(has(&calls, &format!("{point}(train)")), "{point}");
        let elsewhere = calls
            .iter()
            .any(|call| call.starts_with(point) && !call.contains("(train)"));
        assert!(!elsewhere, "{point} outside training");
    }
    assert!(has(&failed, "on_exception"));
    let ends = failed.iter().filter(|call| call.starts_with("after_run"));
    assert_eq!(ends.count(), 1);
}

#[test]
fn a_profile_tells_each_hooks_calls_and_run_json_the_whole_runs() {
    let place = Workplace::new(&["sconce-fixture-recorder", "sconce-plugin-stop-after"]);
    let stop = json!({"hook": "stop-after", "config": {"epochs": 9}});
    let manifest = edit(tiny(), "/hooks", json!(["recorder", stop]));
    place.run(&manifest).expect(0, &[]);
    let records = place.records("record.jsonl");
    let profile = records
        .iter()
        .find(|call| call["point"] == "epoch_profile" && call["phase"] == "train")
        .expect("a profile");
    // before_epoch, seven points and two for each of three modules in each of three iterations,
    // after_epoch; stop-after counts iterations.
    assert_eq!(profile["detail"], "recorder:41,stop-after:3 fits:true");
    let run: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(run["outcome"], "completed");
    assert_eq!(run["updates"], 6);
    assert_eq!(run["profile"]["train"]["passes"], 2);
    assert_eq!(run["profile"]["train"]["hooks"][0]["calls"], 82);
    assert!(
        run["profile"]["train"]["backward"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0)
    );
    assert!(run["metrics"]["test"]["accuracy"].is_number());
}

#[test]
fn an_error_in_mid_epoch_leads_through_on_exception_to_after_run() {
    let manifest = edit(
        tiny(),
        "/hooks",
        json!([
            "recorder",
            {"hook": "fault", "config": {"at": "after_loss", "how": "error", "from_call": 1}}
        ]),
    );
    let calls = record(&manifest);
    let tail: Vec<&str> = calls
        .iter()
        .rev()
        .take(5)
        .rev()
        .map(String::as_str)
        .collect();
    assert_eq!(
        tail,
        [
            "after_loss(train) 0/1/1/1",
            "on_exception(train) 0/1/1/1",
            // What there is to go on from.
            "before_save_checkpoint(train) 0/1/1/1",
            "after_save_checkpoint(train) 0/1/1/1",
            "after_run(train) 0/1/1/1"
        ]
    );
}

#[test]
fn hooks_run_by_priority_and_equal_ones_in_the_manifests_order() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    let entry = |name: &str, priority: Value| json!({"hook": "recorder", "name": name, "priority": priority});
    let manifest = edit(
        tiny(),
        "/hooks",
        json!([
            entry("last", json!("LOWEST")),
            entry("b", json!(30)),
            "recorder",
            entry("c", json!("NORMAL")),
            entry("first", json!(0)),
            entry("nearly-first", json!(1)),
        ]),
    );
    place.run(&manifest).expect(0, &[
        "before_run: first (HIGHEST), nearly-first (1), b (NORMAL), recorder (NORMAL), c (NORMAL), last (LOWEST)",
    ]);
    let first_calls: Vec<String> = place
        .records("record.jsonl")
        .iter()
        .take(6)
        .filter_map(|call| call["hook"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(
        first_calls,
        ["first", "nearly-first", "b", "recorder", "c", "last"]
    );
}

#[test]
fn a_phase_filter_leaves_the_other_phases_out() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    let manifest = edit(
        tiny(),
        "/hooks",
        json!([{"hook": "recorder", "phases": ["val"]}]),
    );
    place.run(&manifest).expect(0, &[]);
    let records = place.records("record.jsonl");
    assert!(records.iter().any(|call| call["point"] == "after_loss"));
    for call in &records {
        let outside = call["point"] == "before_run" || call["point"] == "after_run";
        assert!(outside || call["phase"] == "val", "{call}");
    }
}

#[test]
fn a_hook_may_be_called_in_some_iterations_or_epochs_alone() {
    let seen = |every: Value, point: &str| -> Vec<u64> {
        let place = Workplace::new(&["sconce-fixture-recorder"]);
        let hook = json!({"hook": "recorder", "every": every});
        place
            .run(&edit(tiny(), "/hooks", json!([hook])))
            .expect(0, &[]);
        let records = place.records("record.jsonl");
        let calls = records
            .iter()
            .filter(|call| call["point"] == point && call["phase"] == "train");
        calls
            .filter_map(|call| call["iteration"].as_u64())
            .collect()
    };
    // Six iterations, three an epoch.
    assert_eq!(seen(json!({"iterations": 2}), "after_iter"), [2, 4, 6]);
    assert_eq!(seen(json!({"iterations": 2}), "after_loss"), [1, 3, 5]);
    assert_eq!(
        seen(json!({"iterations": 4, "offset": 1}), "after_iter"),
        [1, 5]
    );
    assert_eq!(seen(json!({"epochs": 2}), "after_iter"), [4, 5, 6]);
    assert_eq!(seen(json!({"epochs": 2}), "after_epoch"), [6]);
    assert_eq!(seen(json!({"epochs": 2}), "before_run"), [0]);
}

#[test]
fn a_recorder_of_all_points_with_both_filters_sees_their_intersection() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    let hook = json!({
        "hook": "recorder",
        "every": {"iterations": 2},
        "phases": ["train"],
        "modules": ["fc*"],
        "streams": ["train"]
    });
    place
        .run(&edit(tiny(), "/hooks", json!([hook])))
        .expect(0, &["module_forward [train]: recorder"]);
    let calls: Vec<String> = place.records("record.jsonl").iter().map(short).collect();
    let mut expected = vec![
        "before_run(train) 0/0/0/0".to_owned(),
        "before_loop(train) 0/0/0/0".to_owned(),
    ];
    // Six iterations, of which the second, fourth and sixth.
    for epoch in 0..2_u64 {
        let iteration = epoch * 3;
        expected.push(format!(
            "before_epoch(train) {epoch}/{iteration}/{iteration}/0"
        ));
        for batch in 0..3 {
            let iteration = iteration + batch;
            if iteration % 2 == 1 {
                let all = trained(epoch, iteration, iteration, batch, true);
                // Without `act1`, forward and backward.
                let mut seen: Vec<String> = Vec::new();
                for (index, call) in all.into_iter().enumerate() {
                    if index != 2 && index != 7 {
                        seen.push(call);
                    }
                }
                expected.extend(seen);
            }
        }
        let (epoch, done) = (epoch + 1, iteration + 3);
        for point in ["after_epoch", "epoch_profile", "after_cycle"] {
            expected.push(format!("{point}(train) {epoch}/{done}/{done}/3"));
        }
    }
    expected.push("after_loop(train) 2/6/6/3".to_owned());
    expected.push("after_run(train) 2/6/6/3".to_owned());
    assert_eq!(calls, expected);
}

#[test]
fn losses_metrics_and_sizes_are_those_of_the_moment() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    let manifest = edit(tiny(), "/train/initial_validation", json!(true));
    let manifest = edit(manifest, "/hooks", json!(["recorder"]));
    place.run(&manifest).expect(0, &[]);
    let records = place.records("record.jsonl");
    let of = |point: &str, phase: &str| -> Vec<&Value> {
        records
            .iter()
            .filter(|call| call["point"] == point && call["phase"] == phase)
            .collect()
    };
    // The epoch's loss is the mean over samples, also where the last batch is smaller.
    let losses: Vec<f64> = of("after_loss", "val")
        .iter()
        .take(2)
        .filter_map(|c| c["loss"].as_f64())
        .collect();
    let mean = (losses[0] * 8.0 + losses[1] * 2.0) / 10.0;
    let initial = of("after_epoch", "val")[0];
    assert_eq!(initial["initial"], true);
    assert_eq!(initial["epoch"], 0);
    assert_eq!(initial["metrics"][0][0], "loss");
    let reported = initial["metrics"][0][1].as_f64().expect("a number");
    assert!((reported - mean).abs() < 1e-12, "{reported} {mean}");
    assert_eq!(of("after_epoch", "val")[1]["initial"], false);
    assert_eq!(of("before_iter", "val")[1]["batch_size"], 2);
    assert_eq!(of("before_loop", "train")[0]["loss"], Value::Null);
    assert_eq!(of("after_epoch", "train")[1]["samples"], 48);
    assert_eq!(of("before_epoch", "train")[0]["batches"], 3);
}
