//! A library is opened in another process first; what it does there is told, and none of it reaches
//! the run.

use std::time::{Duration, Instant};

use sconce_tests::{Finished, Workplace, edit, tiny};
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
    let is_alive = std::fs::read_to_string(format!("/proc/{child}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z "));
    assert!(!is_alive, "the forked process is ended too");
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
fn what_a_constructor_changes_is_told_and_undone() {
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
