//! A task of one's own from the outside: `examples/autoencoder`, with the whole command line.

use std::process::Command;

use sconce_tests::{Workplace, artifacts, edit, tiny};
use serde_json::{Value, json};

/// Runs the example's program; its exit code and all that it printed.
fn example(place: &Workplace, arguments: &[&str]) -> (Option<i32>, String) {
    let program = artifacts().directory().join("autoencoder");
    let output = Command::new(program)
        .args(arguments)
        .current_dir(place.directory())
        .output()
        .expect("the example can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    (output.status.code(), all)
}

fn manifest() -> Value {
    let mut manifest = edit(tiny(), "/hooks", json!([{"hook": "recorder"}]));
    manifest["task"] = json!({"hidden": 12, "code": 3});
    manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.01});
    if let Some(parts) = manifest.as_object_mut() {
        parts.remove("model");
    }
    manifest
}

#[test]
fn a_task_of_ones_own_has_the_whole_command_line() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    place.write(&manifest());
    let run = |arguments: &[&str], words: &[&str]| {
        let (code, printed) = example(&place, arguments);
        assert_eq!(code, Some(0), "{printed}");
        for words in words {
            assert!(printed.contains(words), "no {words:?} in:\n{printed}");
        }
    };
    run(
        &["check", "manifest.json"],
        &["{\"code\":3,\"hidden\":12}", "parameters"],
    );
    run(&["run", "manifest.json"], &["completed", "explained"]);
    let modules: Vec<String> = place
        .records("record.jsonl")
        .iter()
        .filter(|call| call["point"] == "module_forward")
        .map(|call| call["detail"].as_str().unwrap_or_default().to_owned())
        .take(4)
        .collect();
    let wanted = ["encoder.0", "encoder.1", "decoder.0", "decoder.1"];
    assert_eq!(modules, wanted.map(|name| format!("{name} linear")));
    let weights = ["--checkpoint", "out/weights.safetensors"];
    let eval = [&["eval", "manifest.json"], &weights[..]].concat();
    run(&eval, &["test/loss", "test/explained"]);
}

#[test]
fn what_is_wrong_with_its_configuration_is_reported() {
    let place = Workplace::new(&["sconce-fixture-recorder"]);
    for (manifest, words) in [
        (edit(manifest(), "/task", json!({"coed": 3})), "`coed`"),
        (edit(manifest(), "/data/kind", json!("nothing")), "nothing"),
    ] {
        place.write(&manifest);
        let (code, printed) = example(&place, &["check", "manifest.json"]);
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains(words), "no {words:?} in:\n{printed}");
    }
    // The binary itself has no task of its own.
    place
        .run(&manifest())
        .expect(2, &["`task`", "the key `model` is missing"]);
}
