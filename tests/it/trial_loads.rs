//! A library is opened in another process first; what it does there is told, and none of it reaches
//! the run.

use std::time::{Duration, Instant};

use sconce_tests::{Finished, Workplace, edit, tiny, until_ended};
use serde_json::{Value, json};

const MEDDLER: &str = "sconce-fixture-meddler";

fn manifest() -> Value {
    edit(tiny(), "/hooks", json!(["meddler"]))
}

fn run(place: &Workplace, meddle: &str) -> Finished {
    place.write(&manifest());
    let file = place.path("child");
    let file = file.to_string_lossy();
    place.sconce_in(
        &["run", "manifest.json"],
        &[
            ("MEDDLE", meddle),
            ("MEDDLE_FILE", &*file),
            ("SCONCE_LOAD_LIMIT", "2"),
        ],
    )
}

#[test]
fn a_library_that_crashes_or_exits_when_it_is_opened_is_refused() {
    let place = Workplace::new(&[MEDDLER]);
    for (meddle, words) in [
        ("segv", &["crashed while loading (SIGSEGV)"][..]),
        ("null", &["crashed while loading (SIGSEGV)"]),
        ("abort", &["crashed while loading (SIGABRT)"]),
        ("exit", &["exited with 0 without saying that it is done"]),
        ("_exit", &["exited with 0 without saying that it is done"]),
        (
            "words",
            &[
                "exited with 1 without saying that it is done",
                "| the licence server is away",
            ],
        ),
    ] {
        let finished = run(&place, meddle).expect(3, words);
        finished.expect(
            3,
            &[
                "libsconce_fixture_meddler.so` is refused",
                "gate: trial load",
                "at hooks[0]",
            ],
        );
        assert!(!place.path("out").exists(), "{meddle}: nothing is made");
    }
}

#[test]
fn a_library_that_does_harm_when_the_process_exits_is_refused() {
    let place = Workplace::new(&[MEDDLER]);
    let crash = "crashes when the process exits (SIGSEGV)";
    for (meddle, words) in [
        ("exit-segv", crash),
        ("destructor-segv", crash),
        ("thread-local-segv", crash),
        ("exit-abort", "crashes when the process exits (SIGABRT)"),
        (
            "exit-code",
            "changes the exit code of the process to 0 when the process exits",
        ),
        (
            "exit-hang",
            "keeps the process from exiting: not done after 2 s",
        ),
    ] {
        let words = [
            "libsconce_fixture_meddler.so` is refused: ",
            words,
            "gate: trial load",
        ];
        run(&place, meddle).expect(3, &words);
        assert!(!place.path("out").exists(), "{meddle}: nothing is made");
    }
    // So does `check`, which names it too.
    place
        .sconce_in(&["check", "manifest.json"], &[("MEDDLE", "exit-segv")])
        .expect(3, &["libsconce_fixture_meddler.so` is refused: ", crash]);
}

#[test]
fn a_crash_at_the_exit_that_no_trial_saw_is_reported_with_the_library() {
    let place = Workplace::new(&[MEDDLER]);
    for (meddle, signal, words) in [
        ("late-exit-segv", "SIGSEGV", "the crash is in the code of "),
        (
            "late-exit-abort",
            "SIGABRT",
            "the crash is in what was called by the code of ",
        ),
    ] {
        let finished = run(&place, meddle).expect(
            5,
            &[
                &format!("the process crashed ({signal}) when it exited, after the end of the run"),
                &format!("{words}plugins/libsconce_fixture_meddler.so"),
                "report: ",
            ],
        );
        assert!(
            finished.stdout.starts_with("completed: "),
            "{}",
            finished.stdout
        );
        for file in ["run.json", "weights.safetensors"] {
            assert!(place.path("out").join(file).exists(), "{file} is written");
        }
        let report: Value = serde_json::from_str(&place.read("out/crash.json")).expect("JSON");
        assert_eq!(
            (&report["point"], &report["hook"]),
            (&json!("exit"), &Value::Null)
        );
        assert_eq!(report["in_code_of"], "plugins/libsconce_fixture_meddler.so");
        // The next run has nothing to say of it, and keeps the report.
        let next = run(&place, "").expect(0, &[]);
        assert!(!next.stderr.contains("did not come to its end"));
        assert!(place.path("out/crash.previous.json").exists());
        std::fs::remove_dir_all(place.path("out")).expect("the run's directory");
    }
}

#[test]
fn a_library_that_keeps_the_process_from_exiting_does_not_keep_it_for_ever() {
    let place = Workplace::new(&[MEDDLER]);
    place.write(&manifest());
    let environment = [("MEDDLE", "late-exit-hang"), ("SCONCE_LOAD_LIMIT", "1")];
    let finished = place
        .sconce_in(&["run", "manifest.json"], &environment)
        .expect(
            6,
            &[
                "warning: the process has not exited for 1 s",
                "error: the process was ended after 3 s",
            ],
        );
    assert!(
        finished.stdout.starts_with("completed: "),
        "{}",
        finished.stdout
    );
}

#[test]
fn few_open_files_are_no_fault_of_the_plugins() {
    let others = ["breaker", "faults", "giver", "noop", "recorder", "wrecker"];
    let others = others.map(|name| format!("sconce-fixture-{name}"));
    let mut packages: Vec<&str> = others.iter().map(String::as_str).collect();
    packages.push(MEDDLER);
    let place = Workplace::new(&packages);
    let hooks = json!(["meddler", "recorder", "noop", "breaker", "counter", "asker",
        {"hook": "wrecker", "config": {"at": "nowhere", "how": ""}}]);
    let hooks = edit(
        hooks,
        "/5",
        json!({"hook": "asker", "config": {
        "at": "after_iter", "phase": "train", "what": "save_checkpoint", "text": "early", "once": true}}),
    );
    place.write(&edit(tiny(), "/hooks", hooks));
    let limited = |limit: u64| {
        let script = format!("ulimit -n {limit} && exec \"$0\" run manifest.json --overwrite");
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .arg(sconce_tests::artifacts().sconce())
            .current_dir(place.directory())
            .output();
        Finished::from(output.expect("a shell"))
    };
    for limit in [24, 100] {
        let finished = limited(limit).expect(0, &["the meddler is here"]);
        assert!(
            !finished.stderr.contains("can't be started"),
            "{}",
            finished.stderr
        );
        assert!(!place.checkpoint("early").is_empty());
        let is_short = finished.stderr.contains("`ulimit -n` is 24");
        assert_eq!(is_short, limit == 24, "{}", finished.stderr);
    }
    limited(6).expect(
        3,
        &["this process may have 6 files open at once; `ulimit -n 1024`"],
    );
}

#[test]
fn a_library_that_hangs_is_ended_with_all_that_it_started() {
    let place = Workplace::new(&[MEDDLER]);
    let begin = Instant::now();
    run(&place, "fork,hang").expect(
        3,
        &[
            "not done loading after 2 s",
            "`limits.load`",
            "SCONCE_LOAD_LIMIT",
        ],
    );
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "it waits no longer"
    );
    let child = place.read("child");
    until_ended(child.parse().expect("a process's number"));
    // The limit may stand in the manifest too.
    place.write(&edit(manifest(), "/limits", json!({"load": 0.5})));
    place
        .sconce_in(&["check", "manifest.json"], &[("MEDDLE", "hang")])
        .expect(3, &["not done loading after 0.5 s"]);
}

#[test]
fn of_several_libraries_the_one_that_crashes_is_named() {
    let place = Workplace::new(&["sconce-fixture-recorder", MEDDLER, "sconce-fixture-noop"]);
    place.write(&edit(
        tiny(),
        "/hooks",
        json!(["recorder", "meddler", "noop", "meddler"]),
    ));
    let finished = place
        .sconce_in(&["run", "manifest.json"], &[("MEDDLE", "segv")])
        .expect(3, &["at hooks[1]", "at hooks[3]"]);
    assert_eq!(finished.stderr.matches("is refused").count(), 2);
    assert!(!finished.stderr.contains("recorder"), "{}", finished.stderr);
}

#[test]
fn what_a_constructor_changes_is_reported_and_undone() {
    let place = Workplace::new(&[MEDDLER]);
    for (meddle, words) in [
        (
            "directory",
            "changed the current directory when it was opened; that was undone",
        ),
        (
            "signal",
            "took over the signal SIGSEGV when it was opened; that was undone",
        ),
        (
            "signal",
            "took over the signal SIGTERM when it was opened; that was undone",
        ),
        (
            "close",
            "closed or replaced standard output when it was opened; that was undone",
        ),
        (
            "locale",
            "changed the locale when it was opened; that was undone",
        ),
        ("floats", "changed the processor's floating-point mode"),
        ("thread", "started 1 thread when it was opened"),
        (
            "block",
            "blocked SIGINT, SIGTERM when it was opened; that was undone",
        ),
        ("alarm", "set an alarm when it was opened; that was undone"),
        ("limit", "changed the limit RLIMIT_NOFILE from "),
        ("umask", "changed the permissions of new files (umask "),
        (
            "fork-back",
            "left a process behind when it was opened (a copy of this one that comes back is ended)",
        ),
        (
            "print",
            "prints to standard output when it is opened (`hello from a constructor`)",
        ),
    ] {
        let finished = run(&place, meddle).expect(0, &["warning: ", words, "the meddler is here"]);
        assert!(
            finished.stdout.starts_with("completed: 2 epochs"),
            "{meddle}: results alone on standard output:\n{}",
            finished.stdout
        );
        std::fs::remove_dir_all(place.path("out")).expect("the run's directory");
    }
}

#[test]
fn a_program_with_a_task_of_its_own_tries_its_plugins_too() {
    let place = Workplace::new(&[MEDDLER]);
    let mut manifest = manifest();
    manifest["task"] = json!({});
    place.write(&manifest);
    let program = sconce_tests::artifacts().directory().join("autoencoder");
    let output = std::process::Command::new(program)
        .args(["check", "manifest.json"])
        .current_dir(place.directory())
        .env("MEDDLE", "exit")
        .output()
        .expect("it can be started");
    Finished::from(output).expect(3, &["exited with 0 without saying that it is done"]);
}

#[test]
fn a_plugin_that_is_overwritten_in_mid_run_does_no_harm() {
    let place = Workplace::new(&[]);
    std::fs::create_dir_all(place.path("plugins")).expect("made");
    let source = sconce_tests::artifacts().plugin("sconce-fixture-recorder");
    let target = place.path("plugins/recorder.so");
    std::fs::copy(source, &target).expect("a copy, not a link");
    let manifest = edit(tiny(), "/hooks", json!(["recorder"]));
    place.write(&edit(manifest, "/train/epochs", json!(400)));
    let mut child = place
        .command(&["run", "manifest.json"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it can be started");
    let record = place.path("out/record.jsonl");
    while !record.exists() {
        assert!(child.try_wait().expect("a child").is_none(), "it runs");
        std::thread::sleep(Duration::from_millis(1));
    }
    // In place, as `cp` does it: the pages of the same file.
    std::fs::write(&target, vec![0; 100_000]).expect("written");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "{status}");
    let last = place.records("record.jsonl").pop().expect("calls");
    assert_eq!(last["detail"], "completed");
}

/// The system's limit on the first thread's stack doesn't end a command, and plugins are tried and run under it too.
#[test]
fn a_small_stack_is_enough() {
    let place = Workplace::new(&["sconce-plugin-console"]);
    place.write(&edit(tiny(), "/hooks", json!(["console"])));
    let command = place.command(&["run", "manifest.json"]);
    let run = format!(
        "ulimit -s 128; exec {} run manifest.json",
        command.get_program().display()
    );
    let limited = std::process::Command::new("sh")
        .args(["-c", &run])
        .current_dir(place.directory())
        .output()
        .expect("a shell");
    let told = String::from_utf8_lossy(&limited.stderr);
    assert!(limited.status.success(), "{told}");
}
