//! `training-trace`: what it says of runs that end in every way, and of those that go on.

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

use super::{refused, save, stop};

const PLUGINS: &[&str] = &[
    "sconce-plugin-logging",
    "sconce-plugin-csv",
    "sconce-fixture-faults",
    "sconce-fixture-breaker",
];

/// Runs `tiny` with a trace and more hooks; with an order for the breaker.
fn run(config: Value, more: &[Value], order: Option<Value>) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let mut hooks = vec![json!({"hook": "training-trace", "config": config})];
    hooks.extend(more.iter().cloned());
    let manifest = edit(tiny(), "/hooks", Value::Array(hooks));
    if let Some(order) = order {
        fs::create_dir(place.path("out")).expect("a directory");
        place.write_text("out/break.json", &order.to_string());
    }
    let finished = place.run(&manifest);
    (place, finished)
}

fn trace(place: &Workplace) -> Value {
    serde_json::from_str(&place.read("out/training-trace.json")).expect("JSON")
}

/// A moment as `2026-11-21T15:04:05Z`.
fn is_moment(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.len() == 20 && text.starts_with("20") && text.ends_with('Z') && text.contains('T')
}

#[test]
fn a_trace_says_what_the_runs_record_says() {
    let (place, finished) = run(json!({"notes": {"why": "a test"}}), &["csv".into()], None);
    finished.expect(0, &[]);
    let trace = trace(&place);
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(trace["status"], record["outcome"]);
    assert_eq!(
        trace["epochs"],
        json!({"done": record["epochs"], "asked": 2})
    );
    for key in ["iterations", "updates", "metrics"] {
        assert_eq!(trace[key], record[key], "{key}");
    }
    assert_eq!(trace["samples"], 48);
    assert_eq!((&trace["run"], &trace["seed"]), (&json!("tiny"), &json!(1)));
    assert_eq!(trace["exit_status"], 0);
    assert_eq!(trace["resumed_from"], Value::Null);
    assert_eq!(trace["earlier"], json!([]));
    assert_eq!(trace["notes"]["why"], "a test");
    assert_eq!(trace["hooks"][1], json!({"hook": "csv", "name": "csv"}));
    let host = trace["versions"]["host"].as_str().expect("a version");
    assert!(host.starts_with("sconce "), "{host}");
    for key in ["begin", "end", "updated"] {
        assert!(is_moment(&trace[key]), "{key}: {}", trace[key]);
    }
    // The best is the least of the validation's table.
    let table = place.read("out/val.csv");
    let header: Vec<&str> = table.lines().next().expect("a header").split(',').collect();
    let loss = header
        .iter()
        .position(|name| *name == "loss")
        .expect("a loss");
    let rows = table.lines().skip(1);
    let losses: Vec<f64> = rows
        .map(|row| {
            row.split(',')
                .nth(loss)
                .expect("a cell")
                .parse()
                .expect("a number")
        })
        .collect();
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let epoch = losses
        .iter()
        .position(|loss| loss.to_bits() == best.to_bits())
        .expect("it")
        + 1;
    let expected = json!({"value": best, "epoch": epoch, "rule": "less"});
    assert_eq!(trace["best"]["val/loss"], expected);
    assert_eq!(trace["best"]["val/accuracy"]["rule"], "greater");
}

#[test]
fn a_trace_says_why_a_run_ended() {
    let signal = |name: &str| {
        Some(json!({"at": "after_iter", "phase": "train", "iteration": 4, "signal": name}))
    };
    let fault =
        json!({"hook": "fault", "config": {"at": "after_update", "how": "error", "from_call": 3}});
    let breaker = json!("breaker");
    for (more, order, code, status, words) in [
        (vec![stop(4)], None, 0, "stopped", "enough"),
        (
            vec![fault],
            None,
            4,
            "failed",
            "told to fail at after_update",
        ),
        (
            vec![breaker.clone()],
            signal("TERM"),
            143,
            "interrupted",
            "SIGTERM",
        ),
        (vec![breaker], signal("INT"), 130, "interrupted", "SIGINT"),
    ] {
        let (place, finished) = run(json!({}), &more, order);
        finished.expect(code, &[]);
        let trace = trace(&place);
        assert_eq!(trace["status"], status);
        assert_eq!(trace["exit_status"], code, "{status}");
        let reason = trace["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(words), "{reason}");
        assert_eq!(trace["epochs"]["done"], 1, "{status}");
        assert!(is_moment(&trace["end"]));
    }
}

#[test]
fn a_killed_run_leaves_the_last_true_trace_and_can_go_on() {
    let order = json!({"at": "after_iter", "phase": "train", "iteration": 5, "signal": "KILL"});
    // How far the trace knew the run to be.
    for (config, known) in [
        (json!({}), 3),
        (json!({"every": 2}), 0),
        (json!({"every_iterations": 2}), 4),
    ] {
        let more = [save(4), json!("breaker")];
        let (place, finished) = run(config.clone(), &more, Some(order.clone()));
        assert_eq!(finished.code, -1);
        let killed = trace(&place);
        assert_eq!(killed["status"], "running", "{config}");
        assert_eq!(killed["iterations"], known, "{config}");
        assert_eq!(killed["exit_status"], Value::Null);
        assert_eq!(killed["end"], Value::Null);

        let again = place.sconce(&["run", "manifest.json", "--resume", "here"]);
        again.expect(0, &["resumes from"]);
        let trace = trace(&place);
        assert_eq!(trace["status"], "completed");
        assert_eq!(trace["begin"], killed["begin"]);
        let from = json!({"checkpoint": "here", "epoch": 1, "iteration": 4});
        assert_eq!(trace["resumed_from"], from);
        assert_eq!(trace["earlier"].as_array().map(Vec::len), Some(1));
        assert_eq!(trace["earlier"][0]["status"], "killed");
        assert_eq!(trace["earlier"][0]["iterations"], known);
        assert_eq!(trace["earlier"][0]["updated"], killed["updated"]);
        assert_eq!(trace["roll_backs"], 0);
    }
}

#[test]
fn a_resumed_trace_ends_as_that_of_a_run_never_stopped() {
    let (place, finished) = run(json!({}), &[save(4)], None);
    finished.expect(0, &[]);
    let straight = trace(&place);
    let again = place.sconce(&["run", "manifest.json", "--resume", "here"]);
    again.expect(0, &[]);
    let trace = trace(&place);
    for key in [
        "best",
        "metrics",
        "epochs",
        "iterations",
        "updates",
        "samples",
        "hooks",
    ] {
        assert_eq!(trace[key], straight[key], "{key}");
    }
    assert_eq!(trace["earlier"][0]["status"], "completed");
}

#[test]
fn options_of_the_trace_show_in_it() {
    let config = json!({"file": "logs/trace.json", "best": ["train/accuracy"]});
    let (place, finished) = run(config, &[], None);
    finished.expect(0, &[]);
    let trace: Value = serde_json::from_str(&place.read("out/logs/trace.json")).expect("JSON");
    let best: Vec<&String> = trace["best"].as_object().expect("metrics").keys().collect();
    assert_eq!(best, ["train/accuracy"]);
    let roll_back = json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train",
        "what": "roll_back", "text": "here", "after_iteration": 5, "once": true}});
    let (place, finished) = run(json!({}), &[save(4), roll_back], None);
    finished.expect(0, &[]);
    let trace = self::trace(&place);
    assert_eq!(trace["roll_backs"], 1);
    assert_eq!(trace["checkpoints"], json!({"saved": 1, "last": "here"}));
    assert_eq!(trace["resumed_from"], Value::Null);
    // A resumed run counts on: the hook, which forgets that it has asked, rolls back again.
    let resumed = place.sconce(&["run", "manifest.json", "--resume", "here"]);
    resumed.expect(0, &[]);
    assert_eq!(self::trace(&place)["roll_backs"], 2);
}

#[test]
fn a_wrong_trace_is_refused() {
    let hook = "training-trace";
    refused(hook, json!({"every": 0}), &["hooks[0].config.every"]);
    refused(
        hook,
        json!({"file": "/tmp/x"}),
        &["stay below it: `/tmp/x`"],
    );
    refused(hook, json!({"best": ["acuracy"]}), &["acuracy", "accuracy"]);
}
