//! No more threads are started than the process may use, and results are those of as many as are asked for.

#![cfg(target_os = "linux")]

use std::process::Command;

use sconce_tests::{Workplace, digits, edit};
use serde_json::json;

/// Runs its arguments on the first of the processors that it may use itself.
const ON_ONE_PROCESSOR: &str =
    r#"exec taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')" "$@""#;

fn on_one_processor(command: &Command) -> Command {
    let mut pinned = Command::new("sh");
    pinned
        .args(["-c", ON_ONE_PROCESSOR, "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => pinned.env(name, value),
            None => pinned.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        pinned.current_dir(directory);
    }
    pinned
}

#[test]
fn threads_beyond_the_processors_are_reported_and_change_no_bit() {
    let manifest = edit(digits(), "/hooks", json!([]));
    let manifest = edit(manifest, "/train/epochs", json!(1));
    let weights = |threads: usize, is_pinned: bool| {
        let place = Workplace::new(&[]);
        place.write(&edit(manifest.clone(), "/threads", json!(threads)));
        let command = place.command(&["run", "manifest.json"]);
        let mut command = if is_pinned {
            on_one_processor(&command)
        } else {
            command
        };
        let output = command.output().expect("a shell with taskset");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        let warns = told.contains(&format!("{threads} threads are asked for"));
        let weights = std::fs::read(place.path("out/weights.safetensors")).expect("weights");
        (weights, warns, told)
    };
    let (plain, _, _) = weights(3, false);
    let (pinned, warns, told) = weights(3, true);
    assert!(warns && told.contains("may use 1 processor:"), "{told}");
    assert!(plain == pinned, "other bits on one processor");
    let (_, warns, told) = weights(1, true);
    assert!(!warns, "{told}");
    let (_, warns, told) = weights(500, false);
    assert!(warns, "{told}");
}
