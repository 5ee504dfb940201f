//! `sconce new-plugin --language python`: what it writes is tested, typed, and runs.

use std::process::Command;

use sconce_tests::{Finished, Workplace, python_with};

#[test]
fn a_new_hook_in_python_passes_its_tests_and_runs() {
    let Some(python) = python_with(&["numpy", "pytest", "mypy"]) else {
        return;
    };
    let place = Workplace::new(&[]);
    let written = place
        .sconce(&["new-plugin", "best-epoch", "--language", "python"])
        .expect(0, &[]);
    assert!(
        written.stdout.contains("pip install numpy pytest"),
        "{}",
        written.stdout
    );
    let in_python = |arguments: &[&str]| {
        let mut command = Command::new(python.join("bin/python"));
        command
            .args(arguments)
            .current_dir(place.path("best-epoch"));
        Finished::from(command.output().expect("Python can be started"))
    };
    let tested = in_python(&["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    assert!(
        tested.code == 0 && tested.stdout.contains("4 passed"),
        "{}",
        tested.stdout
    );
    let typed = in_python(&["-m", "mypy", "hook.py", "test_hook.py"]);
    assert_eq!(typed.code, 0, "{}", typed.stdout);
    // The manifest names `.venv`.
    std::os::unix::fs::symlink(&python, place.path("best-epoch/.venv")).expect("a link");
    let mut run = place.command(&["run", "run.json", "--set", "train.epochs=2"]);
    run.current_dir(place.path("best-epoch"));
    let finished = Finished::from(run.output().expect("the binary can be started"));
    finished.expect(0, &["best-epoch: best accuracy so far"]);
    // Nothing is overwritten.
    place
        .sconce(&["new-plugin", "best-epoch", "--language", "python"])
        .expect(2, &["best-epoch"]);
}
