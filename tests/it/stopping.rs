//! What ends runs from outside: signals, errors, full disks, other runs.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use sconce_tests::kill::{Blow, blow, straight, survive};
use sconce_tests::{Finished, Workplace, artifacts, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: [&str; 5] = [
    "sconce-fixture-breaker",
    "sconce-fixture-faults",
    "sconce-fixture-giver",
    "sconce-fixture-recorder",
    "sconce-fixture-wrecker",
];

fn place() -> Workplace {
    let place = Workplace::new(&PLUGINS);
    fs::create_dir(place.path("out")).expect("made");
    place
}

fn manifest(hooks: Value) -> Value {
    edit(tiny(), "/hooks", hooks)
}

fn outcome(place: &Workplace) -> (String, String) {
    let run: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let text = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("reason"))
}

#[test]
fn the_first_signal_saves_and_the_run_goes_on_from_there() {
    // Twice, as `timeout` sends it: to the process, then to its group.
    for (signal, name, code, times) in [
        ("INT", "SIGINT", 130, 1),
        ("TERM", "SIGTERM", 143, 2),
        ("HUP", "SIGHUP", 129, 1),
    ] {
        if signal == "HUP" && is_hangup_ignored() {
            sconce_tests::say("not tried: this process was started to ignore SIGHUP");
            continue;
        }
        let place = place();
        let order = json!({"at": "after_iter", "phase": "train", "iteration": 4, "signal": signal, "times": times});
        place.write_text("out/break.json", &order.to_string());
        let finished = place.run(&manifest(json!(["recorder", "witness", "breaker"])));
        let words = ["finishing the iteration", "outcome: Interrupted", name];
        let finished = finished.expect(code, &words);
        let told = format!("ended by {name}: 1 epochs, 4 iterations");
        assert!(finished.stdout.contains(&told), "{}", finished.stdout);
        assert!(
            finished
                .stdout
                .contains("sconce run manifest.json --resume\n")
        );
        assert_eq!(outcome(&place), ("interrupted".to_owned(), name.to_owned()));
        assert!(
            !place.path("out/weights.safetensors").exists(),
            "it is not trained"
        );
        let records = place.records("record.jsonl");
        let ends: Vec<&str> = (records.iter().rev().take(3).rev())
            .filter_map(|call| call["point"].as_str())
            .collect();
        // No point between the save and the end: they come when the run goes on.
        assert_eq!(
            ends,
            [
                "before_save_checkpoint",
                "after_save_checkpoint",
                "after_run"
            ]
        );
        assert_eq!(
            fs::read_link(place.path("out/checkpoints/latest")).ok(),
            Some("interrupted".into())
        );
        let finished = place
            .sconce(&["run", "manifest.json", "--resume"])
            .expect(0, &[]);
        assert!(
            finished
                .stdout
                .contains("completed: 2 epochs, 6 iterations")
        );
        assert_eq!(outcome(&place).0, "completed");
    }
}

/// Whether this process, and so those that it starts, ignores SIGHUP.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & 1 == 1)
}

#[test]
fn a_hangup_that_a_run_was_started_to_ignore_stays_ignored() {
    let place = place();
    let order = json!({"at": "after_iter", "phase": "train", "iteration": 2, "signal": "HUP"});
    place.write_text("out/break.json", &order.to_string());
    place.write(&manifest(json!(["breaker"])));
    // As `nohup` does it.
    let output = Command::new("sh")
        .args(["-c", "trap '' HUP && exec \"$0\" run manifest.json"])
        .arg(artifacts().sconce())
        .current_dir(place.directory())
        .output();
    Finished::from(output.expect("a shell")).expect(0, &[]);
    assert!(
        !place.path("out/break.json").exists(),
        "the signal was sent"
    );
    assert_eq!(outcome(&place).0, "completed");
}

#[test]
fn a_later_signal_does_not_cost_the_checkpoint_that_is_being_written() {
    let place = place();
    // More than a second after the first: whoever sends it insists.
    let second =
        json!({"at": "before_save_checkpoint", "iteration": 4, "signal": "TERM", "pause": 1.1});
    let first = json!({"at": "after_iter", "phase": "train", "iteration": 4, "signal": "TERM", "then": second});
    place.write_text("out/break.json", &first.to_string());
    let finished = place.run(&manifest(json!(["breaker"])));
    finished.expect(
        143,
        &["the checkpoint `interrupted` is being written; another signal"],
    );
    assert!(
        !place.checkpoint("interrupted").is_empty(),
        "it is complete"
    );
    assert_eq!(outcome(&place).0, "interrupted");
}

#[test]
fn an_output_directory_that_vanished_is_named_as_the_reason() {
    let vanish = json!({"hook": "wrecker", "config": {"at": "after_iter", "how": "vanish", "after_iteration": 4}});
    let save = json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "late", "after_iteration": 5, "once": true}});
    let fault = json!({"hook": "fault", "phases": ["train"], "config": {"at": "after_iter", "how": "error", "from_call": 5}});
    let gone = "is not there any more: it was removed, renamed or unmounted during the run";
    for (hooks, code, words) in [
        (
            json!([vanish, save]),
            7,
            &["the checkpoint `late` is not saved: the output directory `"][..],
        ),
        (
            json!([vanish, fault]),
            4,
            &[
                "hook `fault` failed",
                "the checkpoint `failed` is not saved: the output directory `",
            ],
        ),
    ] {
        let place = place();
        let finished = place.run(&manifest(hooks)).expect(code, words);
        let finished = finished.expect(
            code,
            &[
                gone,
                "the run's results can't be written: the output directory `",
            ],
        );
        assert!(
            !finished.stdout.contains("continue with:"),
            "there is nothing"
        );
        assert!(!place.path("out").exists(), "it is not made again");
    }
}

/// A run goes on in no other directory than the one it began in: neither its checkpoints nor its results are divided.
#[test]
fn a_directory_in_the_place_of_the_outputs_is_not_written_to() {
    let another = |iteration: u64| json!({"hook": "wrecker", "config": {"at": "after_iter", "how": "another", "after_iteration": iteration}});
    let save = json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "late", "after_iteration": 5, "once": true}});
    for (hooks, words) in [
        // At the beginning of the next epoch, before a checkpoint, and before the results.
        (json!([another(2)]), "error: the output directory `"),
        (
            json!([another(4), save]),
            "the checkpoint `late` is not saved: the output directory `",
        ),
        (
            json!([another(5)]),
            "the run's results can't be written: the output directory `",
        ),
    ] {
        let place = place();
        let finished = place.run(&manifest(hooks)).expect(7, &[words]);
        finished.expect(7, &["is not the one in which the run began", "out.moved`"]);
        let files = |directory: &str| {
            let entries = std::fs::read_dir(place.path(directory)).expect("a directory");
            entries
                .map(|entry| entry.expect("an entry").file_name())
                .collect::<Vec<_>>()
        };
        assert!(files("out").is_empty(), "{:?}", files("out"));
        assert!(files("out.moved").contains(&"manifest.json".into()));
    }
}

#[test]
fn a_signal_in_a_validation_lets_it_end_and_skips_the_rest() {
    let place = place();
    let order = json!({"at": "before_iter", "phase": "val", "iteration": 3, "signal": "INT"});
    place.write_text("out/break.json", &order.to_string());
    let finished = place.run(&manifest(json!(["recorder", "breaker"])));
    finished.expect(130, &["SIGINT: saving a checkpoint"]);
    let records = place.records("record.jsonl");
    let count = |point: &str, phase: &str| {
        let calls = records.iter();
        calls
            .filter(|call| call["point"] == point && call["phase"] == phase)
            .count()
    };
    assert_eq!(count("after_loop", "val"), 1);
    assert_eq!(
        (count("after_cycle", "train"), count("before_loop", "test")),
        (0, 0)
    );
    place
        .sconce(&["run", "manifest.json", "--resume"])
        .expect(0, &[]);
    let records = place.records("record.jsonl");
    let loops = records
        .iter()
        .filter(|call| call["point"] == "after_loop" && call["phase"] == "val");
    assert_eq!(loops.count(), 2, "the first validation is not done again");
}

#[test]
fn a_run_that_fails_saves_where_it_was() {
    let fault = |at: &str| json!({"hook": "fault", "phases": ["train"], "config": {"at": at, "how": "error", "from_call": 4}});
    let straight = place();
    straight.run(&manifest(json!(["counter"]))).expect(0, &[]);
    let weights =
        |place: &Workplace| fs::read(place.path("out/weights.safetensors")).expect("weights");
    // Between iterations, and within one before and after its update.
    for (at, is_exact, iteration) in [
        // Some hooks have seen the iteration, and others not.
        ("after_iter", false, 5),
        ("after_loss", false, 4),
        ("after_update", false, 5),
    ] {
        let place = place();
        let finished = place.run(&manifest(json!(["counter", fault(at)])));
        let finished = finished.expect(4, &["hook `fault` failed", "told to fail"]);
        assert!(
            finished.stdout.contains("continue with:"),
            "{at}: {}",
            finished.stdout
        );
        let state: Value =
            serde_json::from_str(&place.read("out/checkpoints/failed/state.json")).expect("JSON");
        assert_eq!(
            (&state["exact"], &state["progress"]["iteration"]),
            (&json!(is_exact), &json!(iteration)),
            "{at}"
        );
        place.write(&manifest(json!(["counter", fault("drop-nothing")])));
        let finished = place.sconce(&["run", "manifest.json", "--resume", "--allow-changes"]);
        finished.expect(0, &["an error interrupted an iteration"]);
        assert!(
            weights(&place) == weights(&straight),
            "{at}: the parameters are exact"
        );
    }
    // Before anything is trained there is nothing to save.
    let place = place();
    let first = json!({"hook": "fault", "config": {"at": "before_run", "how": "error"}});
    let finished = place.run(&manifest(json!([first]))).expect(4, &[]);
    assert!(!finished.stdout.contains("continue with"));
    assert!(!place.path("out/checkpoints").exists());
}

/// What a failed hook has left is the middle of something: `--resume` takes the checkpoint before it, with all bits.
#[test]
fn a_run_that_fails_in_a_hook_resumes_from_the_checkpoint_before_it() {
    let save = json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_cycle", "what": "save_checkpoint", "text": "cycle"}});
    let fault =
        |at: &str| json!({"hook": "fault", "config": {"at": at, "how": "error", "from_call": 1}});
    let hooks = |at: &str| manifest(json!(["recorder", "counter", fault(at), save]));
    let straight = place();
    straight.run(&hooks("drop-nothing")).expect(0, &[]);
    // Of the second cycle, whose save the last one breaks off.
    for at in ["after_cycle", "save_state"] {
        let place = place();
        let finished = place.run(&hooks(at));
        let finished = finished.expect(4, &["hook `fault` failed"]);
        let words = finished.stdout.lines().rev().take(4);
        let words: Vec<&str> = words.collect();
        assert!(
            words[0].ends_with("--resume") && words[2].ends_with("--resume failed"),
            "{at}: {words:?}"
        );
        if at == "save_state" {
            let records = place.records("record.jsonl");
            let told = records
                .iter()
                .filter(|call| call["point"] == "after_save_checkpoint");
            let told: Vec<&str> = told.filter_map(|call| call["detail"].as_str()).collect();
            assert!(
                told.iter()
                    .any(|told| told.contains("told to fail at save_state")),
                "{told:?}"
            );
        }
        place.write(&hooks("drop-nothing"));
        let finished = place.sconce(&["run", "manifest.json", "--resume", "--allow-changes"]);
        let finished = finished.expect(0, &["checkpoints/cycle"]);
        assert!(
            !finished.stderr.contains("interrupted an iteration"),
            "{at}"
        );
        let weights =
            |place: &Workplace| fs::read(place.path("out/weights.safetensors")).expect("weights");
        assert!(weights(&place) == weights(&straight), "{at}");
    }
}

/// A save that is asked for where another hook fails is done by the run that resumes there.
#[test]
fn what_was_asked_where_a_hook_failed_is_done_after_the_resume() {
    let ask = json!({"hook": "asker", "priority": "HIGH", "config": {"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "asked", "after_iteration": 5, "once": true}});
    let fault = |at: &str| json!({"hook": "fault", "phases": ["train"], "config": {"at": at, "how": "error", "from_call": 4}});
    let place = place();
    place
        .run(&manifest(json!([ask, fault("after_iter")])))
        .expect(4, &["hook `fault` failed"]);
    assert!(!place.path("out/checkpoints/asked").exists());
    place.write(&manifest(json!([ask, fault("drop-nothing")])));
    place
        .sconce(&["run", "manifest.json", "--resume", "--allow-changes"])
        .expect(0, &["an error interrupted"]);
    assert!(place.path("out/checkpoints/asked").exists());
}

#[test]
fn what_fails_again_while_a_failure_is_saved_does_not_hide_it() {
    let place = place();
    let first = json!({"hook": "fault", "name": "first", "config": {"at": "after_iter", "how": "error", "from_call": 2}});
    let second = json!({"hook": "fault", "name": "second", "config": {"at": "save_state"}});
    let finished = place.run(&manifest(json!([first, second, "counter"])));
    let finished = finished.expect(
        4,
        &[
            "hook `first` failed at `after_iter`",
            "hook `second` panicked when its state was saved",
        ],
    );
    let (one, other) = (
        finished.stderr.find("`first` failed"),
        finished.stderr.find("`second` panicked"),
    );
    assert!(one < other, "{}", finished.stderr);
    let hooks: Value =
        serde_json::from_str(&place.read("out/checkpoints/failed/hooks.json")).expect("JSON");
    assert_eq!(
        (&hooks[1]["state"], &hooks[2]["state"]),
        (&Value::Null, &json!(2))
    );
    assert_eq!(outcome(&place).0, "failed");
}

#[test]
fn a_directory_is_one_runs_at_a_time() {
    let place = place();
    let path = place.path("out/run.lock");
    let lock = File::create(&path).expect("made");
    lock.lock().expect("locked");
    let holder =
        json!({"pid": 4711, "host": "elsewhere", "boot": "", "started": "2026-11-21 10:50:44 UTC"});
    fs::write(&path, holder.to_string()).expect("written");
    let told =
        ["is in use by another run: process 4711 on elsewhere, since 2026-11-21 10:50:44 UTC"];
    place.run(&manifest(json!([]))).expect(2, &told);
    drop(lock);
    place.run(&manifest(json!([]))).expect(0, &[]);
    let text: Value = serde_json::from_str(&place.read("out/run.lock")).expect("JSON");
    assert!(text["pid"].is_u64());
}

#[test]
fn an_output_that_is_no_directory_is_reported_before_anything_is_trained() {
    let place = place();
    place.write_text("file", "x");
    for (output, words) in [
        ("file", "file` is a file"),
        ("file/below", "file` is a file"),
        (&*"x".repeat(300), "File name too long"),
        ("/proc/sconce", "can't be written to"),
    ] {
        let manifest = edit(manifest(json!([])), "/output", json!(output));
        let told = ["output directory", words, "--output"];
        place.run(&manifest).expect(2, &told);
        place.sconce(&["check", "manifest.json"]).expect(2, &told);
    }
    // What can be made is not made by a check.
    place.write(&edit(manifest(json!([])), "/output", json!("some/where")));
    place.sconce(&["check", "manifest.json"]).expect(0, &[]);
    let is_new = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        name == "some" || name.starts_with(".sconce")
    };
    assert!(
        !fs::read_dir(place.directory())
            .expect("a directory")
            .any(is_new)
    );
}

/// Runs the manifest under a limit on the size of files, in blocks of 512 bytes.
fn limited(place: &Workplace, blocks: u64, arguments: &[&str]) -> Finished {
    let script = format!("ulimit -f {blocks} && exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(artifacts().sconce())
        .args(arguments)
        .current_dir(place.directory())
        .output();
    Finished::from(output.expect("a shell"))
}

#[test]
fn a_checkpoint_that_finds_no_room_leaves_the_earlier_ones() {
    let save = |tag: &str, iteration: u64| {
        let config = json!({"at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": tag, "after_iteration": iteration, "once": true});
        json!({"hook": "asker", "config": config})
    };
    let place = place();
    let first = manifest(json!([save("a", 1)]));
    place.run(&first).expect(0, &[]);
    let before = place.checkpoint("a");
    // The parameters alone have 25 kB.
    let finished = limited(
        &place,
        20,
        &[
            "run",
            "manifest.json",
            "--resume",
            "a",
            "--set",
            "hooks[0].config.after_iteration=3",
            "--allow-changes",
        ],
    );
    finished.expect(
        7,
        &[
            "the checkpoint `a` is not saved",
            "out/checkpoints/.a.new-",
            "the checkpoint needs",
            "bytes are free".trim_start_matches("bytes "),
            "weights can't be written",
        ],
    );
    assert!(place.checkpoint("a") == before, "as it was");
    let names = fs::read_dir(place.path("out/checkpoints")).expect("it is there");
    let mut names: Vec<_> = names
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "latest"], "nothing is left");
    place.write(&first);
    place
        .sconce(&["run", "manifest.json", "--resume"])
        .expect(0, &[]);
}

#[test]
fn a_reader_that_has_had_enough_does_not_end_the_run() {
    let place = place();
    place.write(&manifest(json!(["witness"])));
    for (stdout, stderr) in [("| true", ""), (">&-", "2>&-"), (">&-", "")] {
        let script = format!("\"$0\" run manifest.json --overwrite {stderr} {stdout}; true");
        let status = Command::new("sh")
            .args(["-c", &script])
            .arg(artifacts().sconce())
            .current_dir(place.directory())
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        let told = String::from_utf8_lossy(&status.stderr);
        assert!(!told.contains("panicked"), "{told}");
        assert_eq!(outcome(&place).0, "completed", "{stdout} {stderr}");
        fs::remove_file(place.path("out/run.json")).expect("removed");
    }
}

#[test]
fn runs_that_are_struck_come_to_the_same_bits() {
    let expected = straight();
    let signal = |signal, at, iteration| Blow::Signal {
        signal,
        at,
        iteration,
    };
    let blows = [
        signal("KILL", "after_iter", 4),
        signal("KILL", "after_update", 5),
        signal("KILL", "before_save_checkpoint", 6),
        signal("TERM", "after_backward", 2),
        signal("INT", "after_epoch", 3),
        Blow::Limit(40),
        blow(1, 0),
    ];
    for blow in blows {
        let (results, attempts) = survive(&blow);
        assert!(results == expected, "{blow:?} after {attempts} runs");
        assert!(
            attempts > 1 || matches!(blow, Blow::After(_)),
            "{blow:?} struck"
        );
    }
}
