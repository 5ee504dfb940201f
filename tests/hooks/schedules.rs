//! Hooks that change how steps go: `accumulation-schedule`, `loss-scale`, `lr-range-test`, momenta in
//! `lr-schedule`.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-optimisation",
    "sconce-plugin-csv",
    "sconce-fixture-faults",
    "sconce-fixture-recorder",
];

fn run(manifest: &Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(manifest);
    (place, finished)
}

fn ran(manifest: &Value) -> Workplace {
    let (place, finished) = run(manifest);
    finished.expect(0, &[]);
    place
}

fn hooks(hooks: Value) -> Value {
    edit(tiny(), "/hooks", hooks)
}

fn save(at: &str, iteration: u64, tag: &str) -> Value {
    json!({"hook": "asker", "priority": "LOWEST", "config": {"at": at, "phase": "train",
        "what": "save_checkpoint", "after_iteration": iteration, "once": true, "text": tag}})
}

/// A run that is left at an iteration and gone on with has the numbers of one that is not.
fn goes_on_with_the_same_bits(manifest: &Value, from: &[&str]) {
    let place = ran(manifest);
    let expected = place.checkpoint("end");
    for from in from {
        let arguments = ["run", "manifest.json", "--resume", from];
        place.sconce(&arguments).expect(0, &[]);
        let found = place.checkpoint("end");
        for (name, tensor) in &expected {
            assert!(found.get(name) == Some(tensor), "{name} from {from}");
        }
    }
}

fn column(place: &Workplace, file: &str, name: &str) -> Vec<f64> {
    let text = place.read(&format!("out/{file}"));
    let mut lines = text.lines();
    let mut header = lines.next().expect("a header").split(',');
    let column = header.position(|known| known == name).expect("a column");
    let cell = |line: &str| line.split(',').nth(column).expect("a cell").parse();
    lines.map(|line| cell(line).expect("a number")).collect()
}

/// The iterations that are finished before each update.
fn updates(place: &Workplace) -> Vec<u64> {
    let calls = place.records("record.jsonl");
    let updates = calls.iter().filter(|call| call["point"] == "after_update");
    updates
        .filter_map(|call| call["iteration"].as_u64())
        .collect()
}

#[test]
fn the_batches_of_an_update_follow_the_epochs() {
    let schedule =
        json!({"hook": "accumulation-schedule", "config": {"factors": {"1": 3, "2": 2}}});
    let all = hooks(json!([schedule, "recorder"]));
    let place = ran(&edit(all, "/train/epochs", json!(3)));
    // Three iterations an epoch: each by itself, all together, two and what is left.
    assert_eq!(updates(&place), [0, 1, 2, 5, 7, 8]);
    let schedule = json!({"hook": "accumulation-schedule", "config": {"factors": {"0": 2}}});
    let by_hook = ran(&hooks(json!([schedule, save("after_loop", 0, "end")])));
    let manifest = hooks(json!([save("after_loop", 0, "end")]));
    let by_manifest = ran(&edit(manifest, "/train/accumulate", json!(2)));
    let name = "parameters/fc1.weight";
    assert!(by_hook.checkpoint("end")[name] == by_manifest.checkpoint("end")[name]);
    let schedule = json!({"hook": "accumulation-schedule", "config": {"factors": {"0": 2, "1": 3}, "publish": ""}});
    let saves = [1, 2, 4].map(|iteration| save("after_iter", iteration, &iteration.to_string()));
    let all = hooks(json!([
        schedule,
        saves[0],
        saves[1],
        saves[2],
        save("after_loop", 0, "end")
    ]));
    goes_on_with_the_same_bits(&all, &["1", "2", "4"]);
}

#[test]
fn the_batches_of_an_update_are_a_metric() {
    let schedule = |publish: &str| json!({"hook": "accumulation-schedule", "config": {"factors": {"0": 3, "1": 2}, "publish": publish}});
    for name in ["accumulation", "batches"] {
        let csv = json!({"hook": "csv", "config": {"variables": [name]}});
        let place = ran(&hooks(json!([schedule(name), csv])));
        assert_eq!(column(&place, "train.csv", name), [3.0, 2.0]);
    }
}

#[test]
fn a_scaled_loss_changes_no_bits_and_overflows_are_left_out() {
    let scale = |config: Value| json!({"hook": "loss-scale", "config": config});
    let end = save("after_loop", 0, "end");
    let plain = ran(&hooks(json!([end])));
    let name = "parameters/fc1.weight";
    for config in [
        json!({}),
        json!({"mode": "static", "scale": 1024.0}),
        json!({"growth_interval": 1}),
    ] {
        let scaled = ran(&hooks(json!([scale(config.clone()), end])));
        assert!(
            scaled.checkpoint("end")[name] == plain.checkpoint("end")[name],
            "{config}"
        );
    }
    // Something else makes the gradients of one update infinite.
    let overflow = json!({"hook": "asker", "config": {"at": "after_loss", "phase": "train",
        "what": "scale_loss", "number": 1e300, "after_iteration": 2, "once": true}});
    let config = json!({"scale": 1024.0, "growth_interval": 2, "publish": "scale"});
    let clip = json!({"hook": "grad-clip", "config": {"max_norm": 1e6}});
    let csv = json!({"hook": "csv", "config": {"variables": ["scale"]}});
    let place = ran(&hooks(json!([
        scale(config),
        overflow,
        clip,
        csv,
        "recorder"
    ])));
    // Two good ones, a bad one; then three good ones.
    assert_eq!(column(&place, "train.csv", "scale"), [1024.0, 2048.0]);
    assert_eq!(updates(&place), [0, 1, 3, 4, 5]);
}

#[test]
fn a_scale_has_its_bounds_and_an_end() {
    let overflow = json!({"hook": "asker", "config": {"at": "after_loss", "phase": "train",
        "what": "scale_loss", "number": 1e300, "after_iteration": 1}});
    let with = |config: Value| {
        let scale = json!({"hook": "loss-scale", "config": config});
        let csv = json!({"hook": "csv", "config": {"variables": ["loss_scale"]}});
        run(&hooks(json!([scale, overflow, csv])))
    };
    let (place, finished) = with(json!({"scale": 64.0, "min_scale": 32.0}));
    finished.expect(0, &[]);
    assert_eq!(column(&place, "train.csv", "loss_scale"), [32.0, 32.0]);
    let (_place, finished) = with(json!({"give_up_after": 3}));
    finished.expect(4, &["3 updates in a row", "has diverged"]);
    let (place, finished) = with(json!({"mode": "static", "scale": 64.0, "backoff_factor": 0.25}));
    finished.expect(0, &[]);
    assert_eq!(column(&place, "train.csv", "loss_scale"), [64.0, 64.0]);
    let growing = json!({"hook": "loss-scale", "config":
        {"scale": 4.0, "growth_interval": 1, "growth_factor": 3.0, "max_scale": 100.0}});
    let csv = json!({"hook": "csv", "config": {"variables": ["loss_scale"]}});
    let place = ran(&hooks(json!([growing, csv])));
    assert_eq!(column(&place, "train.csv", "loss_scale"), [100.0, 100.0]);
    // What is counted goes on after a resume.
    let scale = json!({"hook": "loss-scale", "config": {"scale": 4.0, "growth_interval": 4}});
    let manifest = hooks(json!([
        scale,
        save("after_iter", 2, "2"),
        save("after_loop", 0, "end")
    ]));
    goes_on_with_the_same_bits(&manifest, &["2"]);
}

#[test]
fn the_momentum_goes_against_the_rate_or_along_a_curve() {
    let one_update = |iteration: u64, config: Value| {
        let schedule = json!({"hook": "lr-schedule", "config": config});
        let saves = (1..=6).map(|i| save("after_iter", i, &i.to_string()));
        let all: Vec<Value> = std::iter::once(schedule).chain(saves).collect();
        let sgd = json!({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9});
        let place = ran(&edit(hooks(json!(all)), "/optimizer", sgd));
        place.checkpoint(&iteration.to_string())
    };
    let name = "parameters/fc2.bias";
    // Constant curves: what holds with a momentum of that size from the start.
    let constant = |factor: f64| {
        json!({"schedule": {"kind": "constant"},
        "momentum": {"kind": "curve", "schedule": {"kind": "constant", "factor": factor}}})
    };
    let half = one_update(6, constant(0.5));
    let sgd = json!({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.45});
    let plain = ran(&edit(
        hooks(json!([save("after_loop", 0, "end")])),
        "/optimizer",
        sgd,
    ));
    assert!(half[name] == plain.checkpoint("end")[name]);
    assert!(half[name] != one_update(6, constant(1.0))[name]);
    // The opposite of a one-cycle, kept in checkpoints and the same in whole and resumed runs.
    let config = json!({"schedule": {"kind": "one-cycle"},
        "momentum": {"kind": "opposite", "low": 0.5, "high": 0.8}});
    let schedule = json!({"hook": "lr-schedule", "config": config});
    let sgd = json!({"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9});
    let all = json!([
        schedule,
        save("after_iter", 4, "4"),
        save("after_loop", 0, "end")
    ]);
    let manifest = edit(hooks(all), "/optimizer", sgd);
    let place = ran(&manifest);
    let state: Value =
        serde_json::from_str(&place.read("out/checkpoints/end/state.json")).expect("JSON");
    let momentum: f64 = state["settings"]["momenta"][0][1]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("a momentum");
    assert!((momentum - 0.8).abs() < 1e-9, "{momentum}");
    goes_on_with_the_same_bits(&manifest, &["4"]);
}

#[test]
fn a_range_test_finds_a_rate_and_leaves_the_run_as_it_was() {
    let test = |config: Value| json!({"hook": "lr-range-test", "config": config});
    let end = save("after_loop", 0, "end");
    let plain = ran(&hooks(json!([end])));
    let name = "parameters/fc1.weight";
    let config = json!({"min": 1e-4, "max": 1.0, "steps": 5, "smoothing": 0.0, "stop_factor": 0,
        "skip_begin": 0, "skip_end": 0, "stop": false});
    let with = |key: &str, value: Value| edit(config.clone(), &format!("/{key}"), value);
    let place = ran(&hooks(json!([test(config.clone()), end])));
    assert!(
        place.checkpoint("end")[name] == plain.checkpoint("end")[name],
        "it is as if nothing had been"
    );
    assert!(!place.path("out/checkpoints/lr-range-test").exists());
    let read = |place: &Workplace| -> Value {
        serde_json::from_str(&place.read("out/lr-range-test.json")).expect("JSON")
    };
    let found = read(&place);
    let rates: Vec<f64> = serde_json::from_value(found["rates"].clone()).expect("rates");
    for (rate, expected) in rates.iter().zip([1e-4, 1e-3, 1e-2, 1e-1, 1.0]) {
        assert!((rate / expected - 1.0).abs() < 1e-9, "{rate}");
    }
    assert_eq!(rates.len(), 5);
    let steepest = found["suggestion"].as_f64().expect("a suggestion");
    assert!(rates.contains(&steepest));
    assert!(place.read("out/lr-range-test.svg").contains("suggestion"));
    // Straight, smoothed, by the least loss, without the ends, to the first that is worse.
    let linear = read(&ran(&hooks(json!([test(with("way", json!("linear")))]))));
    assert!((linear["rates"][1].as_f64().expect("a rate") - 0.250_075).abs() < 1e-9);
    let smoothed = read(&ran(&hooks(json!([test(with("smoothing", json!(0.9)))]))));
    assert_ne!(smoothed["smoothed"], smoothed["losses"]);
    assert_eq!(found["smoothed"], found["losses"]);
    let least = read(&ran(&hooks(json!([test(with(
        "suggestion",
        json!("minimum")
    ))]))));
    let least = least["suggestion"].as_f64().expect("a suggestion");
    assert!(
        rates.iter().any(|rate| (rate / 10.0 - least).abs() < 1e-12),
        "{least}"
    );
    for skips in [
        json!({"skip_begin": 2, "skip_end": 2}),
        json!({"skip_begin": 0, "skip_end": 4}),
    ] {
        let config = with("skip_begin", skips["skip_begin"].clone());
        let config = edit(config, "/skip_end", skips["skip_end"].clone());
        assert_eq!(
            read(&ran(&hooks(json!([test(config)]))))["suggestion"],
            Value::Null
        );
    }
    let wild = edit(with("max", json!(1e6)), "/stop_factor", json!(1.5));
    let wild = read(&ran(&hooks(json!([test(wild)]))));
    assert!(
        wild["rates"]
            .as_array()
            .is_some_and(|rates| rates.len() < 5),
        "{wild}"
    );
    // What is found is applied and told, and the run ends there where that is asked for.
    let csv = json!({"hook": "csv", "config": {"variables": ["learning_rate", "rate"]}});
    let applied = edit(
        edit(config.clone(), "/apply", json!(true)),
        "/publish",
        json!("rate"),
    );
    // From a rate that none of those tried is.
    let other = edit(
        hooks(json!([test(applied), csv])),
        "/optimizer/learning_rate",
        json!(0.03),
    );
    let place = ran(&other);
    assert_eq!(
        column(&place, "train.csv", "learning_rate"),
        [steepest, steepest]
    );
    let stopped = hooks(json!([test(with("stop", json!(true))), end]));
    let (place, finished) = run(&stopped);
    let finished = finished.expect(0, &[]);
    assert!(
        finished
            .stdout
            .contains("the learning rate range test is over"),
        "{}",
        finished.stdout
    );
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    assert_eq!(record["updates"], 0);
    // Longer than the training: what there is is used.
    let long = run(&hooks(json!([test(with("steps", json!(50)))])));
    long.1.expect(0, &["shorter than the test"]);
    assert_eq!(read(&long.0)["rates"].as_array().map(Vec::len), Some(6));
}

#[test]
fn nonsense_is_refused() {
    for (hook, config, words) in [
        ("accumulation-schedule", json!({}), "factors"),
        ("accumulation-schedule", json!({"factors": {}}), "factors"),
        (
            "accumulation-schedule",
            json!({"factors": {"0": 0}}),
            "factors",
        ),
        (
            "accumulation-schedule",
            json!({"factors": {"first": 2}}),
            "first",
        ),
        (
            "lr-range-test",
            json!({"min": 1.0, "max": 0.5}),
            "below `max`",
        ),
        ("lr-range-test", json!({"steps": 1}), "steps"),
        ("loss-scale", json!({"mode": "amp"}), "amp"),
        ("loss-scale", json!({"growth_factor": 1.0}), "growth_factor"),
        (
            "loss-scale",
            json!({"min_scale": 8.0, "max_scale": 4.0}),
            "min_scale",
        ),
        (
            "lr-schedule",
            json!({"schedule": {"kind": "cosine"}, "momentum": {"kind": "opposite"}}),
            "only a `one-cycle` has an opposite",
        ),
        (
            "lr-schedule",
            json!({"schedule": {"kind": "cosine"}, "momentum": {"kind": "curve", "schedule": {"kind": "plateau"}}}),
            "`plateau` changes rates alone",
        ),
    ] {
        let (_place, finished) = run(&hooks(json!([{"hook": hook, "config": config}])));
        finished.expect_refused(words);
    }
    let checked = edit(
        hooks(json!(["loss-scale"])),
        "/train/check_finite",
        json!(true),
    );
    let (_place, finished) = run(&checked);
    finished.expect_refused("`train.check_finite`");
}
