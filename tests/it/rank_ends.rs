//! How runs on several ranks end when one of them does not go on: the code, who is named, and what restarts make of it.

use std::process::Stdio;

use sconce_tests::{Finished, Workplace, tiny, until};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-sockets",
    "sconce-plugin-optimisation",
    "sconce-fixture-faults",
    "sconce-fixture-wrecker",
];

fn manifest(hooks: &[Value]) -> Value {
    let mut manifest = tiny();
    manifest["threads"] = json!(1);
    manifest["model"] = json!({"kind": "mlp", "hidden": [6], "dropout": 0.2});
    manifest["data"] =
        json!({"kind": "synthetic-digits", "train": 50, "val": 20, "test": 13, "size": 16});
    manifest["train"] = json!({"epochs": 2, "batch_size": 4, "accumulate": 4});
    manifest["distributed"] = json!({"batches": "update", "timeout": 60.0});
    manifest["hooks"] = json!(hooks);
    manifest
}

/// A hook that saves a checkpoint after the second iteration.
fn saves() -> Value {
    let config = json!({
        "at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "here", "after_iteration": 2, "once": true
    });
    json!({"hook": "asker", "config": config})
}

/// What happens to a rank after the fourth iteration.
fn struck(how: &str, rank: u64) -> Value {
    let config =
        json!({"at": "after_iter", "how": how, "after_iteration": 4, "rank": rank, "once": true});
    json!({"hook": "wrecker", "ranks": "all", "config": config})
}

fn ended(hooks: &[Value], timeout: f64, arguments: &[&str]) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let mut manifest = manifest(hooks);
    manifest["distributed"]["timeout"] = json!(timeout);
    place.write(&manifest);
    let finished = place.sconce(arguments);
    (place, finished)
}

fn weights(place: &Workplace) -> Vec<u8> {
    std::fs::read(place.path("out/weights.safetensors")).expect("weights")
}

/// The weights of a run to which nothing happens.
fn undisturbed() -> Vec<u8> {
    let (place, finished) = ended(&[saves()], 60.0, &["run", "manifest.json"]);
    finished.expect(0, &[]);
    weights(&place)
}

#[test]
fn a_rank_that_was_waited_for_in_vain_ends_all_with_the_code_of_a_hang() {
    for how in ["stop", "hang"] {
        let hooks = [struck(how, 1)];
        let (_, finished) = ended(&hooks, 1.0, &["launch", "-n", "2", "manifest.json"]);
        let words = ["rank 1 (", "has kept this rank waiting for 1 s"];
        finished.expect(6, &words);
    }
}

#[test]
fn a_rank_that_leaves_without_a_word_is_named_with_its_hook() {
    let hooks = [struck("_exit", 1)];
    let (_, finished) = ended(&hooks, 60.0, &["launch", "-n", "2", "manifest.json"]);
    let words = [
        "rank 1 (",
        "with exit code 0 in mid-run",
        "in the hook `wrecker` at `after_iter` (train), epoch 0, iteration 4",
    ];
    finished.expect(5, &words);
    let on_each =
        json!({"hook": "wrecker", "ranks": "all", "config": {"at": "after_iter", "how": "_exit"}});
    let (_, finished) = ended(&[on_each], 60.0, &["launch", "-n", "2", "manifest.json"]);
    finished.expect(5, &["the run has not come to its end"]);
}

#[test]
fn a_stopped_rank_does_not_keep_a_signal_from_ending_the_run() {
    let place = Workplace::new(PLUGINS);
    place.write(&manifest(&[saves(), struck("stop", 1)]));
    let mut command = place.command(&["launch", "-n", "2", "manifest.json"]);
    let running = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    until("rank 1 is about to stop", || {
        let mark = place.path("out/ranks/1/struck");
        mark.exists().then_some(())
    });
    let killed = std::process::Command::new("kill")
        .args(["-TERM", &running.id().to_string()])
        .status();
    assert!(killed.is_ok_and(|status| status.success()));
    let ended = Finished::from(running.wait_with_output().expect("it ends"));
    let ended = ended.expect(143, &["SIGTERM"]);
    // The command that goes on with the run is the launcher's.
    let hint = ended
        .stdout
        .lines()
        .find(|line| line.contains("--resume"))
        .expect("a hint");
    assert!(
        hint.ends_with("launch -n 2 manifest.json --resume"),
        "{hint}"
    );
}

#[test]
fn a_run_that_is_started_again_has_the_bits_of_one_to_which_nothing_happened() {
    let expected = undisturbed();
    let launch: &[&str] = &["launch", "-n", "2", "--restarts", "1", "manifest.json"];
    let alone: &[&str] = &["run", "manifest.json", "--restarts=1", "--overwrite"];
    for (how, rank, arguments) in [
        ("kill", 1, launch),
        ("segv", 0, launch),
        ("kill", 0, alone),
        ("_exit", 0, alone),
        ("isolated", 1, launch),
    ] {
        let mut strikes = struck(how, rank);
        if how == "isolated" {
            // The hook's process alone.
            strikes["isolation"] = json!("process");
            strikes["config"]["how"] = json!("kill");
        }
        let hooks = [saves(), strikes];
        let (place, finished) = ended(&hooks, 60.0, arguments);
        finished.expect(
            0,
            &["restart 1 of 1: the run goes on from its checkpoint `here`"],
        );
        assert!(weights(&place) == expected, "{how} on rank {rank}");
    }
    // Without a checkpoint it begins again.
    let hooks = [struck("kill", 0)];
    let (place, finished) = ended(&hooks, 60.0, &["run", "manifest.json", "--restarts", "3"]);
    finished.expect(
        0,
        &["restart 1 of 3: the run begins again, since it has no checkpoint of its own"],
    );
    assert!(weights(&place) == expected);
    // One that comes down every time has its restarts.
    let again = json!({"hook": "wrecker", "config": {"at": "after_iter", "how": "kill", "after_iteration": 4}});
    let (_, finished) = ended(&[again], 60.0, &["run", "manifest.json", "--restarts", "2"]);
    finished.expect(
        137,
        &["restart 1 of 2", "restart 2 of 2", "signal 9 (SIGKILL)"],
    );
}

#[test]
fn a_run_goes_on_with_fewer_ranks_where_that_changes_nothing() {
    let arguments = [
        "launch",
        "-n",
        "3",
        "--restarts",
        "1",
        "--min-ranks",
        "2",
        "manifest.json",
    ];
    let hooks = [saves(), struck("kill", 2)];
    let (place, finished) = ended(&hooks, 60.0, &arguments);
    let words = "restart 1 of 1: the run goes on from its checkpoint `here`, on 2 ranks";
    finished.expect(0, &[words]);
    assert!(weights(&place) == undisturbed());
    let mut manifest = manifest(&[]);
    manifest["distributed"]["batches"] = json!("rank");
    let place = Workplace::new(PLUGINS);
    place.write(&manifest);
    let finished = place.sconce(&arguments);
    finished.expect(
        2,
        &["`--min-ranks 2`", "that needs `\"batches\": \"update\"`"],
    );
}

#[test]
fn restarts_are_not_for_each_of_several_processes() {
    let arguments = ["launch", "-n", "2", "manifest.json", "--restarts", "1"];
    let (_, finished) = ended(&[], 60.0, &arguments);
    finished.expect(
        2,
        &[
            "`--restarts` is for a single process",
            "sconce launch -n N --restarts N",
        ],
    );
}
