//! All of a run's time is accounted for: the entries of `run.json` add up, whatever the run does.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-checkpoints",
    "sconce-plugin-control",
    "sconce-plugin-csv",
    "sconce-plugin-optimisation",
    "sconce-plugin-profiling",
    "sconce-plugin-stop-after",
    "sconce-fixture-faults",
];

fn number(value: &Value) -> f64 {
    let number = value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"));
    assert!(number >= 0.0, "{number}");
    number
}

fn sum<'a>(values: impl IntoIterator<Item = &'a Value>) -> f64 {
    values.into_iter().map(number).sum()
}

#[track_caller]
fn assert_same(what: &str, found: f64, expected: f64) {
    let difference = (found - expected).abs();
    assert!(
        difference < 1e-9 * expected.max(1.0),
        "{what}: {found}, expected {expected}"
    );
}

/// The times of a run, after it was checked that they add up.
#[track_caller]
fn times(place: &Workplace) -> Value {
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let times = &record["times"];
    let object = |key: &str| times[key].as_object().expect(key).values();
    let hooks = times["hooks"].as_array().expect("hooks");
    let hooks = hooks
        .iter()
        .flat_map(|hook| [&hook["seconds"], &hook["serving"]]);
    let all = object("start")
        .chain(object("passes"))
        .chain(object("end"))
        .chain(hooks);
    let all = all.chain([&times["paused"], &times["other"]]);
    assert_same("the run", sum(all), number(&times["seconds"]));
    let profile = record["profile"].as_object().expect("profile");
    for (phase, pass) in profile {
        assert_same(
            phase,
            number(&times["passes"][phase]),
            number(&pass["total"]),
        );
        let parts = ["data", "forward", "loss", "backward", "update", "other"];
        let hooks = pass["hooks"].as_array().expect("hooks").iter();
        let parts = parts.iter().map(|part| &pass[*part]);
        let parts = parts.chain(hooks.map(|hook| &hook["seconds"]));
        assert_same(phase, sum(parts), number(&pass["total"]));
    }
    times.clone()
}

fn work<'a>(times: &'a Value, hook: &str) -> &'a Value {
    let hooks = times["hooks"].as_array().expect("hooks");
    let found = hooks.iter().find(|work| work["name"] == hook);
    found.unwrap_or_else(|| panic!("no `{hook}` in {times:#}"))
}

fn manifest(hooks: &Value) -> Value {
    edit(
        edit(tiny(), "/train/epochs", json!(4)),
        "/hooks",
        hooks.clone(),
    )
}

#[test]
fn saving_belongs_to_the_hook_that_asks_for_it_and_entries_add_up() {
    let checkpoint = |config: Value| json!({"hook": "checkpoint", "config": config});
    let best =
        json!({"best": [{"monitor": "loss"}], "load_best": true, "keep_last": 1, "last": "last"});
    let early = json!({"hook": "early-stopping", "config": {"patience": 9, "restore_best": true}});
    for (hooks, hook, least) in [
        (json!([checkpoint(json!({}))]), "checkpoint", 4),
        // In mid-epoch too, where they are not part of the pass.
        (
            json!([checkpoint(json!({"iterations": 1}))]),
            "checkpoint",
            12,
        ),
        (
            json!([checkpoint(json!({"background": true, "iterations": 2}))]),
            "checkpoint",
            6,
        ),
        (json!([checkpoint(best)]), "checkpoint", 10),
        (json!([early, "csv", "profile"]), "early-stopping", 2),
        // The averages are swapped in and out around each evaluation.
        (json!(["ema"]), "ema", 10),
    ] {
        let place = Workplace::new(PLUGINS);
        place.run(&manifest(&hooks)).expect(0, &[]);
        let times = times(&place);
        let work = work(&times, hook);
        assert!(work["requests"].as_u64() >= Some(least), "{hooks}: {work}");
        assert!(number(&work["serving"]) > 0.0, "{hooks}: {work}");
    }
}

#[test]
fn entries_add_up_however_the_run_ends() {
    let asker = |what: &str, at: &str| json!({"hook": "asker", "config": {"at": at, "what": what, "once": true}});
    let stop = json!({"hook": "stop-after", "config": {"iterations": 5}});
    for (hooks, code) in [
        (json!([]), 0),
        (json!([stop]), 0),
        (json!([asker("validate", "after_iter")]), 0),
        (json!([asker("fail", "after_iter")]), 4),
        (json!([asker("fail", "after_epoch")]), 4),
    ] {
        let place = Workplace::new(PLUGINS);
        place.run(&manifest(&hooks)).expect(code, &[]);
        let times = times(&place);
        assert!(
            number(&times["passes"]["train"]) > 0.0,
            "{hooks}: {times:#}"
        );
        let failed = times["hooks"].as_array().expect("hooks").iter();
        let own = failed.filter(|work| work["name"] == "").count();
        assert_eq!(
            own,
            usize::from(code != 0),
            "the host saves `failed`: {times:#}"
        );
    }
}

#[test]
fn the_summary_says_where_the_time_went() {
    let place = Workplace::new(PLUGINS);
    let hooks = json!([{"hook": "checkpoint"}]);
    let finished = place.run(&manifest(&hooks)).expect(0, &[]);
    let lines = finished.stdout.lines();
    let line = lines
        .filter(|line| line.starts_with("  time: "))
        .collect::<String>();
    for words in [
        "start ",
        "train ",
        "val ",
        "test ",
        "requests ",
        "(most: `checkpoint`, ",
        "end ",
        "other ",
    ] {
        assert!(line.contains(words), "no {words:?} in {line:?}");
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let shares = words.windows(2).filter(|pair| pair[1].starts_with('%'));
    let sum: f64 = shares.filter_map(|pair| pair[0].parse::<f64>().ok()).sum();
    assert!(
        (sum - 100.0).abs() < 1.0,
        "rounded to tenths: {sum} of {line:?}"
    );
}
