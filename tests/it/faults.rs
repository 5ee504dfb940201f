//! A hook that fails or panics anywhere ends as a message with its name; nothing aborts.

use sconce::bridge::BridgeState;
use sconce::log::MemoryLog;
use sconce::plugin::library::Library;
use sconce_plugin_api::Point;
use sconce_tests::in_process::create;
use sconce_tests::{Finished, Workplace, artifacts, edit, tiny};
use serde_json::{Value, json};

fn run(hook: Value) -> (Workplace, Finished) {
    let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-faults"]);
    let manifest = edit(tiny(), "/hooks", json!(["recorder", hook]));
    let finished = place.run(&manifest);
    (place, finished)
}

fn fault(at: &str, how: &str) -> Value {
    json!({"hook": "fault", "name": "bad", "config": {"at": at, "how": how}})
}

/// The points that a run without errors calls.
fn points_of_a_good_run() -> impl Iterator<Item = &'static str> {
    let unused = [
        "module_forward",
        "module_backward",
        "before_save_checkpoint",
        "after_save_checkpoint",
        "after_load_checkpoint",
        "epoch_profile",
        "on_exception",
    ];
    Point::ALL
        .iter()
        .map(|point| point.name())
        .filter(move |name| !unused.contains(name))
}

#[test]
fn a_panic_at_every_mount_point_names_hook_file_point_epoch_and_iteration() {
    for point in points_of_a_good_run() {
        let (place, finished) = run(fault(point, "panic"));
        let at = format!("hook `bad` panicked at `{point}`");
        let told = format!("told to panic at {point}");
        finished.expect(
            4,
            &[
                &at,
                &told,
                "epoch ",
                "iteration ",
                "sconce_fixture_faults",
                "src/lib.rs:",
            ],
        );
        let last = place.records("record.jsonl").pop().expect("calls");
        assert_eq!(last["point"], "after_run", "after a panic at {point}");
        if point != "after_run" {
            let detail = last["detail"].as_str().unwrap_or_default();
            assert!(
                detail.starts_with("failed: hook `bad` panicked"),
                "{detail}"
            );
        }
    }
}

#[test]
fn an_error_is_reported_with_the_line_it_came_from() {
    let (_place, finished) = run(fault("after_epoch", "error"));
    finished.expect(
        4,
        &[
            "hook `bad` failed at `after_epoch` (train), epoch 1, iteration 3: told to fail",
            "src/lib.rs:",
        ],
    );
    let (_place, finished) = run(fault("after_epoch", "wrapped"));
    finished.expect(4, &["invalid digit found in string", "src/lib.rs:"]);
    let (_place, finished) = run(fault("after_epoch", "panic-with-number"));
    finished.expect(4, &["a panic whose payload is not text"]);
    let (_place, finished) = run(fault("after_iter", "panic-in-part"));
    let told = "hook `bad` panicked at `after_iter` (train), epoch 0, iteration 1: told to panic in part 5";
    let finished = finished.expect(4, &[told, "src/lib.rs:"]);
    assert!(
        !finished.stderr.contains("thread '"),
        "printed beside the report"
    );
    let (_place, finished) = run(fault("after_epoch", "long-error"));
    let finished = finished.expect(4, &["bytes in all"]);
    assert!(finished.stderr.len() < 20_000, "a long message is cut");
}

#[test]
fn a_panic_in_saving_and_loading_state_is_an_error_with_its_place() {
    let log = MemoryLog::default();
    let shared = BridgeState::new(&log);
    let library = Library::open(&artifacts().plugin("sconce-fixture-faults")).expect("opened");
    let hook = |at: &str| {
        let config = format!("{{\"at\": \"{at}\"}}");
        create(&library, "fault", &config, &shared).expect("created")
    };
    let good = hook("nowhere").save_state().expect("a state");
    assert!(hook("nowhere").load_state(&good).is_ok());
    let saved = hook("save_state").save_state().expect_err("told to panic");
    let loaded = hook("load_state")
        .load_state(&good)
        .expect_err("told to panic");
    for (error, words) in [
        (saved, "panic at save_state"),
        (loaded, "panic at load_state"),
    ] {
        assert!(
            error.is_panic() && error.message.contains(words),
            "{error:?}"
        );
        assert!(error.place.contains("src/lib.rs:"), "{error:?}");
    }
    let short = hook("nowhere")
        .load_state(&[1, 2])
        .expect_err("a wrong state");
    assert!(!short.is_panic());
    assert!(hook("drop").close().expect_err("told to panic").is_panic());
    let unknown = create(&library, "fautl", "{}", &shared).expect_err("no such kind");
    assert!(
        unknown
            .message
            .contains("no hook `fautl` here, this plugin has: fault, asker"),
        "{unknown:?}"
    );
}

#[test]
fn a_panic_at_creation_keeps_the_run_from_starting() {
    for how in ["panic", "error"] {
        let (place, finished) = run(fault("new", how));
        finished.expect(3, &["`bad`", "at new", "sconce_fixture_faults", "hooks[1]"]);
        assert!(
            place.read("out/record.jsonl").is_empty(),
            "nothing was called"
        );
    }
}

#[test]
fn a_panic_in_drop_is_reported_at_the_end_of_a_whole_run() {
    let (place, finished) = run(fault("drop", "panic"));
    let finished = finished.expect(
        4,
        &[
            "hook `bad` panicked when it was dropped",
            "told to panic at drop",
        ],
    );
    assert!(
        finished.stdout.starts_with("completed: 2 epochs"),
        "{}",
        finished.stdout
    );
    let last = place.records("record.jsonl").pop().expect("calls");
    assert_eq!(last["detail"], "completed");
}

#[test]
fn a_panic_while_handling_an_error_hides_neither() {
    let (place, finished) = {
        let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-faults"]);
        let hooks = json!([
            fault("after_loss", "error"),
            {"hook": "fault", "name": "worse", "config": {"at": "on_exception"}},
            {"hook": "fault", "name": "worst", "config": {"at": "after_run"}},
            "recorder"
        ]);
        let finished = place.run(&edit(tiny(), "/hooks", hooks));
        (place, finished)
    };
    let finished = finished.expect(
        4,
        &[
            "hook `bad` failed at `after_loss`",
            "hook `worse` panicked at `on_exception`",
            "hook `worst` panicked at `after_run`",
        ],
    );
    let first = finished
        .stderr
        .find("`bad` failed")
        .expect("the first error");
    let second = finished
        .stderr
        .find("`worse` panicked")
        .expect("the second");
    assert!(first < second, "the first error comes first");
    let points: Vec<Value> = place
        .records("record.jsonl")
        .iter()
        .map(|c| c["point"].clone())
        .collect();
    assert_eq!(
        points[points.len() - 2..],
        ["on_exception", "after_run"],
        "every hook is told"
    );
}

#[test]
fn a_hook_may_be_switched_off_or_ignored_instead() {
    for (policy, words) in [
        ("disable", "`bad` is off from now on"),
        ("ignore", "ignored (4 so far)"),
    ] {
        let mut hook = fault("after_iter", "error");
        hook["on_error"] = json!(policy);
        let (place, finished) = run(hook);
        let finished = finished.expect(0, &["hook `bad` failed at `after_iter`", words]);
        assert!(
            finished.stdout.starts_with("completed: 2 epochs"),
            "{}",
            finished.stdout
        );
        let told = finished.stderr.matches("hook `bad` failed").count();
        // 3 + 2 iterations an epoch, and 1 in the test; ignored ones are told at 1, 2, 4, 8.
        assert_eq!(told, if policy == "disable" { 1 } else { 4 }, "{policy}");
        let last = place.records("record.jsonl").pop().expect("calls");
        assert_eq!(last["detail"], "completed");
    }
}

/// A hook that counts its calls of a method in its state and panics at the second, having counted it: half changed.
fn second_call_panics(at: &str, policy: &Value, isolation: &str) -> Value {
    json!({"hook": "fault", "name": "bad", "config": {"at": at, "from_call": 1}, "on_error": "ignore",
        "on_panic": policy, "isolation": isolation})
}

#[test]
fn a_hook_that_has_panicked_is_recreated_or_switched_off() {
    let points = points_of_a_good_run().filter(|point| !point.ends_with("_run"));
    let cases = points.chain(["save_state"]).map(|point| (point, "none"));
    for (point, isolation) in cases.chain([("after_iter", "process"), ("save_state", "process")]) {
        for (policy, word) in [
            (
                json!("restart"),
                "`bad` is recreated from its last state (1 of 3)",
            ),
            (
                json!({"restart": 1}),
                "`bad` is recreated from its last state (1 of 1)",
            ),
            (json!("disable"), "`bad` is off from now on"),
        ] {
            let place = Workplace::new(&["sconce-fixture-faults", "sconce-plugin-checkpoints"]);
            let bad = second_call_panics(point, &policy, isolation);
            let save = json!({"hook": "checkpoint", "config": {"epochs": 1}});
            let manifest = edit(tiny(), "/hooks", json!([bad, save]));
            place
                .run(&manifest)
                .expect(0, &["hook `bad` panicked", word]);
            // What a call that panicked has counted is in no state that was saved.
            let states = place.checkpoint_at("out/checkpoints/latest");
            let state = states
                .get("hooks/bad")
                .map(|(_, state)| String::from_utf8_lossy(state));
            assert!(
                state.is_none_or(|state| state == "0" || state == "1"),
                "{point} {policy}"
            );
            let longer = edit(manifest, "/train/epochs", json!(3));
            place.write(&longer);
            let resumed = place.sconce(&["run", "manifest.json", "--resume", "--allow-changes"]);
            resumed.expect(0, &[]);
        }
    }
}

#[test]
fn a_hook_that_panics_again_when_it_is_recreated_is_switched_off() {
    let place = Workplace::new(&["sconce-fixture-faults", "sconce-plugin-checkpoints"]);
    let hooks = |at: &str| {
        json!([{"hook": "fault", "name": "bad", "config": {"at": at}, "on_panic": "restart"},
            {"hook": "checkpoint", "config": {"epochs": 1}}])
    };
    let manifest = edit(tiny(), "/hooks", hooks("nowhere"));
    place.run(&manifest).expect(0, &[]);
    let longer = edit(manifest, "/train/epochs", json!(3));
    place.write(&edit(longer, "/hooks", hooks("load_state")));
    let resumed = place.sconce(&["run", "manifest.json", "--resume", "--allow-changes"]);
    let words = [
        "(1 of 3)",
        "`bad` can't be restarted and is disabled from now on",
    ];
    resumed.expect(0, &words);
}

#[test]
fn an_error_is_ignored_but_not_a_panic() {
    let mut hook = fault("after_iter", "panic");
    hook["on_error"] = json!("ignore");
    let (_place, finished) = run(hook);
    let finished = finished.expect(0, &["`bad` is off from now on, after 3 restarts"]);
    assert_eq!(finished.stderr.matches("is recreated").count(), 3);
}

#[test]
fn other_hooks_of_the_point_still_run_after_a_disabled_one() {
    let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-faults"]);
    let bad = |name: &str| {
        json!({"hook": "fault", "name": name, "on_error": "disable",
            "config": {"at": "before_epoch"}, "priority": "HIGH"})
    };
    let hooks = json!([bad("first"), bad("second"), "recorder"]);
    place.run(&edit(tiny(), "/hooks", hooks)).expect(
        0,
        &["`first` is off from now on", "`second` is off from now on"],
    );
    let epochs = place
        .records("record.jsonl")
        .iter()
        .filter(|call| call["point"] == "before_epoch" && call["phase"] == "train")
        .count();
    assert_eq!(epochs, 2);
}
