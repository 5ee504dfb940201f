//! Hooks that don't come back, and the limits of their calls.

use std::process::Stdio;
use std::time::Duration;

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

fn place() -> Workplace {
    Workplace::new(&["sconce-fixture-wrecker", "sconce-fixture-recorder"])
}

fn manifest(how: &str, number: f64, more: Value) -> Value {
    let mut bad = json!({"hook": "wrecker", "name": "bad", "config":
        {"at": "after_iter", "how": how, "number": number, "after_iteration": 3}});
    for (key, value) in more.as_object().into_iter().flatten() {
        bad[key] = value.clone();
    }
    edit(tiny(), "/hooks", json!([bad, "recorder"]))
}

#[test]
fn a_hook_beyond_its_limit_ends_the_run_with_6_and_saves_the_parameters() {
    for how in ["hang", "busy"] {
        let place = place();
        let finished = place.run(&manifest(how, 0.0, json!({"time_limit": 1.0}))).expect(
            6,
            &[
                "error: hook `bad` has not come back for 1 s at `after_iter` (train), epoch 0, iteration 3",
                "the parameters, as the hook left them, are in",
                "out/rescue.safetensors",
                "--skip bad",
            ],
        );
        assert!(!finished.stderr.contains("could not be saved"));
        let report: Value = serde_json::from_str(&place.read("out/crash.json")).expect("JSON");
        assert_eq!(report["kind"], "hang");
        assert_eq!(report["hook"], "bad");
        let rescued = std::fs::read(place.path("out/rescue.safetensors")).expect("rescued");
        let rescued = safetensors::SafeTensors::deserialize(&rescued).expect("it is whole");
        assert!(rescued.len() >= 4, "{:?}", rescued.names());
        // The log of the others is whole up to there.
        assert!(!place.records("record.jsonl").is_empty());
        place
            .sconce(&["run", "manifest.json", "--skip", "bad"])
            .expect(
                0,
                &["it was ended because a hook did not come back in the hook `bad`"],
            );
    }
}

#[test]
fn the_limit_of_all_hooks_stands_in_limits() {
    let place = place();
    let all = edit(
        manifest("hang", 0.0, json!({})),
        "/limits",
        json!({"call": 0.5}),
    );
    place
        .run(&all)
        .expect(6, &["hook `bad` has not come back for"]);
    // An entry's own limit goes before it.
    let own = edit(
        manifest("slow", 1.0, json!({"time_limit": 60.0})),
        "/limits",
        json!({"call": 0.5}),
    );
    let own = edit(own, "/train/epochs", json!(1));
    place.run(&own).expect(0, &[]);
}

#[test]
fn a_slow_call_is_warned_of_and_goes_on() {
    let place = place();
    let slow = edit(
        manifest("slow", 1.5, json!({})),
        "/limits",
        json!({"slow_call": 0.5}),
    );
    let slow = edit(slow, "/train/epochs", json!(1));
    place.run(&slow).expect(
        0,
        &[
            "warning: hook `bad` has not come back from `after_iter` (train) for 0.5 s, epoch 0, iteration 3",
            "`time_limit` in its entry or `limits.call` sets one",
        ],
    );
}

#[test]
fn the_time_that_the_process_is_stopped_does_not_count() {
    let place = place();
    let slow = edit(
        manifest("slow", 0.2, json!({"time_limit": 1.5})),
        "/train/epochs",
        json!(1),
    );
    place.write(&slow);
    let mut child = place
        .command(&["run", "manifest.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    while !place.path("out/record.jsonl").exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it runs");
        std::thread::sleep(Duration::from_millis(2));
    }
    let signal = |name: &str| {
        let status = std::process::Command::new("kill")
            .args([name, &child.id().to_string()])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "kill {name}");
    };
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(3));
    signal("-CONT");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_hook_that_takes_much_of_the_time_is_reported_once() {
    let place = place();
    let slow = manifest("slow", 1.0, json!({}));
    let finished = place.run(&slow).expect(0, &[]);
    let told = "warning: sconce: hook `bad` took ";
    assert_eq!(
        finished.stderr.matches(told).count(),
        1,
        "{}",
        finished.stderr
    );
    assert!(
        finished
            .stderr
            .contains("% of the last pass over the train data")
    );
    let generous = edit(slow, "/limits", json!({"hook_share": 1.0}));
    let finished = place.run(&generous).expect(0, &[]);
    assert!(!finished.stderr.contains(told), "{}", finished.stderr);
}

#[test]
fn a_hook_that_keeps_more_and_more_memory_is_reported() {
    let place = place();
    let leak = manifest("leak", 8e6, json!({}));
    let finished = place
        .run(&edit(leak, "/train/epochs", json!(4)))
        .expect(0, &[]);
    let told = "hook `bad` keeps more and more memory: about ";
    if cfg!(target_env = "gnu") {
        assert_eq!(
            finished.stderr.matches(told).count(),
            1,
            "{}",
            finished.stderr
        );
    }
    let once = manifest("leak", 100.0, json!({}));
    let finished = place
        .run(&edit(once, "/train/epochs", json!(4)))
        .expect(0, &[]);
    assert!(!finished.stderr.contains(told), "{}", finished.stderr);
}

#[test]
fn limits_are_checked() {
    let place = place();
    let wrong = edit(tiny(), "/limits", json!({"call": -1, "laod": 3}));
    place
        .run(&wrong)
        .expect(2, &["did you mean `load`?", "limits.call"]);
    place
        .run(&manifest("slow", 0.0, json!({"time_limit": 0})))
        .expect(2, &["hooks[0].time_limit"]);
}
