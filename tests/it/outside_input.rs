//! A checkpoint that comes from elsewhere, and paths that nobody meant: nothing outside the run's directory
//! is touched, and a message says what is wrong.

use std::fs;

use sconce_tests::mutations::replace;
use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// A run of two epochs with tables, and a checkpoint after the first.
fn run() -> (Workplace, Value) {
    let place = Workplace::new(&["sconce-plugin-csv", "sconce-plugin-checkpoints"]);
    let hooks = json!(["csv", {"hook": "checkpoint", "config": {"iterations": 4}}]);
    let manifest = edit(tiny(), "/hooks", hooks);
    place.run(&manifest).expect(0, &[]);
    (place, manifest)
}

const CHECKPOINT: &str = "out/checkpoints/iteration-4";

/// Changes a JSON file of the checkpoint, its sums included.
fn tamper(place: &Workplace, file: &str, change: impl FnOnce(&mut Value)) {
    let mut value: Value =
        serde_json::from_str(&place.read(&format!("{CHECKPOINT}/{file}"))).expect("JSON");
    change(&mut value);
    replace(&place.path(CHECKPOINT), file, value.to_string().as_bytes());
}

fn resume(place: &Workplace) -> sconce_tests::Finished {
    place.sconce(&["run", "manifest.json", "--resume", "iteration-4"])
}

#[test]
fn a_state_names_no_file_outside_the_runs_directory() {
    let (place, _) = run();
    let original = place.read(&format!("{CHECKPOINT}/hooks.json"));
    let victim = place.write_text("victim.csv", "precious\n");
    let table = place.read("out/train.csv");
    for name in [
        victim.to_string_lossy().as_ref(),
        "../victim.csv",
        "link.csv",
        "train-/x.csv",
    ] {
        replace(&place.path(CHECKPOINT), "hooks.json", original.as_bytes());
        tamper(&place, "hooks.json", |hooks| {
            let state = hooks[0]["state"].as_object_mut().expect("the state of csv");
            let saved = state.remove("train.csv").expect("a table");
            state.insert(name.to_owned(), saved);
        });
        resume(&place).expect(4, &["csv", "which is not a table of a phase"]);
        assert_eq!(place.read("victim.csv"), "precious\n", "{name}");
        assert_eq!(place.read("out/train.csv"), table, "{name}");
    }
    replace(&place.path(CHECKPOINT), "hooks.json", original.as_bytes());
    resume(&place).expect(0, &[]);
    assert_eq!(place.read("out/train.csv"), table);
}

#[cfg(unix)]
#[test]
fn a_link_in_the_runs_directory_leads_no_hook_out_of_it() {
    let (place, _) = run();
    let victim = place.write_text("victim.csv", "precious\n");
    fs::remove_file(place.path("out/train.csv")).expect("removed");
    std::os::unix::fs::symlink(victim, place.path("out/train.csv")).expect("a link");
    resume(&place).expect(4, &["csv", "out/train.csv` is a symbolic link to"]);
    assert_eq!(place.read("victim.csv"), "precious\n");
    place
        .sconce(&["run", "manifest.json", "--overwrite"])
        .expect(4, &["csv", "out/train.csv` is a symbolic link to"]);
    assert_eq!(place.read("victim.csv"), "precious\n");
}

#[test]
fn counters_that_no_run_has_are_refused_before_anything_is_trained() {
    let (place, _) = run();
    let original = place.read(&format!("{CHECKPOINT}/state.json"));
    for (pointer, value, words) in [
        (
            "/progress/batch",
            json!(99),
            "`state.json`: `progress.batch` is 99, allowed is 0 to 3: the batches of an epoch",
        ),
        (
            "/progress/iteration",
            json!((1_u64 << 63) - 1),
            "`progress.iteration` is 9223372036854775807, allowed is 0 to 9007199254740992",
        ),
        (
            "/progress/epoch",
            json!(1_u64 << 62),
            "`progress.epoch` is 4611686018427387904",
        ),
        (
            "/facts/batch_size",
            json!(1),
            "`facts.batch_size` is 1, and the checkpoint's manifest",
        ),
        ("/seconds", json!(-5), "`seconds` is -5"),
    ] {
        replace(&place.path(CHECKPOINT), "state.json", original.as_bytes());
        tamper(&place, "state.json", |state| {
            *state.pointer_mut(pointer).expect("a value") = value;
        });
        let finished = resume(&place).expect(2, &[words, "iteration-4"]);
        assert!(!finished.stdout.contains("epoch 2"), "{}", finished.stdout);
    }
}

#[test]
fn latest_leads_to_a_tag_and_nowhere_else() {
    let (place, _) = run();
    let latest = place.path("out/checkpoints/latest");
    fs::remove_file(&latest).expect("removed");
    fs::create_dir(place.path("elsewhere")).expect("made");
    fs::write(&latest, "../../elsewhere\n").expect("written");
    let finished = place.sconce(&["run", "manifest.json", "--resume"]);
    assert!(
        !finished.stderr.contains("elsewhere"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_path_that_only_a_shell_understands_is_an_error_that_says_so() {
    let place = Workplace::new(&["sconce-plugin-csv", "sconce-plugin-checkpoints"]);
    let data = json!({"kind": "csv", "file": "~/table.csv", "target": "y"});
    let hook = |name: &str, config: Value| json!([{"hook": name, "config": config}]);
    for (pointer, value, words) in [
        ("/output", json!("~/runs/x"), "`~/runs/x` begins with `~`"),
        ("/output", json!("$HOME/x"), "has `$HOME` in it"),
        ("/output", json!("a/${HOME}/x"), "has `${HOME}` in it"),
        ("/plugins", json!(["plugins", "~/plugins"]), "plugins[1]"),
        (
            "/weights",
            json!({"file": "~/w.safetensors"}),
            "weights.file",
        ),
        ("/data", data, "data.file"),
        (
            "/hooks",
            json!([{"hook": "csv", "library": "~/x.so"}]),
            "hooks[0].library",
        ),
        (
            "/hooks",
            hook("csv", json!({"directory": "~/x"})),
            "`./~/x`",
        ),
        (
            "/hooks",
            hook("save-file", json!({"files": ["$HOME/a"]})),
            "`files`: `$HOME/a`",
        ),
    ] {
        let finished = place.run(&edit(tiny(), pointer, value));
        let told = &finished.stderr;
        assert!(
            finished.code != 0 && told.contains(words),
            "{pointer}: {told}"
        );
        assert!(told.contains("only a shell replaces"), "{told}");
    }
    place.write(&tiny());
    place
        .sconce(&["run", "manifest.json", "--output=~/x"])
        .expect(2, &["--output <DIR>", "`~/x` begins with `~`"]);
    place
        .sconce(&["run", "manifest.json", "--set", "output=$HOME/x"])
        .expect(2, &["has `$HOME` in it"]);
    assert!(!place.path("~").exists() && !place.path("$HOME").exists());
    // A name that really begins so.
    place
        .run(&edit(tiny(), "/output", json!("./~x")))
        .expect(0, &[]);
    assert!(place.path("~x/weights.safetensors").exists());
}
