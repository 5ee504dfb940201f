//! `progress`, `jsonl`, `training-trace`, and the rarer options of `console`.

mod progress;
#[cfg(target_os = "linux")]
mod terminal;
mod training_trace;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-console",
    "sconce-plugin-logging",
    "sconce-plugin-csv",
    "sconce-fixture-faults",
];

/// Runs `tiny`, two epochs of three batches, with one hook.
fn run(hook: &str, config: &Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let hooks = json!([{"hook": hook, "config": config}]);
    let finished = place.run(&edit(tiny(), "/hooks", hooks));
    (place, finished)
}

/// What the host says against a hook's config.
fn refused(hook: &str, config: Value, words: &[&str]) {
    let (_, finished) = run(hook, &config);
    // By the schema, or by the hook itself.
    let code = if finished.stderr.contains("failed when it was created") {
        3
    } else {
        2
    };
    finished.expect(code, words);
}

/// Saves a checkpoint as `here` after an iteration of the training.
fn save(iteration: u64) -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter", "phase": "train",
        "what": "save_checkpoint", "text": "here", "after_iteration": iteration, "once": true}})
}

/// Stops behind an iteration of the training.
fn stop(iteration: u64) -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config": {"at": "after_iter", "phase": "train",
        "what": "stop", "text": "enough", "after_iteration": iteration, "once": true}})
}

fn lines(place: &Workplace, file: &str) -> Vec<Value> {
    place.records(file)
}

fn of_event<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

fn column(lines: &[&Value], key: &str) -> Vec<Value> {
    lines.iter().map(|line| line[key].clone()).collect()
}

/// The losses of the six batches.
fn losses() -> Vec<f64> {
    let (place, finished) = run("jsonl", &json!({"interval": 1, "smoothing": "last"}));
    finished.expect(0, &[]);
    let lines = lines(&place, "log.jsonl");
    let losses = column(&of_event(&lines, "interval"), "loss");
    losses.iter().filter_map(Value::as_f64).collect()
}

#[test]
fn jsonl_has_a_line_per_interval_and_per_pass() {
    let place = Workplace::new(PLUGINS);
    let hooks = json!([{"hook": "jsonl", "config": {"interval": 2}}, "csv"]);
    place.run(&edit(tiny(), "/hooks", hooks)).expect(0, &[]);
    let lines = lines(&place, "log.jsonl");
    let events: Vec<String> = lines
        .iter()
        .map(|line| format!("{} {} {}", line["event"], line["phase"], line["iteration"]))
        .map(|text| text.replace('"', ""))
        .collect();
    assert_eq!(
        events,
        [
            "interval train 2",
            "epoch train 3",
            "epoch val 3",
            "interval train 5",
            "epoch train 6",
            "epoch val 6",
            "epoch test 6"
        ]
    );
    // The same numbers as in the tables.
    for phase in ["train", "val", "test"] {
        let table = place.read(&format!("out/{phase}.csv"));
        let header: Vec<&str> = table.lines().next().expect("a header").split(',').collect();
        let passes: Vec<&Value> = of_event(&lines, "epoch")
            .into_iter()
            .filter(|line| line["phase"] == phase)
            .collect();
        assert_eq!(table.lines().count(), passes.len() + 1);
        for (row, line) in table.lines().skip(1).zip(passes) {
            for (name, cell) in header.iter().zip(row.split(',')) {
                let cell: f64 = cell.parse().expect("a number");
                assert_eq!(line[*name].as_f64(), Some(cell), "{phase} {name}");
            }
        }
    }
    // Keys stand in the order of the fields.
    let text = place.read("out/log.jsonl");
    let first = text.lines().next().expect("a line");
    assert!(
        first.starts_with("{\"event\":\"interval\",\"phase\":\"train\",\"epoch\":0,\"iteration\":2,\"update\":2,\"samples\":16,\"learning_rate\":0.01,\"loss\":"),
        "{first}"
    );
}

#[test]
fn jsonl_smooths_the_loss_as_it_is_reported() {
    let losses = losses();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let mut sorted = losses[..5].to_vec();
    sorted.sort_by(f64::total_cmp);
    for (config, expected) in [
        (
            json!({"interval": 2, "window": 3}),
            [mean(&losses[..2]), mean(&losses[2..5])],
        ),
        (
            json!({"interval": 2}),
            [mean(&losses[..2]), mean(&losses[..5])],
        ),
        (
            json!({"interval": 2, "smoothing": "median"}),
            [mean(&losses[..2]), sorted[2]],
        ),
    ] {
        let (place, finished) = run("jsonl", &config);
        finished.expect(0, &[]);
        let lines = lines(&place, "log.jsonl");
        let found = column(&of_event(&lines, "interval"), "loss");
        let found: Vec<f64> = found.iter().filter_map(Value::as_f64).collect();
        assert_eq!(found.len(), 2, "{config}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() < 1e-12,
                "{config}: {found} {expected}"
            );
        }
    }
}

#[test]
fn every_option_of_jsonl_shows_in_the_file() {
    let iterations = |config: Value| {
        let (place, finished) = run("jsonl", &config);
        finished.expect(0, &[]);
        let lines = lines(&place, "log.jsonl");
        column(&of_event(&lines, "interval"), "iteration")
    };
    assert_eq!(iterations(json!({"interval": 0})), [] as [Value; 0]);
    assert_eq!(iterations(json!({})), [] as [Value; 0]);
    let left_over = json!({"interval": 2, "ignore_last": false});
    assert_eq!(iterations(left_over), [2, 3, 5, 6]);

    let (place, finished) = run(
        "jsonl",
        &json!({"file": "logs/steps.jsonl", "epochs_file": "epochs.jsonl", "interval": 3,
            "fields": ["batch", "learning_rates", "elapsed", "remaining", "speed", "loss"], "fsync": true}),
    );
    finished.expect(0, &[]);
    let steps = lines(&place, "logs/steps.jsonl");
    assert_eq!(column(&of_event(&steps, "interval"), "batch"), [3, 3]);
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0]["learning_rates"], json!({"default": 0.01}));
    for key in ["elapsed", "remaining", "speed", "loss"] {
        assert!(
            steps[1][key].as_f64().is_some_and(|x| x >= 0.0),
            "{key}: {}",
            steps[1]
        );
    }
    assert!(steps[0].get("accuracy").is_none() && steps[0].get("epoch").is_none());
    assert_eq!(lines(&place, "epochs.jsonl").len(), 5);

    let config = json!({"interval": 1, "by_epoch": false, "metrics": ["loss"], "digits": 2});
    let (place, _) = run("jsonl", &config);
    let steps = lines(&place, "log.jsonl");
    assert_eq!(steps.len(), 6);
    assert!(steps.iter().all(|line| line.get("accuracy").is_none()));
    let loss = steps[0]["loss"].to_string();
    assert!(loss.len() <= 3, "two digits: {loss}");

    // From the tenth batch on the interval is longer.
    let manifest = edit(tiny(), "/data/train", json!(96));
    let hooks = json!([{"hook": "jsonl", "config": {"denser_at_first": true, "interval": 8}}]);
    let place = Workplace::new(PLUGINS);
    place.run(&edit(manifest, "/hooks", hooks)).expect(0, &[]);
    let steps = lines(&place, "log.jsonl");
    let found = column(&of_event(&steps, "interval"), "iteration");
    assert_eq!(found, [5, 8, 10, 17, 20, 22]);
}

#[test]
fn jsonl_writes_tables_and_what_is_no_number_as_it_is_reported() {
    let manifest = |config: Value| {
        let hooks = json!([{"hook": "jsonl", "config": config}]);
        let manifest = edit(tiny(), "/optimizer/learning_rate", json!(1e30));
        edit(manifest, "/hooks", hooks)
    };
    for (config, is_text) in [(json!({}), false), (json!({"not_finite": "text"}), true)] {
        let place = Workplace::new(PLUGINS);
        place.run(&manifest(config)).expect(0, &[]);
        let lines = lines(&place, "log.jsonl");
        let last = column(&of_event(&lines, "epoch"), "loss");
        let last = last.last().expect("a loss");
        if is_text {
            assert!(*last == "NaN" || *last == "inf", "{last}");
        } else {
            assert_eq!(*last, Value::Null);
        }
    }
    let manifest = edit(tiny(), "/metrics", json!([{"kind": "confusion-matrix"}]));
    for (config, has) in [(json!({}), false), (json!({"tables": true}), true)] {
        let place = Workplace::new(PLUGINS);
        let hooks = json!([{"hook": "jsonl", "config": config}]);
        place
            .run(&edit(manifest.clone(), "/hooks", hooks))
            .expect(0, &[]);
        let text = place.read("out/log.jsonl");
        assert_eq!(text.contains("confusion"), has, "{text}");
    }
}

#[test]
fn a_resumed_jsonl_is_that_of_a_run_never_stopped() {
    let config = json!({"interval": 2, "epochs_file": "epochs.jsonl"});
    let hook = json!({"hook": "jsonl", "config": config});
    let straight = Workplace::new(PLUGINS);
    let manifest = edit(tiny(), "/hooks", json!([hook, save(4)]));
    straight.run(&manifest).expect(0, &[]);
    let files = |place: &Workplace| {
        ["log.jsonl", "epochs.jsonl"].map(|file| place.read(&format!("out/{file}")))
    };
    let expected = files(&straight);
    // Back to iteration 4, with two more behind it in the files.
    let again = straight.sconce(&["run", "manifest.json", "--resume", "here"]);
    again.expect(0, &["resumes from"]);
    assert_eq!(files(&straight), expected);
    assert!(expected[0].lines().count() == 2, "{}", expected[0]);
}

#[test]
fn a_wrong_jsonl_is_refused() {
    refused(
        "jsonl",
        json!({"window": 0}),
        &["hooks[0].config.window", "1"],
    );
    refused("jsonl", json!({"smoothing": "avg"}), &["`mean`"]);
    refused(
        "jsonl",
        json!({"intervall": 5}),
        &["did you mean `interval`?"],
    );
    refused(
        "jsonl",
        json!({"file": "../log"}),
        &["stay below it: `../log`"],
    );
    let same = json!({"epochs_file": "log.jsonl"});
    refused("jsonl", same, &["are the same: `log.jsonl`"]);
}

#[test]
fn a_broken_off_epoch_says_so() {
    let place = Workplace::new(PLUGINS);
    let hooks = json!([{"hook": "jsonl"}, stop(2)]);
    place.run(&edit(tiny(), "/hooks", hooks)).expect(0, &[]);
    let lines = lines(&place, "log.jsonl");
    let broken: Vec<&Value> = lines.iter().filter(|line| line["whole"] == false).collect();
    assert_eq!(broken.len(), 1);
    assert_eq!(broken[0]["iteration"], 2);
    assert_eq!(broken[0]["epoch"], 0);
}

#[test]
fn console_counts_the_run_and_names_it_where_it_is_asked_to() {
    let (_, finished) = run(
        "console",
        &json!({"interval": 2, "count": "run", "name_every": 3}),
    );
    let finished = finished.expect(0, &[]);
    let lines = finished.stderr.lines();
    let lines: Vec<&str> = lines
        .filter(|line| line.contains("epoch ") && line.contains("loss "))
        .filter_map(|line| line.strip_prefix("console: "))
        .collect();
    let begins = [
        "tiny  epoch 1/2  iteration 2/6  loss ",
        "epoch 1/2  train  loss ",
        "epoch 1/2  val  loss ",
        "tiny  epoch 2/2  iteration 4/6  loss ",
        "epoch 2/2  iteration 6/6  loss ",
        "epoch 2/2  train  loss ",
        "tiny  epoch 2/2  val  loss ",
        "epoch 2/2  test  loss ",
    ];
    assert_eq!(lines.len(), begins.len(), "{lines:#?}");
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
    }
    refused("console", json!({"count": "runs"}), &["`run`"]);
}
