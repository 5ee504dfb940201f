//! Hooks' states that name checkpoints: what they name is on disk before them, stays as it was, and goes along.

use std::fs;
use std::os::unix::fs::MetadataExt;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: [&str; 5] = [
    "sconce-plugin-checkpoints",
    "sconce-plugin-control",
    "sconce-plugin-csv",
    "sconce-fixture-breaker",
    "sconce-fixture-faults",
];

const EPOCHS: u64 = 4;

/// Four epochs of three iterations.
fn manifest(hooks: &[Value]) -> Value {
    let hooks = [hooks, &[json!("breaker")]].concat();
    let manifest = edit(tiny(), "/train/epochs", json!(EPOCHS));
    edit(manifest, "/hooks", json!(hooks))
}

fn checkpoint(config: Value) -> Value {
    json!({"hook": "checkpoint", "config": config})
}

/// The rules by which the validation's loss, which rises, is best in the first or the last epoch.
const FIRST: &str = "less";
const LAST: &str = "greater";

/// Keeps the parameters of the best epoch.
fn early_stopping(rule: &str) -> Value {
    let config = json!({"patience": 9, "rule": rule, "restore_best": true});
    json!({"hook": "early-stopping", "config": config})
}

fn run(manifest: &Value) -> Workplace {
    let place = Workplace::new(&PLUGINS);
    place.run(manifest).expect(0, &[]);
    place
}

fn resume(place: &Workplace, more: &[&str]) -> Finished {
    place.sconce(&[&["run", "manifest.json", "--resume"], more].concat())
}

fn weights(place: &Workplace, output: &str) -> Vec<u8> {
    fs::read(place.path(output).join("weights.safetensors")).expect("weights")
}

/// Names in the directory of checkpoints, hidden ones too.
fn names(place: &Workplace, output: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(output).join("checkpoints")).expect("checkpoints");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort();
    names
}

/// Runs until the `count`th call of the mount point `at` once `iteration` iterations are finished, and kills it there;
/// returns whether it got there.
fn killed(place: &Workplace, manifest: &Value, at: &str, iteration: u64, count: u64) -> bool {
    let order = |signal: &str, then: Value| json!({"at": at, "iteration": iteration, "signal": signal, "then": then});
    let mut orders = order("KILL", Value::Null);
    for _ in 1..count {
        // A signal without effect.
        orders = order("CONT", orders);
    }
    fs::create_dir_all(place.path("out")).expect("made");
    place.write_text("out/break.json", &orders.to_string());
    place.run(manifest).code == -1
}

/// Kills a run at each save of its second half, resumes it, and compares it with the undisturbed one.
fn check_kills(hooks: &[Value]) {
    let manifest = manifest(hooks);
    let whole = run(&manifest);
    let expected = (weights(&whole, "out"), names(&whole, "out"));
    let mut kills = 0;
    for at in ["before_save_checkpoint", "after_save_checkpoint"] {
        for iteration in [6, 9, 12] {
            for count in 1.. {
                let place = Workplace::new(&PLUGINS);
                if !killed(&place, &manifest, at, iteration, count) {
                    break;
                }
                kills += 1;
                resume(&place, &[]).expect(0, &[]);
                let found = (weights(&place, "out"), names(&place, "out"));
                assert!(
                    found == expected,
                    "{hooks:?}, killed at {at} {count} after iteration {iteration}: {:?}, expected {:?}",
                    found.1,
                    expected.1
                );
                if count == 4 {
                    break;
                }
            }
        }
    }
    assert!(kills >= 6, "{kills} runs were killed");
}

#[test]
fn a_run_killed_between_the_saves_of_two_hooks_ends_with_the_same_weights() {
    for rule in [FIRST, LAST] {
        check_kills(&[checkpoint(json!({})), early_stopping(rule)]);
    }
}

#[test]
fn so_does_one_that_saves_in_the_background_and_deletes_what_is_no_longer_wanted() {
    for rule in [FIRST, LAST] {
        let best = json!([{"monitor": "loss", "rule": rule}]);
        let config = json!({"keep_last": 1, "best": best, "load_best": true, "background": true});
        check_kills(&[checkpoint(config), early_stopping(rule)]);
    }
}

#[test]
fn so_do_several_entries_with_tags_of_their_own() {
    let best = json!([{"monitor": "loss", "rule": LAST}]);
    check_kills(&[
        checkpoint(json!({"keep_last": 2, "last": "last"})),
        checkpoint(
            json!({"epochs": 0, "save_last": false, "best": best, "parameters_only": true, "load_best": true}),
        ),
        checkpoint(json!({"epochs": 2, "tag": "second-{epoch}", "keep_last": 1})),
    ]);
}

#[test]
fn a_run_resumed_from_the_checkpoint_to_roll_back_to_can_roll_back_to_it() {
    let config = json!({"action": "roll-back", "roll_back": {"save_every": 2}});
    let manifest = manifest(&[
        checkpoint(json!({})),
        json!({"hook": "stop-on-nan", "config": config}),
    ]);
    let place = Workplace::new(&PLUGINS);
    // The first save after the sixth iteration is that of the epoch, the second that of `stop-on-nan` before the next one.
    assert!(killed(&place, &manifest, "after_save_checkpoint", 6, 2));
    resume(&place, &[]).expect(0, &["resumes from", "checkpoints/stop-on-nan: 2 epochs"]);
    let [kept, epoch] = ["stop-on-nan", "epoch-2"].map(|tag| {
        let path = format!("out/checkpoints/{tag}/parameters.safetensors");
        fs::read(place.path(&path)).expect("parameters")
    });
    assert!(kept == epoch, "it is that of the second epoch");
}

#[test]
fn a_tag_has_again_what_an_older_checkpoint_refers_to() {
    let manifest = manifest(&[checkpoint(json!({})), early_stopping(LAST)]);
    let place = run(&manifest);
    let expected = weights(&place, "out");
    assert!(names(&place, "out").contains(&".objects".to_owned()));
    for tag in ["epoch-2", "epoch-1", "epoch-3"] {
        // Resumed at its end, with no epoch to follow: what was the best then is loaded.
        let ends = edit(
            manifest.clone(),
            "/train/epochs",
            json!(tag[6..].parse::<u64>().expect("a number")),
        );
        place.write(&ends);
        resume(&place, &[tag]).expect(0, &[]);
        let checkpoint = place.path(&format!("out/checkpoints/{tag}"));
        let own = fs::read(checkpoint.join("parameters.safetensors")).expect("parameters");
        let kept = fs::read(place.path("out/checkpoints/early-stopping/parameters.safetensors"));
        assert!(
            kept.expect("parameters") == own,
            "{tag}: the best is the last"
        );
    }
    place.write(&manifest);
    resume(&place, &["epoch-1"]).expect(0, &[]);
    assert!(weights(&place, "out") == expected);
}

#[test]
fn objects_go_with_the_last_checkpoint_that_refers_to_them() {
    let place = run(&manifest(&[
        checkpoint(json!({"keep_last": 1})),
        early_stopping(LAST),
    ]));
    assert_eq!(
        names(&place, "out"),
        ["early-stopping", "epoch-4", "latest"]
    );
}

#[test]
fn what_is_gone_is_reported_before_any_training() {
    let manifest = manifest(&[checkpoint(json!({})), early_stopping(FIRST)]);
    let place = run(&manifest);
    fs::remove_dir_all(place.path("out/checkpoints/early-stopping")).expect("removed");
    let before = fs::read(place.path("out/run.json")).expect("a record");
    let words = [
        "the hook `early-stopping` refers to the checkpoint `early-stopping` of epoch 1, update 3, SHA-256 ",
        "there is none",
        "--allow-changes",
        "--overwrite",
    ];
    let more = edit(manifest, "/train/epochs", json!(EPOCHS + 1));
    place.write(&more);
    resume(&place, &["epoch-2"]).expect(2, &words);
    assert!(fs::read(place.path("out/run.json")).expect("a record") == before);
    // Another one in its place is not it.
    let from = place.path("out/checkpoints/epoch-3");
    fs::rename(from, place.path("out/checkpoints/early-stopping")).expect("renamed");
    resume(&place, &["epoch-2"]).expect(2, &[words[0], "found is one of epoch 3"]);
    let forgotten = "the checkpoint of the best epoch is gone: it is forgotten";
    resume(&place, &["epoch-2", "--allow-changes"]).expect(0, &[words[0], forgotten]);
}

#[test]
fn a_run_in_a_new_directory_has_all_that_its_states_refer_to() {
    let best = json!([{"monitor": "loss", "rule": FIRST}]);
    let config = json!({"keep_last": 1, "best": best, "load_best": true});
    let manifest = manifest(&[checkpoint(config), early_stopping(FIRST)]);
    let place = run(&manifest);
    let expected = weights(&place, "out");
    let last = "out/checkpoints/epoch-4";
    let longer = edit(manifest, "/train/epochs", json!(EPOCHS + 1));
    place.write(&longer);
    fs::create_dir(place.path("empty")).expect("made");
    for output in ["missing/below", "empty"] {
        resume(&place, &[last, "--output", output]).expect(0, &["resumes from"]);
        assert!(
            weights(&place, output) == expected,
            "the first epoch was the best"
        );
        let [own, other] = ["out", output].map(|output| {
            let path = format!("{output}/checkpoints/early-stopping/parameters.safetensors");
            fs::metadata(place.path(&path)).expect("a file").ino()
        });
        assert_eq!(own, other, "no second copy");
        let told = resume(&place, &[last, "--output", output]);
        told.expect(2, &["has the checkpoints of an earlier run", "`best-loss`"]);
        // It is a run of its own from then on.
        resume(&place, &["--output", output]).expect(0, &[]);
    }
    // Nothing is created where the run can't be resumed.
    fs::remove_dir_all(place.path("out/checkpoints/early-stopping")).expect("removed");
    let told = resume(&place, &[last, "--output", "other"]);
    told.expect(2, &["of epoch 1, update 3"]);
    assert!(!place.path("other").exists());
    resume(&place, &["--output", "other"]).expect(2, &["nothing to resume from"]);
    assert!(!place.path("other").exists());
}

#[test]
fn a_best_checkpoint_that_could_not_be_saved_is_not_loaded_in_silence() {
    let place = Workplace::new(&PLUGINS);
    // A file is in the way of the directory of checkpoints.
    fs::create_dir_all(place.path("out")).expect("made");
    place.write_text("out/checkpoints", "");
    let finished = place.run(&manifest(&[early_stopping(LAST)]));
    finished.expect(
        4,
        &["the parameters of the best epoch, 4, can't be restored: they were not saved"],
    );
}
