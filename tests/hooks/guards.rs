//! `loss-spike`, `on-plateau`, and what `stop-on-nan` dumps and rolls back.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-control",
    "sconce-plugin-csv",
    "sconce-fixture-faults",
];

fn run(manifest: Value, hooks: Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&edit(manifest, "/hooks", hooks));
    (place, finished)
}

/// Eight epochs of three iterations.
fn long() -> Value {
    edit(tiny(), "/train/epochs", json!(8))
}

/// Learns nothing: every epoch has the loss of the one before.
fn stuck() -> Value {
    edit(long(), "/optimizer/learning_rate", json!(1e-30))
}

/// Learns a little in every epoch.
fn learning() -> Value {
    edit(long(), "/optimizer/learning_rate", json!(0.05))
}

fn record(place: &Workplace) -> Value {
    serde_json::from_str(&place.read("out/run.json")).expect("JSON")
}

fn asker(config: Value) -> Value {
    json!({"hook": "asker", "config": config})
}

/// At the end of iteration `iteration` the learning rate is so high that the next update ruins the
/// parameters.
fn blow(iteration: u64, rate: f64) -> Value {
    asker(
        json!({"at": "after_iter", "phase": "train", "what": "set_learning_rate", "number": rate,
        "after_iteration": iteration, "once": true}),
    )
}

fn spike(config: Value) -> Value {
    json!({"hook": "loss-spike", "config": config})
}

/// Which of a run's losses are spikes by the rule of Lightning's `SpikeDetection`, as
/// `pytorch_lightning/callbacks/spike.py` (2.5) writes it: window, rtol.
fn spikes(losses: &[f64], window: usize, rtol: f64) -> Vec<u64> {
    let (mut seen, mut last, mut found) = (Vec::new(), 0.0, Vec::new());
    for (index, &loss) in losses.iter().enumerate() {
        let recent = &seen[seen.len().saturating_sub(window)..];
        let mean = recent.iter().sum::<f64>() / recent.len() as f64;
        let is_better = loss - last <= 0.0;
        let is_spike = index >= 1 && !is_better && (loss - mean).abs() >= (rtol * mean).abs();
        if is_spike {
            found.push(index as u64);
        }
        seen.push(loss);
        last = loss;
    }
    found
}

#[test]
fn a_jump_of_the_loss_is_named_with_its_batches() {
    // The losses of a run with a jump, one an iteration: an epoch has one batch.
    let manifest = edit(
        edit(learning(), "/train/batch_size", json!(24)),
        "/train/epochs",
        json!(12),
    );
    let hooks = |config: Value| json!([blow(6, 30.0), "csv", spike(config)]);
    let (place, finished) = run(manifest.clone(), hooks(json!({"window": 4, "rtol": 1})));
    finished.expect(0, &["the loss jumps to"]);
    let table = place.read("out/train.csv");
    let losses: Vec<f64> = table
        .lines()
        .skip(1)
        .map(|row| {
            let cell = row.split(',').nth(4);
            cell.and_then(|cell| cell.parse().ok()).expect("a loss")
        })
        .collect();
    let expected = spikes(&losses, 4, 1.0);
    assert!(!expected.is_empty(), "{table}");
    let lines = place.records("loss-spike.jsonl");
    let found: Vec<u64> = lines
        .iter()
        .map(|line| line["iteration"].as_u64().expect("a number"))
        .collect();
    assert_eq!(found, expected, "{table}");
    let first = found[0];
    assert_eq!(lines[0]["batches"], json!([first - 1, first]));
    assert_eq!(
        (&lines[0]["epoch"], &lines[0]["batch"], &lines[0]["action"]),
        (&json!(first), &json!(0), &json!("warn"))
    );
    let loss = lines[0]["loss"].as_f64().expect("a loss");
    assert!((loss - losses[first as usize]).abs() < 1e-9 * loss);

    // What is no spike by an option is none.
    for config in [
        json!({"window": 4, "rtol": 1, "atol": 1e9}),
        json!({"window": 4, "rtol": 1, "warm_up": 12}),
        json!({"window": 4, "rtol": 1e9}),
    ] {
        let (place, finished) = run(manifest.clone(), hooks(config.clone()));
        finished.expect(0, &[]);
        assert!(!place.path("out/loss-spike.jsonl").exists(), "{config}");
    }
    let alone = json!({"window": 4, "rtol": 1, "with_previous": false});
    let (place, finished) = run(manifest.clone(), hooks(alone));
    finished.expect(0, &[]);
    assert_eq!(
        place.records("loss-spike.jsonl")[0]["batches"],
        json!([first])
    );

    // The other actions.
    let config = |action: &str| json!({"window": 4, "rtol": 1, "action": action});
    let (place, finished) = run(manifest.clone(), hooks(config("stop")));
    finished.expect(0, &[]);
    assert_eq!(record(&place)["iterations"], first + 1);
    let (place, finished) = run(manifest, hooks(config("skip-update")));
    finished.expect(0, &["the update is left out"]);
    let skipped = place.records("loss-spike.jsonl").len() as u64;
    assert_eq!(record(&place)["updates"], 12 - skipped);
}

#[test]
fn a_run_that_goes_back_leaves_the_bad_batches_out() {
    let bad = asker(
        json!({"at": "before_update", "what": "set_learning_rate", "number": 1e6,
        "after_iteration": 10, "once": true}),
    );
    let config = json!({"window": 5, "rtol": 1, "action": "roll-back",
        "roll_back": {"learning_rate_factor": 0.5, "times": 2}});
    let (place, finished) = run(learning(), json!([bad, spike(config)]));
    let finished = finished.expect(0, &["going back to `loss-spike`, 1 of at most 2 times"]);
    assert!(
        !finished.stderr.contains("2 of at most"),
        "{}",
        finished.stderr
    );
    let lines = place.records("loss-spike.jsonl");
    // The rate is ruined in the update of iteration 10: the next batch has the jump.
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["batches"], json!([10, 11]));
    let record = record(&place);
    assert_eq!(
        (&record["epochs"], &record["iterations"]),
        (&json!(8), &json!(24))
    );
    // Both batches are left out, in the epoch gone back to.
    assert_eq!(record["updates"], 22, "{record}");
    let loss = record["metrics"]["train"]["loss"].as_f64();
    assert!(loss.is_some_and(|loss| loss < 2.5), "{record}");
}

#[test]
fn a_plateau_stops_lowers_the_rate_or_saves() {
    // The training's loss falls all the time, so by the wrong rule it is a plateau at once.
    let plateau = |more: Value| {
        let mut config = json!({"monitor": "train/loss", "rule": "greater", "long_term": 3,
            "short_term": 1});
        let all = config.as_object_mut().expect("an object");
        all.extend(more.as_object().expect("an object").clone());
        json!([{"hook": "on-plateau", "config": config}])
    };
    let (place, finished) = run(learning(), plateau(json!({})));
    finished.expect(0, &[]);
    let stopped = record(&place);
    assert_eq!(
        (&stopped["epochs"], &stopped["outcome"]),
        (&json!(3), &json!("stopped"))
    );
    assert!(
        stopped["reason"]
            .as_str()
            .is_some_and(|why| why.contains("is on a plateau"))
    );
    for (more, epochs) in [
        (json!({"long_term": 5}), 5),
        (json!({"rule": "less"}), 8),
        (json!({"min_delta": 100.0}), 8),
    ] {
        let (place, finished) = run(learning(), plateau(more.clone()));
        finished.expect(0, &[]);
        assert_eq!(record(&place)["epochs"], epochs, "{more}");
    }

    // Twice within eight epochs: after each the means begin anew.
    let mut hooks = plateau(json!({"action": "lower-rate", "factor": 0.5}));
    hooks.as_array_mut().expect("a list").push(json!("csv"));
    let (place, finished) = run(learning(), hooks);
    finished.expect(
        0,
        &[
            "the learning rate is 0.025 now",
            "the learning rate is 0.0125 now",
        ],
    );
    let rates: Vec<String> = place
        .read("out/train.csv")
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(3).unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        rates[..],
        [
            "0.05", "0.05", "0.05", "0.025", "0.025", "0.025", "0.0125", "0.0125"
        ]
    );
    for (more, words, not) in [
        (
            json!({"times": 1}),
            "rate is 0.025 now",
            "rate is 0.0125 now",
        ),
        (
            json!({"min_rate": 0.02}),
            "rate is 0.02 now",
            "rate is 0.0125 now",
        ),
    ] {
        let mut config = json!({"action": "lower-rate", "factor": 0.5});
        let all = config.as_object_mut().expect("an object");
        all.extend(more.as_object().expect("an object").clone());
        let (_, finished) = run(learning(), plateau(config));
        let finished = finished.expect(0, &[words]);
        assert!(!finished.stderr.contains(not), "{}", finished.stderr);
    }

    let (place, finished) = run(
        learning(),
        plateau(json!({"action": "save", "tag": "flat"})),
    );
    finished.expect(0, &[]);
    for (tag, is_there) in [("flat-3", true), ("flat-6", true), ("flat-4", false)] {
        let path = place.path(&format!("out/checkpoints/{tag}"));
        assert_eq!(path.exists(), is_there, "{tag}");
    }
}

#[test]
fn a_resumed_plateau_is_the_one_that_was_begun() {
    let config =
        json!({"monitor": "train/loss", "rule": "greater", "long_term": 5, "short_term": 2});
    let save = asker(
        json!({"at": "after_cycle", "what": "save_checkpoint", "text": "a",
        "after_iteration": 9, "once": true}),
    );
    let back = asker(
        json!({"at": "after_iter", "phase": "train", "what": "roll_back", "text": "a",
        "after_iteration": 13, "once": true}),
    );
    let (place, finished) = run(
        learning(),
        json!([{"hook": "on-plateau", "config": config}, save, back]),
    );
    finished.expect(0, &[]);
    assert_eq!(record(&place)["epochs"], 5);
}

#[test]
fn the_batch_that_ends_a_run_is_written_for_whoever_looks_for_the_cause() {
    let guard = |config: Value| json!([blow(4, 1e30), {"hook": "stop-on-nan", "config": config}]);
    let (place, finished) = run(learning(), guard(json!({"watch": ["modules", "loss"]})));
    let finished = finished.expect(4, &["the batch is in `", "the output of `"]);
    let directory = std::fs::read_dir(place.path("out/stop-on-nan")).expect("a directory");
    let files: Vec<_> = directory
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let bytes = std::fs::read(&files[0]).expect("a file");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    let inputs = file.tensor("inputs").expect("the inputs");
    assert_eq!(inputs.shape()[0], 8);
    assert_eq!(file.tensor("targets").expect("the targets").shape(), [8]);
    // The first module whose output is bad, with what it was given and made of it.
    let (_, behind) = finished
        .stderr
        .split_once("the output of `")
        .expect("named");
    let (module, _) = behind.split_once('`').expect("a name");
    let output = file
        .tensor(&format!("{module}.output"))
        .expect("its output");
    let numbers = output.data().chunks_exact(4);
    let is_bad = |bytes: &[u8]| {
        let number = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        !number.is_finite()
    };
    assert!(numbers.into_iter().any(is_bad));
    file.tensor(&format!("{module}.input")).expect("its input");

    // Of the others: the loss alone has no module.
    let (place, finished) = run(learning(), guard(json!({})));
    finished.expect(4, &["the batch is in `"]);
    let mut entries = std::fs::read_dir(place.path("out/stop-on-nan")).expect("a directory");
    let entry = entries.next().expect("a file").expect("an entry");
    assert!(entries.next().is_none(), "one file");
    let bytes = std::fs::read(entry.path()).expect("a file");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    let mut names: Vec<&str> = file.names();
    names.sort_unstable();
    assert_eq!(names, ["inputs", "loss", "outputs", "targets"]);
    let (place, finished) = run(learning(), guard(json!({"dump": 0})));
    finished.expect(4, &["the loss is"]);
    assert!(!place.path("out/stop-on-nan").exists());
}

#[test]
fn modules_are_watched_where_the_entry_names_them() {
    let guard =
        json!({"hook": "stop-on-nan", "config": {"watch": ["modules"]}, "modules": ["fc2"]});
    let (_, finished) = run(learning(), json!([blow(4, 1e30), guard]));
    finished.expect(
        4,
        &["the output of `fc2` (linear) has a value that is infinite or NaN"],
    );
}

#[test]
fn a_run_goes_back_from_bad_numbers_and_on_with_lower_rates() {
    let ruin = asker(
        json!({"at": "before_update", "what": "set_learning_rate", "number": 1e30,
        "after_iteration": 10, "once": true}),
    );
    let guard = |more: Value| json!({"hook": "stop-on-nan", "config": {"action": "roll-back", "roll_back": more}});
    let (place, finished) = run(learning(), json!([ruin, guard(json!({})), "csv"]));
    finished.expect(0, &["going back to `stop-on-nan`, 1 of at most 3 times"]);
    let record = record(&place);
    assert_eq!(
        (&record["epochs"], &record["updates"]),
        (&json!(8), &json!(24))
    );
    let rates: Vec<String> = place
        .read("out/train.csv")
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(3).unwrap_or_default().to_owned())
        .collect();
    // Iteration 10 is in the fourth epoch, before which the checkpoint gone back to was saved.
    assert_eq!(rates[..4], ["0.05", "0.05", "0.05", "0.025"], "{rates:?}");
    assert_eq!(rates[7], "0.025");
    let (place, finished) = run(
        learning(),
        json!([
            ruin,
            guard(json!({"learning_rate_factor": 0.1, "save_every": 2})),
            "csv"
        ]),
    );
    finished.expect(0, &["1 of at most 3 times"]);
    assert!(
        place
            .read("out/train.csv")
            .lines()
            .nth(3)
            .is_some_and(|row| row.contains("0.005"))
    );

    // What cannot be healed so ends the run.
    let always = edit(long(), "/optimizer/learning_rate", json!(1e30));
    let (_, finished) = run(always, json!([guard(json!({"times": 2}))]));
    finished.expect(4, &["2 of at most 2 times", "after 2 roll backs"]);
    let (_, finished) = run(learning(), json!([ruin, guard(json!({"to": "nowhere"}))]));
    finished.expect(4, &["`nowhere`"]);
}

#[test]
fn nonsense_is_refused() {
    for (name, config, words) in [
        ("loss-spike", json!({"window": 0}), "window"),
        (
            "loss-spike",
            json!({"rtol": null}),
            "every rise of the loss",
        ),
        ("loss-spike", json!({"action": "skip"}), "skip-update"),
        ("on-plateau", json!({"monitor": "los"}), "los"),
        (
            "on-plateau",
            json!({"long_term": 5, "short_term": 5}),
            "below `long_term`",
        ),
        ("on-plateau", json!({"factor": 1}), "factor"),
        (
            "stop-on-nan",
            json!({"roll_back": {"learning_rate_factor": 2}}),
            "learning_rate_factor",
        ),
        (
            "stop-on-nan",
            json!({"roll_back": {"save_evry": 2}}),
            "save_every",
        ),
    ] {
        let (_, finished) = run(stuck(), json!([{"hook": name, "config": config}]));
        finished.expect_refused(words);
    }
}
