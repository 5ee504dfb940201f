//! Runs that go on from a checkpoint: with the same bits, or an error that says why they can't.

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: [&str; 4] = [
    "sconce-fixture-breaker",
    "sconce-fixture-faults",
    "sconce-fixture-giver",
    "sconce-plugin-csv",
];

/// A hook that saves a checkpoint.
fn save(at: &str, phase: &str, from: u64, tag: &str) -> Value {
    let config = json!({"at": at, "phase": phase, "what": "save_checkpoint", "text": tag, "after_iteration": from, "once": true});
    json!({"hook": "asker", "priority": "LOWEST", "config": config})
}

/// Three epochs of three batches, an update after every second and at the epoch's end; saved as
/// `here` at a moment, and as `final` at the end.
fn manifest(at: &str, phase: &str, from: u64) -> Value {
    let manifest = edit(tiny(), "/train/accumulate", json!(2));
    let manifest = edit(manifest, "/train/epochs", json!(3));
    let optimizer = json!({"kind": "adamw", "learning_rate": 0.01});
    let manifest = edit(manifest, "/optimizer", optimizer);
    let giver = json!({"hook": "giver", "config": {"keep": "epoch"}});
    let hooks = json!([
        giver,
        "counter",
        // What a resumed run alone publishes gets no column.
        {"hook": "csv", "config": {"variables": ["loss", "accuracy", "calls"]}},
        save(at, phase, from, "here"),
        save("after_loop", "train", 9, "final")
    ]);
    edit(manifest, "/hooks", hooks)
}

fn run(manifest: &Value) -> Workplace {
    let place = Workplace::new(&PLUGINS);
    place.run(manifest).expect(0, &[]);
    place
}

fn resume(place: &Workplace, more: &[&str]) -> Finished {
    let mut arguments = vec!["run", "manifest.json", "--resume"];
    arguments.extend(more);
    place.sconce(&arguments)
}

/// All that a run leaves: the last checkpoint, the weights, the tables.
fn results(place: &Workplace) -> (Value, Vec<String>) {
    let parts = place.checkpoint("final").into_iter();
    // The giver counts without keeping its count.
    let parts = parts.filter(|(name, _)| !name.starts_with("published/"));
    let parts: Value = parts.map(|(name, part)| (name, json!(part))).collect();
    let files = ["train.csv", "val.csv", "test.csv"].map(|file| place.read(&format!("out/{file}")));
    (parts, files.to_vec())
}

#[test]
fn a_run_goes_on_with_the_same_bits_from_wherever_it_was_saved() {
    for (at, phase, from) in [
        ("before_run", "train", 0),
        // An update is half done.
        ("after_iter", "train", 1),
        ("after_iter", "train", 5),
        ("after_epoch", "train", 3),
        // Waits for the end of the validation, which is not done again.
        ("after_iter", "val", 3),
        ("after_loop", "val", 3),
        ("after_cycle", "train", 6),
        ("after_loop", "train", 9),
    ] {
        let place = run(&manifest(at, phase, from));
        let expected = results(&place);
        let weights = fs::read(place.path("out/weights.safetensors")).expect("weights");
        fs::remove_dir_all(place.path("out/checkpoints/final")).expect("removed");
        let finished = resume(&place, &["here"]).expect(0, &["resumes from", "checkpoints/here"]);
        assert!(
            finished
                .stdout
                .contains("completed: 3 epochs, 9 iterations, 6 updates")
        );
        let found = results(&place);
        let published = place
            .checkpoint("final")
            .keys()
            .any(|name| name.starts_with("published/"));
        assert!(published, "what hooks keep for the epoch");
        for (name, part) in expected.0.as_object().expect("parts") {
            assert!(
                found.0[name] == *part,
                "{name}, saved at {at}({phase}) {from}"
            );
        }
        assert_eq!(found.1, expected.1, "tables, saved at {at}({phase}) {from}");
        let again = fs::read(place.path("out/weights.safetensors")).expect("weights");
        assert!(again == weights, "weights, saved at {at}({phase}) {from}");
    }
}

#[test]
fn a_finished_run_goes_on_for_more_epochs() {
    let longer = edit(
        manifest("before_run", "train", 0),
        "/train/epochs",
        json!(4),
    );
    let longer = edit(longer, "/hooks/4/config/after_iteration", json!(12));
    let straight = run(&longer);
    let shorter = edit(longer, "/train/epochs", json!(2));
    let last = edit(shorter, "/hooks/3/config/at", json!("after_loop"));
    let place = run(&last);
    assert!(!place.path("out/checkpoints/final").exists());
    // What is asked for is another than in the straight run, and does nothing there.
    let more = ["--set", "train.epochs=4"];
    resume(&place, &more).expect(0, &["6 iterations"]);
    let (expected, tables) = results(&straight);
    let (found, found_tables) = results(&place);
    for (name, part) in expected.as_object().expect("parts") {
        assert!(found[name] == *part, "{name}");
    }
    assert_eq!(found_tables, tables);
}

#[test]
fn every_difference_is_reported_and_allowed_by_one_flag() {
    let place = run(&manifest("after_cycle", "train", 3));
    let given = manifest("after_cycle", "train", 3);
    let changed = edit(given.clone(), "/seed", json!(2));
    let changed = edit(changed, "/optimizer/learning_rate", json!(0.02));
    let changed = edit(changed, "/train/batch_size", json!(4));
    let changed = edit(changed, "/data/train", json!(20));
    let changed = edit(changed, "/hooks/0/config/keep", json!("run"));
    let changed = edit(changed, "/hooks/1", json!("witness"));
    place.write(&changed);
    let told = [
        "out/checkpoints/final` bit for bit",
        "`seed` was 1, now 2",
        "`optimizer.learning_rate` was 0.01, now 0.02",
        "`train.batch_size` was 8, now 4",
        "`data.train` was 24, now 20",
        "the data for train had 24 samples of shape [1, 28, 28], now 20",
        "of the hook `giver` `config.keep` was \"epoch\", now \"run\"",
        "the hook `counter` (counter of the plugin sconce-fixture-giver 0.1.0) is not there",
        "the hook `witness` is new",
    ];
    resume(&place, &[])
        .expect(2, &told)
        .expect(2, &["--allow-changes"]);
    // What is saved from then on is of the changed run.
    let elsewhere = ["out", "--allow-changes", "--output", "other"];
    fs::create_dir(place.path("other")).expect("made");
    resume(&place, &elsewhere).expect(0, &["not bit for bit", told[1]]);

    // Another model is another run, whatever is allowed.
    place.write(&edit(given.clone(), "/model/hidden", json!([9])));
    resume(&place, &["here", "--allow-changes"]).expect(
        2,
        &[
            "the model differs from the checkpoint's",
            "`fc1.weight` had the shape [8, 784], now [9, 784]",
            "`weights`",
        ],
    );

    let mut swapped = given.clone();
    let hooks = swapped["hooks"].as_array_mut().expect("hooks");
    hooks.swap(0, 1);
    place.write(&swapped);
    resume(&place, &["here"]).expect(2, &["the order of the hooks was `giver`, `counter`"]);

    // What changes no numbers may be another.
    let free = edit(given, "/train/loader_threads", json!(2));
    let free = edit(free, "/name", json!("renamed"));
    place.write(&edit(free, "/threads", json!(1)));
    resume(&place, &["here"]).expect(0, &[]);
}

#[test]
fn the_state_of_a_hook_that_is_away_is_kept_until_it_is_back() {
    let given = edit(
        manifest("after_cycle", "train", 3),
        "/hooks/1",
        json!("tally"),
    );
    let place = run(&given);
    let tally = |place: &Workplace| {
        let parts = place.checkpoint("final");
        let state = parts.get("hooks/tally").expect("a state");
        String::from_utf8_lossy(&state.1).into_owned()
    };
    assert_eq!(tally(&place), "9");
    let mut without = given.clone();
    without["hooks"].as_array_mut().expect("hooks").remove(1);
    place.write(&without);
    resume(&place, &["here", "--allow-changes"]).expect(0, &["its state is kept"]);
    assert_eq!(tally(&place), "3");
    // In the checkpoint of a run that was resumed twice, too.
    resume(&place, &["final"]).expect(0, &[]);
    assert_eq!(tally(&place), "3");
    let more = edit(given, "/train/epochs", json!(4));
    place.write(&more);
    resume(&place, &["final"]).expect(2, &["`tally` is there again, with the state"]);
    resume(&place, &["final", "--allow-changes"]).expect(0, &[]);
    assert_eq!(tally(&place), "6", "three calls before, three after");
}

#[test]
fn hooks_learn_of_the_resume_and_what_they_begin_with_is_undone() {
    let mut given = manifest("after_iter", "train", 4);
    given["hooks"]
        .as_array_mut()
        .expect("hooks")
        .push(json!("witness"));
    let place = Workplace::new(&PLUGINS);
    let words = [
        "created, resumed: false",
        "begins at 0, resumed: false, new: false",
        "Completed",
    ];
    place.run(&given).expect(0, &words);
    let begin = place.checkpoint("begin");
    let words = [
        "created, resumed: true",
        "begins at 4, resumed: true, new: false",
        "loaded here at 4 with learning rate 0.5",
    ];
    resume(&place, &["here"]).expect(0, &words);
    assert!(place.checkpoint("begin") == begin, "it is not saved again");

    let place = run(&manifest("after_iter", "train", 4));
    place.write(&given);
    let words = [
        "begins at 4, resumed: true, new: true",
        "loaded here at 4 with learning rate 0.01",
    ];
    resume(&place, &["here", "--allow-changes"]).expect(0, &words);
}

#[test]
fn a_checkpoint_that_is_not_there_or_not_whole_is_reported() {
    let given = manifest("after_cycle", "train", 3);
    let place = Workplace::new(&PLUGINS);
    place.write(&given);
    resume(&place, &[]).expect(2, &["nothing to resume from"]);
    assert!(!place.path("out").exists(), "nothing is made");
    fs::create_dir(place.path("out")).expect("made");
    resume(&place, &[]).expect(2, &["there is no checkpoint in", "a new run begins"]);
    fs::remove_dir(place.path("out/none")).unwrap_or_default();
    place.run(&given).expect(0, &[]);
    resume(&place, &["hree"]).expect(2, &["no checkpoint `hree`", "did you mean `here`"]);
    // From another directory, by the path of a checkpoint or of a run.
    for from in ["out/checkpoints/here", "out"] {
        let output = format!("other-{}", from.len());
        fs::create_dir(place.path(&output)).expect("made");
        let finished = resume(&place, &[from, "--output", &output]);
        finished.expect(0, &["resumes from"]);
    }
    let path = place.path("out/checkpoints/final/hooks.json");
    let text = fs::read_to_string(&path).expect("JSON");
    fs::write(&path, text.replace("giver", "gavel")).expect("written");
    let damaged = "out/checkpoints/final` is not a whole checkpoint: `hooks.json` has the SHA-256";
    resume(&place, &["final"]).expect(2, &[damaged, "other checkpoints: `here`"]);
    // Unnamed, the newest complete one is meant.
    let newest = "; the run resumes from `here`, the newest complete one";
    resume(&place, &[]).expect(0, &["warning: ", damaged, newest, "--resume TAG"]);
}

#[test]
fn without_latest_the_newest_complete_checkpoint_is_taken_and_named() {
    let place = run(&manifest("after_cycle", "train", 3));
    let checkpoints = place.path("out/checkpoints");
    let latest = checkpoints.join("latest");
    let newest = "; the run resumes from `final`, the newest complete one";
    let weights = || fs::read(place.path("out/weights.safetensors")).expect("weights");
    let trained = weights();
    // Removed, leading nowhere, leading out of the run, garbage.
    for content in [None, Some("gone"), Some("../../x"), Some("\u{1}\n")] {
        fs::remove_file(&latest).expect("a link");
        if let Some(content) = content {
            fs::write(&latest, content).expect("written");
        }
        let finished = resume(&place, &[]);
        finished.expect(0, &["there is no checkpoint `", "warning: ", newest]);
        assert_eq!(weights(), trained, "{content:?}");
        fs::remove_file(&latest).unwrap_or_default();
        std::os::unix::fs::symlink("final", &latest).expect("a link");
    }
    // Where none is complete there is nothing to resume from.
    for tag in ["final", "here"] {
        fs::remove_file(checkpoints.join(tag).join("state.json")).expect("a file");
    }
    resume(&place, &[]).expect(2, &["out/checkpoints/final` is not a whole checkpoint"]);
}

#[test]
fn a_new_run_replaces_no_checkpoints_unasked() {
    let given = manifest("after_cycle", "train", 3);
    let place = run(&given);
    place.run(&given).expect(
        2,
        &[
            "the checkpoints of an earlier run: `final`, `here`",
            "--resume",
            "--overwrite",
        ],
    );
    let fewer = edit(given, "/hooks", json!([]));
    place.write(&fewer);
    place
        .sconce(&["run", "manifest.json", "--overwrite"])
        .expect(0, &[]);
    assert!(!place.path("out/checkpoints").exists());
    // Where there are none, there is nothing to lose.
    place.run(&fewer).expect(0, &[]);
}

/// With composed operations, sums have another order: a run that resumes so has other bits.
#[test]
fn a_run_that_resumes_with_composed_operations_says_so() {
    let place = run(&manifest("after_iter", "train", 5));
    let composed = [("SCONCE_OPS", "composed")];
    let resume = ["run", "manifest.json", "--resume", "here"];
    let told = "the run was on the CPU, now on the CPU (composed operations)";
    place.sconce_in(&resume, &composed).expect(2, &[told]);
    let allowed = [&resume[..], &["--allow-changes"]].concat();
    let finished = place.sconce_in(&allowed, &composed);
    finished.expect(0, &["on the CPU (composed operations)"]);
    // And back, which is a change as well.
    let back = place.sconce(&["run", "manifest.json", "--resume", "final"]);
    back.expect(
        2,
        &["the run was on the CPU (composed operations), now on the CPU"],
    );
}
