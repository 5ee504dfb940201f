//! `iteration-timer`, `profile`, `trace`, `memory`, `throughput`.

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-profiling",
    "sconce-plugin-csv",
    "sconce-plugin-stop-after",
    "sconce-plugin-checkpoints",
    "sconce-fixture-faults",
    "sconce-fixture-recorder",
];

fn run(manifest: Value, hooks: Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&edit(manifest, "/hooks", hooks));
    (place, finished)
}

/// A run with one hook that succeeds, and all that it said.
fn said(manifest: Value, name: &str, config: &Value) -> (Workplace, String) {
    let (place, finished) = run(
        manifest,
        json!([{"hook": name, "config": config}, "recorder"]),
    );
    let finished = finished.expect(0, &[]);
    (place, format!("{}{}", finished.stdout, finished.stderr))
}

/// The metrics that a hook sees at a point of a phase, of its last call there.
fn metrics(place: &Workplace, point: &str, phase: &str) -> Vec<(String, f64)> {
    let records = place.records("record.jsonl");
    let mut calls = records.iter().rev();
    let call = calls.find(|call| call["point"] == point && call["phase"] == phase);
    let metrics = call.expect("a call")["metrics"].clone();
    serde_json::from_value(metrics).expect("names and numbers")
}

fn metric(metrics: &[(String, f64)], name: &str) -> Option<f64> {
    let found = metrics.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| *value)
}

#[test]
fn iterations_are_timed_behind_the_warm_up() {
    let (place, text) = said(
        tiny(),
        "iteration-timer",
        &json!({"warm_up": 1, "every": 2}),
    );
    // Three batches in each of two epochs, two in each validation, one in the test.
    assert!(
        text.contains("train, epoch 0: ") && text.contains(", 1 of them)"),
        "{text}"
    );
    assert!(
        text.contains("train, epoch 1: ") && text.contains(", 2 of them)"),
        "{text}"
    );
    assert!(
        text.contains("train, epoch 2: ") && text.contains(", 3 of them)"),
        "{text}"
    );
    assert!(
        text.contains("train, the whole run: ") && text.contains(", 5 of them"),
        "{text}"
    );
    let all = metrics(&place, "after_epoch", "train");
    let number = |name: &str| metric(&all, name).unwrap_or_else(|| panic!("no {name}: {all:?}"));
    for name in ["iteration_time", "data_time"] {
        let [least, median, mean, most] =
            ["min", "median", "mean", "max"].map(|what| number(&format!("{name}/{what}")));
        assert!(0.0 < least && least <= median && median <= most && least <= mean && mean <= most);
    }
    assert!(number("data_time/mean") < number("iteration_time/mean"));
    // The last one is among them.
    let last = number("iteration_time");
    assert!((number("iteration_time/min")..=number("iteration_time/max")).contains(&last));
}

#[test]
fn a_silent_timer_says_nothing_and_a_long_warm_up_leaves_nothing() {
    let (place, text) = said(
        tiny(),
        "iteration-timer",
        &json!({"log": false, "warm_up": 0}),
    );
    assert!(!text.contains("an iteration"), "{text}");
    assert!(metric(&metrics(&place, "after_iter", "train"), "iteration_time").is_some());
    let (place, text) = said(
        tiny(),
        "iteration-timer",
        &json!({"publish": false, "warm_up": 0}),
    );
    assert!(text.contains("an iteration"), "{text}");
    assert_eq!(
        metric(&metrics(&place, "after_epoch", "train"), "iteration_time"),
        None
    );
    // The default's warm-up is longer than this run.
    let (place, text) = said(tiny(), "iteration-timer", &json!({}));
    assert!(!text.contains("an iteration"), "{text}");
    assert_eq!(
        metric(&metrics(&place, "after_epoch", "train"), "iteration_time"),
        None
    );
}

#[test]
fn a_validation_in_the_midst_is_no_part_of_an_iteration() {
    let ask = json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train",
        "what": "validate", "after_iteration": 1, "once": true}});
    let timer = json!({"hook": "iteration-timer", "config": {"warm_up": 0}});
    let (_, finished) = run(tiny(), json!([timer, ask]));
    let finished = finished.expect(0, &[]);
    let text = format!("{}{}", finished.stdout, finished.stderr);
    // Two validations after epochs and the one asked for, of two batches each.
    assert!(
        text.contains("val, the whole run: ") && text.contains(", 6 of them"),
        "{text}"
    );
    assert!(text.contains("train, the whole run: "), "{text}");
}

#[test]
fn samples_are_counted_by_time_and_tokens_are_items() {
    let config = json!({"warm_up": 0, "window": 2, "every": 3});
    let (place, text) = said(tiny(), "throughput", &config);
    assert!(
        text.contains("train, iteration 3: ") && text.contains(" samples/s"),
        "{text}"
    );
    assert!(!text.contains("items/s"), "images have none: {text}");
    let all = metrics(&place, "after_epoch", "train");
    let number = |name: &str| metric(&all, name).unwrap_or_else(|| panic!("no {name}: {all:?}"));
    // Whole: samples by seconds; the mean time of a sample is its inverse.
    let product = number("samples_per_second/whole") * number("sample_time/mean");
    assert!((product - 1.0).abs() < 1e-9, "{product}");
    assert!(number("sample_time/median") > 0.0);
    assert_eq!(metric(&all, "items_per_second"), None);
    let (place, text) = said(
        tiny(),
        "throughput",
        &json!({"warm_up": 0, "items_per_sample": 784, "log": false}),
    );
    assert!(!text.contains("samples/s, "), "{text}");
    let all = metrics(&place, "after_iter", "train");
    let number = |name: &str| metric(&all, name).unwrap_or_else(|| panic!("no {name}: {all:?}"));
    let ratio = number("items_per_second") / number("samples_per_second");
    assert!((ratio - 784.0).abs() < 1e-6, "{ratio}");
    // Tokens: the grammar's sentences.
    let mut manifest = tiny();
    manifest["model"] = json!({"kind": "gpt", "width": 8, "heads": 2, "layers": 1});
    manifest["data"] = json!({"kind": "grammar", "train": 24, "val": 8, "test": 8, "context": 12});
    let (place, text) = said(manifest, "throughput", &json!({"warm_up": 0}));
    assert!(text.contains(" items/s"), "{text}");
    let all = metrics(&place, "after_iter", "train");
    let number = |name: &str| metric(&all, name).unwrap_or_else(|| panic!("no {name}: {all:?}"));
    let ratio = number("items_per_second") / number("samples_per_second");
    assert!((ratio - 12.0).abs() < 1e-9, "{ratio}");
    let (place, _) = said(
        tiny(),
        "throughput",
        &json!({"warm_up": 0, "publish": false}),
    );
    assert_eq!(
        metric(
            &metrics(&place, "after_epoch", "train"),
            "samples_per_second"
        ),
        None
    );
}

#[test]
fn a_profile_has_all_parts_of_all_passes() {
    let (place, text) = said(tiny(), "profile", &json!({"named_share": 0.0}));
    for words in [
        "train, epoch 2: ",
        "val, epoch 1: ",
        "test, the whole run: ",
        "(profile ",
    ] {
        assert!(text.contains(words), "no {words:?}: {text}");
    }
    let lines = place.records("profile.jsonl");
    let passes: Vec<_> = (lines.iter())
        .filter(|line| line["of"] == "pass")
        .map(|line| {
            format!(
                "{} {}",
                line["phase"].as_str().expect("text"),
                line["epoch"]
            )
        })
        .collect();
    assert_eq!(passes, ["train 1", "val 1", "train 2", "val 2", "test 2"]);
    let (process, lines) = lines.split_last().expect("lines");
    assert_eq!(process["of"], "process");
    assert!(process["start"]["plugins"].is_f64(), "{process}");
    for line in lines {
        let seconds = |name: &str| line["seconds"][name].as_f64().expect("a number");
        let total = line["total"].as_f64().expect("a number");
        let parts = [
            "data", "forward", "loss", "backward", "update", "hooks", "rest",
        ];
        let sum: f64 = parts.map(seconds).iter().sum();
        // Hooks' times are estimates; nothing else is.
        assert!(
            sum >= total * 0.999 && sum <= total + seconds("hooks") + 1e-9,
            "{line}"
        );
        let is_training = line["phase"] == "train";
        assert_eq!(seconds("backward") > 0.0, is_training);
        assert!(seconds("forward") > 0.0);
        assert!(
            line["by_hook"]["recorder"]["calls"]
                .as_u64()
                .is_some_and(|calls| calls > 3)
        );
    }
    let whole = |phase: &str| {
        let mut found = lines
            .iter()
            .filter(|line| line["of"] == "run" && line["phase"] == phase);
        found.next().expect("a line")["passes"].clone()
    };
    assert_eq!(
        [whole("train"), whole("val"), whole("test")],
        [2, 2, 1].map(|n| json!(n))
    );
    let (place, text) = said(
        tiny(),
        "profile",
        &json!({"log": false, "file": "a/b.jsonl"}),
    );
    assert!(!text.contains("epoch 1: "), "{text}");
    assert_eq!(place.records("a/b.jsonl").len(), 9);
    let (place, _) = said(tiny(), "profile", &json!({"file": null}));
    assert!(!place.path("out/profile.jsonl").exists());
}

/// Runs to the end of an epoch, saves, is ended, and goes on.
fn resumed(hook: &Value) -> Workplace {
    let save = json!({"hook": "checkpoint", "config": {"epochs": 1}});
    let stop = json!({"hook": "asker", "config": {"at": "before_update", "what": "scale_loss",
        "after_iteration": 4}});
    let place = Workplace::new(PLUGINS);
    // An illegal request in the fifth iteration ends the run.
    place
        .run(&edit(tiny(), "/hooks", json!([hook, save, stop])))
        .expect(4, &[]);
    place.write(&edit(tiny(), "/hooks", json!([hook, save])));
    place
        .sconce(&["run", "manifest.json", "--resume", "--allow-changes"])
        .expect(0, &[]);
    place
}

#[test]
fn files_of_a_resumed_run_have_every_line_once() {
    let place = resumed(&json!({"hook": "profile"}));
    let lines = place.records("profile.jsonl");
    let passes: Vec<_> = (lines.iter())
        .map(|line| format!("{} {}", line["of"], line["phase"]).replace('"', ""))
        .collect();
    let expected = [
        "pass train",
        "pass val",
        "pass train",
        "pass val",
        "pass test",
        "run train",
        "run val",
        "run test",
        "process null",
    ];
    assert_eq!(passes, expected);
    let whole = lines
        .iter()
        .find(|line| line["of"] == "run")
        .expect("a line");
    assert_eq!(whole["passes"], 2, "the first part's epoch counts");

    let place =
        resumed(&json!({"hook": "memory", "config": {"every": 1, "points": ["after_iter"]}}));
    let text = place.read("out/memory.csv");
    let rows: Vec<_> = (text.lines())
        .map(|line| line.split(',').take(5).collect::<Vec<_>>().join(" "))
        .filter(|row| row.contains("train") || row.contains("phase"))
        .collect();
    let expected = [
        "epoch iteration phase batch point",
        "0 1 train 1 after_iter",
        "0 2 train 2 after_iter",
        "0 3 train 3 after_iter",
        "1 3 train 3 after_epoch",
        "1 4 train 4 after_iter",
        "1 5 train 5 after_iter",
        "1 6 train 6 after_iter",
        "2 6 train 3 after_epoch",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn memory_is_reported_by_point_and_its_limit_minded() {
    let (place, text) = said(tiny(), "memory", &json!({"every": 2}));
    assert!(
        text.contains("train, epoch 2: ") && text.contains("; after_backward "),
        "{text}"
    );
    let text = place.read("out/memory.csv");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let of = |epoch: &str, phase: &str| -> Vec<&str> {
        (rows.iter())
            .filter(|row| row[0] == epoch && row[2] == phase)
            .map(|row| row[4])
            .collect()
    };
    let points = [
        "before_iter",
        "after_forward",
        "after_loss",
        "after_backward",
        "after_update",
        "after_iter",
    ];
    assert_eq!(of("0", "train"), points, "iteration 2");
    assert_eq!(
        of("1", "val"),
        [
            "before_iter",
            "after_forward",
            "after_loss",
            "after_iter",
            "after_epoch"
        ]
    );
    for row in rows.iter().skip(1) {
        let [resident, peak] = [row[5], row[6]].map(|text| text.parse::<f64>().expect("a number"));
        assert!(resident > 1.0 && peak >= resident && peak < 1e6, "{row:?}");
    }
    let all = metrics(&place, "after_epoch", "train");
    assert!(
        metric(&all, "memory") <= metric(&all, "memory_peak") && metric(&all, "memory") > Some(1.0)
    );

    let (place, text) = said(
        tiny(),
        "memory",
        &json!({"file": null, "log": false, "publish": false, "limit": 0.5}),
    );
    assert!(!place.path("out/memory.csv").exists());
    assert!(!text.contains("MiB, at most"), "{text}");
    assert_eq!(text.matches("the limit is 0.5 MiB").count(), 1, "{text}");
    assert_eq!(
        metric(&metrics(&place, "after_epoch", "train"), "memory"),
        None
    );
    let stop = json!({"hook": "memory", "config": {"every": 2, "limit": 0.5, "on_limit": "stop"}});
    let (place, finished) = run(tiny(), json!([stop]));
    finished.expect(0, &[]);
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(
        (&record["outcome"], &record["iterations"]),
        (&json!("stopped"), &json!(2))
    );
    let fail = json!({"hook": "memory", "config": {"every": 2, "limit": 0.5, "on_limit": "fail"}});
    let (_, finished) = run(tiny(), json!([fail]));
    finished.expect(
        4,
        &[
            "MiB of memory at `before_iter`",
            "at the error the process has",
        ],
    );
}

/// The events of a trace, after a look at its form: what the format wants, times that never go
/// back, and spans that lie in each other or beside each other.
fn events(place: &Workplace, file: &str) -> Vec<Value> {
    let trace: Value = serde_json::from_str(&place.read(&format!("out/{file}"))).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events").clone();
    let number = |event: &Value, key: &str| event[key].as_f64().expect("a number");
    let mut open: Vec<f64> = Vec::new();
    let mut last = 0.0;
    for event in &events {
        assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64());
        match event["ph"].as_str() {
            Some("M") => continue,
            Some("C") => assert!(
                event["args"]
                    .as_object()
                    .is_some_and(|args| args.len() == 1)
            ),
            Some("X") => {
                let (begin, end) = (
                    number(event, "ts"),
                    number(event, "ts") + number(event, "dur"),
                );
                while open.last().is_some_and(|outer| *outer <= begin) {
                    open.pop();
                }
                assert!(
                    open.last().is_none_or(|outer| end <= *outer),
                    "{event} overlaps"
                );
                assert!(end >= begin);
                open.push(end);
            }
            other => panic!("no event of kind {other:?} was expected"),
        }
        assert!(number(event, "ts") >= last, "{event} goes back");
        last = number(event, "ts");
    }
    events
}

fn names(events: &[Value], category: &str) -> Vec<String> {
    let of = events.iter().filter(|event| event["cat"] == category);
    of.filter_map(|event| event["name"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn chosen_iterations_are_traced_step_by_step_and_module_by_module() {
    let schedule = json!({"skip_first": 1, "wait": 1, "warm_up": 0, "active": 2, "repeat": 1});
    let (place, text) = said(
        tiny(),
        "trace",
        &json!({"schedule": schedule, "shapes": true, "memory": true}),
    );
    assert!(text.contains("iterations 3 to 4 are in `"), "{text}");
    let events = events(&place, "trace/iterations-3-4.json");
    assert_eq!(names(&events, "iteration"), ["iteration 3", "iteration 4"]);
    let steps = ["data", "forward", "loss", "backward", "update"];
    assert_eq!(names(&events, "step"), [steps, steps].concat());
    let modules = ["fc1", "act1", "fc2"];
    assert_eq!(names(&events, "module"), [modules, modules].concat());
    assert_eq!(
        names(&events, "loop"),
        ["val"],
        "the first epoch's validation lies between"
    );
    assert!(!names(&events, "counter").is_empty());
    let fc1 = events
        .iter()
        .find(|event| event["name"] == "fc1")
        .expect("a span");
    assert_eq!(
        fc1["args"],
        json!({"kind": "linear", "input": [8, 784], "output": [8, 8]})
    );
    let iteration = events
        .iter()
        .find(|event| event["name"] == "iteration 4")
        .expect("a span");
    assert_eq!(iteration["args"]["iteration"], 4);
    assert!(iteration["args"]["loss"].is_f64());
}

#[test]
fn cycles_repeat_and_a_trace_may_end_the_run() {
    let schedule = json!({"skip_first": 0, "wait": 0, "warm_up": 1, "active": 1, "repeat": 2});
    let (place, _) = said(
        tiny(),
        "trace",
        &json!({"schedule": schedule, "modules": false, "stop_after": true, "directory": "t"}),
    );
    for file in ["t/iterations-2-2.json", "t/iterations-4-4.json"] {
        let events = events(&place, file);
        assert_eq!(names(&events, "iteration").len(), 1);
        assert_eq!(names(&events, "module"), [""; 0]);
    }
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(
        (&record["outcome"], &record["iterations"]),
        (&json!("stopped"), &json!(4))
    );
    // Endless: the last window is broken off by the run's end.
    let schedule = json!({"skip_first": 0, "warm_up": 0, "active": 4, "repeat": 0});
    let (place, _) = said(tiny(), "trace", &json!({"schedule": schedule}));
    let mut files: Vec<_> = fs::read_dir(place.path("out/trace"))
        .expect("listed")
        .map(|file| {
            file.expect("a file")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    files.sort();
    assert_eq!(files, ["iterations-1-4.json", "iterations-5-6.json"]);
}

#[test]
fn containers_span_what_is_inside() {
    let mut manifest = tiny();
    manifest["model"] = json!({"kind": "sequential", "layers": [
        {"kind": "flatten"},
        {"kind": "sequential", "name": "body", "layers": [
            {"kind": "linear", "name": "a", "outputs": 8},
            {"kind": "relu", "name": "b"}]},
        {"kind": "linear", "name": "head"}]});
    let schedule = json!({"skip_first": 0, "warm_up": 0, "active": 1});
    let (place, _) = said(manifest, "trace", &json!({"schedule": schedule}));
    let events = events(&place, "trace/iterations-1-1.json");
    assert_eq!(
        names(&events, "module"),
        ["body", "body.a", "body.b", "head"]
    );
}

#[test]
fn wrong_configurations_are_refused() {
    for (name, config, words) in [
        ("iteration-timer", json!({"every": 0}), "every"),
        ("iteration-timer", json!({"warmup": 1}), "warm_up"),
        ("throughput", json!({"window": 0}), "window"),
        ("profile", json!({"named_share": 2}), "named_share"),
        (
            "profile",
            json!({"file": "../x"}),
            "must be relative to the run's directory",
        ),
        ("memory", json!({"points": ["after_all"]}), "after_all"),
        ("memory", json!({"limit": 0}), "limit"),
        ("trace", json!({"schedule": {"active": 0}}), "active"),
        (
            "trace",
            json!({"directory": "/x"}),
            "must be relative to the run's directory",
        ),
    ] {
        let (_, finished) = run(tiny(), json!([{"hook": name, "config": config}]));
        finished.expect_refused(words);
    }
}
