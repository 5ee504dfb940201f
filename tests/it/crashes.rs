//! A hook that brings the whole process down: it is named, on the way out or at the next start.

use std::process::{Command, Stdio};
use std::time::Duration;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const WRECKER: &str = "sconce-fixture-wrecker";

fn place() -> Workplace {
    Workplace::new(&[WRECKER, "sconce-fixture-recorder", "sconce-fixture-faults"])
}

fn manifest(config: Value) -> Value {
    let saver = json!({"hook": "asker", "config": {
        "at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "early", "once": true}});
    let hooks = json!([saver, {"hook": "wrecker", "name": "bad", "config": config}, "recorder"]);
    edit(tiny(), "/hooks", hooks)
}

fn wreck(place: &Workplace, at: &str, how: &str) -> Finished {
    place.run(&manifest(
        json!({"at": at, "how": how, "after_iteration": 2}),
    ))
}

fn report(place: &Workplace) -> Value {
    serde_json::from_str(&place.read("out/crash.json")).expect("the report is JSON")
}

#[test]
fn a_crash_in_a_hook_is_reported_with_its_name_and_exits_with_5() {
    for (how, signal) in [
        ("segv", "SIGSEGV"),
        ("raise-segv", "SIGSEGV"),
        ("raise-bus", "SIGBUS"),
        ("raise-fpe", "SIGFPE"),
        ("raise-ill", "SIGILL"),
        ("abort", "SIGABRT"),
        ("double-panic", "SIGABRT"),
    ] {
        let place = place();
        let finished = wreck(&place, "after_iter", how);
        let crashed = format!(
            "error: hook `bad` crashed ({signal}) at `after_iter` (train), epoch 0, iteration 2"
        );
        let finished = finished.expect(
            5,
            &[
                &crashed,
                "in plugin plugins/libsconce_fixture_wrecker.so",
                "last checkpoint: ",
                "out/checkpoints/early",
                "--skip bad",
            ],
        );
        assert!(!finished.stderr.contains("stack overflow"), "{how}");
        let report = report(&place);
        assert_eq!(report["kind"], "crash", "{how}");
        assert_eq!(report["signal"], signal);
        assert_eq!(report["hook"], "bad");
        assert_eq!(report["plugin"], WRECKER);
        assert_eq!(report["point"], "after_iter");
        assert_eq!(report["phase"], "train");
        assert_eq!(
            (&report["epoch"], &report["iteration"]),
            (&json!(0), &json!(2))
        );
        assert_eq!(report["thread"], "training");
        let checkpoint = report["last_checkpoint"].as_str().expect("a path");
        assert!(checkpoint.ends_with("checkpoints/early"));
        assert!(!place.checkpoint("early").is_empty(), "it can be read");
    }
}

#[test]
fn a_stack_overflow_is_recognised() {
    let place = place();
    wreck(&place, "after_loss", "stack-overflow").expect(
        5,
        &[
            "hook `bad` crashed (SIGSEGV) at `after_loss`",
            "stack overflow",
        ],
    );
    assert_eq!(report(&place)["stack_overflow"], true);
}

#[test]
fn crashes_outside_of_mount_points_are_reported_with_their_moment() {
    for (at, words, entry) in [
        ("new", "when it was created", "new"),
        ("save_state", "when its state was saved", "save_state"),
        ("drop", "when it was dropped", "drop"),
    ] {
        let place = place();
        let crashed = format!("hook `bad` crashed (SIGSEGV) {words}");
        wreck(&place, at, "segv").expect(5, &[&crashed]);
        assert_eq!(report(&place)["point"], entry);
    }
}

#[test]
fn a_crash_on_a_thread_of_a_plugin_names_its_library() {
    let place = place();
    wreck(&place, "after_iter", "thread-segv").expect(
        5,
        &[
            "another thread crashed (SIGSEGV) while hook `bad` was called at `after_iter`",
            "the crash is in the code of plugins/libsconce_fixture_wrecker.so",
        ],
    );
    let report = report(&place);
    assert_eq!(report["thread"], "other");
    assert_eq!(report["in_code_of"], "plugins/libsconce_fixture_wrecker.so");
}

#[test]
fn an_exit_in_a_hook_is_no_success() {
    for how in ["exit", "quick-exit", "thread-exit"] {
        let place = place();
        wreck(&place, "after_iter", how).expect(
            5,
            &["hook `bad` called `exit`, which ends the process, at `after_iter` (train), epoch 0, iteration 2"],
        );
        assert_eq!(report(&place)["kind"], "exit", "{how}");
        assert!(
            !place.path("out/run.json").exists(),
            "the run has no record"
        );
    }
}

#[test]
fn a_hook_that_ends_the_process_without_a_word_is_named_at_the_next_start() {
    for (how, code) in [("_exit", 0), ("kill", -1), ("exec", 0)] {
        let place = place();
        let finished = wreck(&place, "after_iter", how);
        assert_eq!(finished.code, code, "{how}");
        assert!(
            !place.path("out/run.json").exists(),
            "the run has no record"
        );
        let again = place.sconce(&["run", "manifest.json", "--overwrite", "--skip", "bad"]);
        again.expect(
            0,
            &[
                "warning: the run before in",
                "did not come to its end: it was killed, or left without a word",
                "in the hook `bad` at `after_iter` (train), epoch 0, iteration 2",
                "checkpoints/early",
                "`--skip bad` leaves it out",
            ],
        );
        let third = place
            .sconce(&["run", "manifest.json", "--overwrite", "--no-plugins"])
            .expect(0, &[]);
        assert!(!third.stderr.contains("the run before"), "{}", third.stderr);
    }
}

#[test]
fn the_report_of_a_crash_is_kept_at_the_next_start() {
    let place = place();
    wreck(&place, "after_iter", "segv").expect(5, &[]);
    place
        .sconce(&["run", "manifest.json", "--overwrite", "--no-plugins"])
        .expect(
            0,
            &[
                "did not come to its end: it crashed (SIGSEGV) in the hook `bad`",
                "crash.previous.json",
            ],
        );
    assert!(!place.path("out/crash.json").exists());
    assert!(place.path("out/crash.previous.json").exists());
}

#[test]
fn a_kill_from_outside_is_reported_too() {
    let place = place();
    let config = json!({"at": "after_iter", "how": "hang"});
    place.write(&manifest(config));
    let mut child = place
        .command(&["run", "manifest.json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started");
    let checkpoint = place.path("out/checkpoints");
    while !place.path("out/record.jsonl").exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(500));
    child.kill().expect("it can be killed");
    drop(child.wait());
    drop(checkpoint);
    place
        .sconce(&["run", "manifest.json", "--only", "recorder"])
        .expect(
            0,
            &[
                "did not come to its end: it was killed",
                "in the hook `bad` at `after_iter`",
            ],
        );
}

#[test]
fn a_forked_process_never_goes_on_with_the_run() {
    for (how, words) in [
        (
            "fork",
            &["a process that a plugin forked came back from the plugin's code: it ends here"][..],
        ),
        ("fork-segv", &[]),
        ("fork-exit", &[]),
    ] {
        let place = place();
        let finished = wreck(&place, "after_iter", how).expect(0, words);
        assert!(
            finished.stdout.starts_with("completed: 2 epochs"),
            "{how}: {}",
            finished.stdout
        );
        assert_eq!(finished.stdout.matches("completed").count(), 1, "{how}");
        assert!(
            !place.path("out/crash.json").exists(),
            "{how}: it is not the run's crash"
        );
        assert!(
            !finished.stderr.contains("error:"),
            "{how}: {}",
            finished.stderr
        );
        let ends = place.records("record.jsonl");
        let ends = ends
            .iter()
            .filter(|call| call["point"] == "after_run")
            .count();
        assert_eq!(ends, 1, "{how}: one process comes to the end");
    }
}

#[test]
fn hooks_are_left_out_by_name() {
    let place = place();
    place.write(&manifest(json!({"at": "before_run", "how": "segv"})));
    let run =
        |flags: &[&str]| place.sconce(&[&["run", "manifest.json", "--overwrite"], flags].concat());
    run(&[]).expect(5, &[]);
    run(&["--skip", "bad"]).expect(0, &[]);
    run(&["--only", "recorder", "--only", "asker"]).expect(0, &[]);
    let none = run(&["--no-plugins"]).expect(0, &[]);
    assert!(!none.stderr.contains("recorder"), "{}", none.stderr);
    run(&["--skip", "baad"]).expect(
        2,
        &[
            "`--skip baad`: the manifest has no hook of this name",
            "`asker`, `bad`, `recorder`",
            "did you mean `bad`?",
        ],
    );
    run(&["--only", "recoder"]).expect(2, &["did you mean `recorder`?"]);
    run(&["--no-plugins", "--skip", "bad"]).expect(2, &["cannot be used with"]);
    // Places are those of the whole manifest.
    let mut broken = manifest(json!({"at": "before_run", "how": "segv"}));
    broken["hooks"][2] = json!({"hook": "recorder", "config": {"fille": 1}});
    place.write(&broken);
    run(&["--skip", "bad"]).expect(2, &["at hooks[2].config.fille"]);
}

#[test]
fn a_core_file_is_left_where_one_is_asked_for() {
    let place = place();
    place.write(&manifest(json!({"at": "after_iter", "how": "segv"})));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -c unlimited && exec \"$0\" run manifest.json"])
        .arg(sconce_tests::artifacts().sconce())
        .current_dir(place.directory())
        .env("SCONCE_CORE", "1");
    let finished = Finished::from(shell.output().expect("a shell"));
    finished.expect(5, &["hook `bad` crashed (SIGSEGV)"]);
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.trim() == "core" {
        let entries = std::fs::read_dir(place.directory()).expect("read");
        let cores = entries
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("core"))
            .count();
        assert_eq!(cores, 1);
    } else {
        sconce_tests::say("not looked for a core file: they go elsewhere on this machine");
    }
}
