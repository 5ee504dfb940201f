//! Names, copies, instances, and a plugin from outside.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use sconce_tests::{Workplace, artifacts, cargo_outside, edit, outside_target, tiny, workspace};
use serde_json::{Value, json};

#[test]
fn two_plugins_of_the_same_root_type_are_both_themselves() {
    let place = Workplace::new(&["sconce-fixture-recorder", "sconce-fixture-rival"]);
    let hooks = json!([
        "sconce-fixture-rival/recorder",
        "sconce-fixture-recorder/recorder"
    ]);
    place
        .run(&edit(tiny(), "/hooks", hooks))
        .expect(0, &["the rival is here"]);
    let records = place.records("record.jsonl");
    assert!(
        !records.is_empty() && records.iter().all(|call| call["hook"] == "recorder-2"),
        "the rival records nothing"
    );
}

#[test]
fn one_library_for_two_entries_gives_two_independent_hooks() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    let hooks = json!([
        {"hook": "recorder", "config": {"file": "first.jsonl"}, "phases": ["train"]},
        {"hook": "recorder", "config": {"file": "second.jsonl"}}
    ]);
    place
        .run(&edit(tiny(), "/hooks", hooks))
        .expect(0, &["recorder (NORMAL), recorder-2 (NORMAL)"]);
    let (first, second) = (place.records("first.jsonl"), place.records("second.jsonl"));
    assert!(first.len() < second.len());
    let names = |records: &[Value]| -> Vec<String> {
        let mut names: Vec<String> = records
            .iter()
            .map(|call| call["hook"].to_string())
            .collect();
        names.dedup();
        names
    };
    assert_eq!(names(&first), ["\"recorder\""]);
    assert_eq!(names(&second), ["\"recorder-2\""]);
}

#[test]
fn a_copy_in_a_second_directory_is_no_second_plugin() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    place.add_plugin("sconce-fixture-recorder", "copies");
    let manifest = edit(tiny(), "/plugins", json!(["plugins", "copies", "plugins"]));
    place
        .run(&edit(manifest, "/hooks", json!(["recorder"])))
        .expect(0, &[]);
}

#[test]
fn directories_come_from_command_line_manifest_and_environment_in_this_order() {
    let place = Workplace::new(&[]);
    place.add_plugin("sconce-fixture-recorder", "from-line");
    let manifest = edit(tiny(), "/plugins", json!([]));
    place.write(&edit(manifest, "/hooks", json!(["recorder"])));
    place
        .sconce(&["run", "manifest.json", "--plugins", "from-line"])
        .expect(0, &[]);
    let output = Command::new(artifacts().sconce())
        .args(["check", "manifest.json"])
        .current_dir(place.directory())
        .env("SCONCE_PLUGIN_PATH", place.path("from-line"))
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("from-line"), "{text}");
}

/// Builds the example as its user would: in its own folder, by its own lock file.
fn outside_plugin() -> PathBuf {
    static ALONE: OnceLock<PathBuf> = OnceLock::new();
    ALONE.get_or_init(build_outside_plugin).clone()
}

/// Builds it, and gives its library a directory of its own: other tests build other versions of it beside it.
fn build_outside_plugin() -> PathBuf {
    let example = workspace().join("examples/outside-plugin");
    let status = cargo_outside(&example)
        .args(["build", "--quiet", "--locked"])
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the outside plugin builds");
    let alone = outside_target().join("alone");
    std::fs::create_dir_all(&alone).expect("a directory");
    let name = format!("{DLL_PREFIX}best_loss{DLL_SUFFIX}");
    let built = outside_target().join("debug").join(&name);
    std::fs::copy(built, alone.join(name)).expect("its library");
    alone
}

#[test]
fn a_crate_from_outside_is_built_dropped_in_listed_and_has_its_effect() {
    let directory = outside_plugin();
    let place = Workplace::new(&["sconce-plugin-console", "sconce-fixture-recorder"]);
    let manifest = edit(tiny(), "/plugins", json!(["plugins", directory]));
    let hooks = json!(["console", {"hook": "best-loss", "config": {"accuracy": 0.0}}, "recorder"]);
    let finished = place.run(&edit(manifest, "/hooks", hooks)).expect(0, &[]);
    assert!(
        finished.stdout.contains("stopped by `best-loss`"),
        "{}",
        finished.stdout
    );
    let best = place.read("out/best.txt");
    assert!(best.contains("epoch"), "{best}");
    let published = place
        .records("record.jsonl")
        .iter()
        .any(|call| call["metrics"].to_string().contains("best_loss"));
    assert!(published, "later hooks see what it publishes");
}
