//! `model-complexity`, `activation-stats`.

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny, workspace};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-models",
    "sconce-plugin-checkpoints",
    "sconce-fixture-faults",
    "sconce-fixture-recorder",
];

fn run(manifest: Value, hooks: Value) -> (Workplace, Finished) {
    let place = Workplace::new(PLUGINS);
    let finished = place.run(&edit(manifest, "/hooks", hooks));
    (place, finished)
}

fn layered(layers: &Value) -> Value {
    edit(
        tiny(),
        "/model",
        json!({"kind": "sequential", "layers": layers}),
    )
}

/// The models of `reference/complexity.py`.
fn models() -> [(&'static str, Value); 3] {
    let flat = json!({"kind": "flatten", "name": "flat"});
    let relu = |name: &str| json!({"kind": "relu", "name": name});
    let linear =
        |name: &str, outputs: usize| json!({"kind": "linear", "name": name, "outputs": outputs});
    let pool = |name: &str| json!({"kind": "max-pool2d", "name": name, "kernel": 2});
    let mlp = json!([flat, linear("fc1", 8), relu("act1"), linear("fc2", 10)]);
    let lenet = json!([
        {"kind": "conv2d", "name": "conv1", "channels": 6, "kernel": 5, "padding": 2},
        relu("act1"), pool("pool1"),
        {"kind": "conv2d", "name": "conv2", "channels": 16, "kernel": 5},
        relu("act2"), pool("pool2"), flat,
        linear("fc1", 120), relu("act3"), linear("fc2", 84), relu("act4"), linear("fc3", 10)
    ]);
    let grouped = json!([
        {"kind": "conv2d", "name": "stem", "channels": 8, "kernel": 3, "stride": 2, "padding": 1,
            "bias": false},
        {"kind": "batch-norm", "name": "norm"},
        {"kind": "sequential", "name": "body", "layers": [
            {"kind": "conv2d", "name": "wide", "channels": 8, "kernel": [3, 1], "groups": 8},
            {"kind": "gelu", "name": "act"},
            {"kind": "conv2d", "name": "mix", "channels": 12, "kernel": 1}]},
        flat, linear("head", 10)
    ]);
    [("mlp", mlp), ("lenet", lenet), ("grouped", grouped)]
}

#[test]
fn complexity_is_what_fvcore_and_torchinfo_count() {
    let path = workspace().join("tests/reference/complexity.json");
    let text = fs::read_to_string(path).expect("the reference");
    let reference: Value = serde_json::from_str(&text).expect("JSON");
    for (name, layers) in models() {
        let (place, finished) = run(layered(&layers), json!(["model-complexity"]));
        finished.expect(0, &[]);
        let found: Value = serde_json::from_str(&place.read("out/complexity.json")).expect("JSON");
        let expected = &reference[name];
        for key in ["parameters", "multiply_adds", "activations"] {
            assert_eq!(found[key], expected[key], "{key} of {name}");
        }
        let doubled =
            |value: &Value, factor: u64| json!(value.as_u64().expect("a number") * factor);
        assert_eq!(found["flops"], doubled(&found["multiply_adds"], 2));
        assert_eq!(found["parameter_bytes"], doubled(&found["parameters"], 4));
        assert_eq!(found["activation_bytes"], doubled(&found["activations"], 4));
        assert_eq!(found["input"], json!([1, 28, 28]));
        let modules = found["modules"].as_array().expect("modules");
        let known = expected["modules"].as_object().expect("modules");
        assert!(!known.is_empty() && modules.len() == known.len(), "{name}");
        for row in modules {
            let module = row["module"].as_str().expect("a name");
            let expected = &expected["modules"][module];
            for key in ["parameters", "multiply_adds", "output"] {
                assert_eq!(row[key], expected[key], "{key} of {module} of {name}");
            }
        }
        let names: Vec<_> = modules
            .iter()
            .filter_map(|row| row["module"].as_str())
            .collect();
        if name == "grouped" {
            let order = [
                "stem",
                "norm",
                "body",
                "body.wide",
                "body.act",
                "body.mix",
                "flat",
                "head",
            ];
            assert_eq!(names, order);
            assert_eq!(modules[3]["depth"], 1);
            // Means and variances of 8 channels, and how many batches there were.
            assert_eq!(found["buffers"], 17);
            assert_eq!(modules[1]["buffers"], 17);
        }
    }
}

#[test]
fn a_transformers_operations_are_those_of_the_summary() {
    let mut manifest = tiny();
    manifest["model"] = json!({"kind": "gpt", "width": 16, "heads": 2, "layers": 2});
    manifest["data"] = json!({"kind": "grammar", "train": 16, "val": 8, "test": 8, "context": 12});
    let (place, finished) = run(manifest, json!(["model-complexity"]));
    finished.expect(0, &[]);
    let found: Value = serde_json::from_str(&place.read("out/complexity.json")).expect("JSON");
    let summary = place.sconce(&["summary", "manifest.json"]).expect(0, &[]);
    let (flops, parameters) = (&found["flops"], &found["parameters"]);
    // By hand: a block has 4 projections of 16 x 16, two layers of 16 x 64 each at 12 positions, and
    // scores and sums of 12 x 12 x 16; the head goes to as many characters as there are.
    let block = 12 * (4 * 16 * 16 + 2 * 16 * 64) + 2 * 12 * 12 * 16;
    let rows = found["modules"].as_array().expect("modules");
    let head = rows.last().expect("a row")["output"][1]
        .as_u64()
        .expect("a size");
    assert_eq!(found["multiply_adds"], 2 * block + 12 * 16 * head);
    for number in [flops, parameters] {
        let digits = number.to_string();
        let plain: String = summary
            .stdout
            .chars()
            .filter(|c| !matches!(c, ',' | '_' | '\''))
            .collect();
        assert!(plain.contains(&digits), "no {digits} in {}", summary.stdout);
    }
    assert_eq!(found["unknown"], json!([]));
}

#[test]
fn the_table_goes_as_deep_and_where_it_is_reported() {
    let [.., (_, grouped)] = models();
    let config = json!({"max_depth": 0, "json": "a/c.json", "csv": null});
    let hook = json!({"hook": "model-complexity", "config": config});
    let (place, finished) = run(layered(&grouped), json!([hook, "recorder"]));
    let finished = finished.expect(0, &[]);
    let text = format!("{}{}", finished.stdout, finished.stderr);
    assert!(text.contains("multiply-adds") && text.contains("body") && !text.contains("wide"));
    assert_eq!(text.matches("  head ").count(), 1, "told once: {text}");
    let found: Value = serde_json::from_str(&place.read("out/a/c.json")).expect("JSON");
    assert_eq!(found["modules"].as_array().map(Vec::len), Some(5));
    // What is inside is in what is around it.
    assert!(
        found["modules"][2]["multiply_adds"]
            .as_u64()
            .is_some_and(|count| count > 0)
    );
    assert!(!place.path("out/complexity.csv").exists());
    let config = json!({"log": false, "json": null, "max_depth": 1});
    let hook = json!({"hook": "model-complexity", "config": config});
    let (place, finished) = run(layered(&grouped), json!([hook]));
    let finished = finished.expect(0, &[]);
    assert!(!format!("{}{}", finished.stdout, finished.stderr).contains("multiply-adds"));
    assert!(!place.path("out/complexity.json").exists());
    let text = place.read("out/complexity.csv");
    let lines: Vec<&str> = text.lines().collect();
    let header =
        "module,kind,depth,output,parameters,buffers,multiply_adds,activations,activation_bytes";
    assert_eq!(lines[0], header);
    assert_eq!(lines[1], "stem,conv2d,0,8x14x14,72,0,14112,1568,6272");
    assert!(
        lines[4].starts_with("body.wide,conv2d,1,8x12x14,"),
        "{}",
        lines[4]
    );
    assert_eq!(lines.len(), 9);
}

/// Rows of `activations.csv`, by column.
fn rows(place: &Workplace) -> Vec<Vec<String>> {
    let text = place.read("out/activations.csv");
    let header = "epoch,iteration,module,kind,mean,std,min,max,zeros,dead";
    assert_eq!(text.lines().next(), Some(header));
    let row = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().skip(1).map(row).collect()
}

fn looks(rows: &[Vec<String>]) -> Vec<String> {
    rows.iter().map(|row| row[..3].join(" ")).collect()
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

#[test]
fn activations_are_looked_at_now_and_then_where_they_are_chosen() {
    let stats = |config: Value| json!({"hook": "activation-stats", "config": config});
    let (place, finished) = run(tiny(), json!([stats(json!({"every": 2})), "recorder"]));
    finished.expect(0, &[]);
    let found = rows(&place);
    let expected = [
        "0 2 fc1", "0 2 act1", "0 2 fc2", "1 4 fc1", "1 4 act1", "1 4 fc2", "1 6 fc1", "1 6 act1",
        "1 6 fc2",
    ];
    assert_eq!(looks(&found), expected);
    for row in &found {
        let [mean, std, least, most, zeros, dead] =
            [4, 5, 6, 7, 8, 9].map(|column| number(&row[column]));
        assert!(
            least <= mean && mean <= most && std <= most - least && std > 0.0,
            "{row:?}"
        );
        assert!(dead <= zeros, "{row:?}");
        if row[2] == "act1" {
            assert!(least == 0.0 && zeros > 0.0, "a relu's: {row:?}");
        } else {
            assert!(zeros == 0.0, "{row:?}");
        }
    }
    // The mean of a relu's output is that of its input's positive part: there is both in a row's
    // metrics, which the recorder saw at the end of the iteration.
    let records = place.records("record.jsonl");
    let call = (records.iter())
        .find(|call| call["point"] == "after_iter" && call["iteration"] == 2)
        .expect("a call");
    let metrics: Vec<(String, f64)> =
        serde_json::from_value(call["metrics"].clone()).expect("pairs");
    let metric = |name: &str| {
        let found = metrics.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no {name}: {metrics:?}")).1
    };
    assert!((metric("activation/act1/mean") - number(&found[1][4])).abs() < 1e-12);
    assert!((metric("activation/fc2/std") - number(&found[2][5])).abs() < 1e-12);
    assert!((metric("dead_units") - number(&found[1][9])).abs() < 1e-12);

    let config =
        json!({"every": 3, "modules": ["fc*", "act1"], "ignore": ["*1"], "publish": false});
    let (place, finished) = run(tiny(), json!([stats(config), "recorder"]));
    finished.expect(0, &[]);
    assert_eq!(looks(&rows(&place)), ["0 3 fc2", "1 6 fc2"]);
    assert!(!place.read("out/record.jsonl").contains("dead_units"));
    let (place, finished) = run(tiny(), json!([stats(json!({"file": null, "every": 1}))]));
    finished.expect(0, &[]);
    assert!(!place.path("out/activations.csv").exists());
}

#[test]
fn dead_units_are_warned_of_once() {
    let stats = |config: Value| json!([{"hook": "activation-stats", "config": config}]);
    // All numbers are zero to this threshold.
    let config = json!({"every": 1, "threshold": 1e9, "modules": ["act1"]});
    let (place, finished) = run(tiny(), stats(config));
    let finished = finished.expect(0, &[]);
    let text = format!("{}{}", finished.stdout, finished.stderr);
    assert_eq!(
        text.matches("the units of `act1` (relu) 100 % are dead in iteration 1")
            .count(),
        1
    );
    let all = rows(&place);
    assert_eq!(all.len(), 6, "one for each iteration");
    assert!(
        all.iter()
            .all(|row| number(&row[8]) >= 1.0 && number(&row[9]) >= 1.0)
    );
    let config = json!({"every": 1, "threshold": 1e9, "warn_above": null});
    let (_, finished) = run(tiny(), stats(config));
    let finished = finished.expect(0, &[]);
    assert!(!format!("{}{}", finished.stdout, finished.stderr).contains("are dead"));
}

#[test]
fn a_resumed_run_has_every_row_once() {
    let stats = json!({"hook": "activation-stats", "config": {"every": 1}});
    let (whole, finished) = run(tiny(), json!([stats]));
    finished.expect(0, &[]);
    let save = json!({"hook": "checkpoint", "config": {"epochs": 1}});
    // An illegal request in the fifth iteration ends the run.
    let fail = json!({"hook": "asker", "config": {"at": "before_update", "what": "scale_loss",
        "after_iteration": 4}});
    let place = Workplace::new(PLUGINS);
    place
        .run(&edit(tiny(), "/hooks", json!([stats, save, fail])))
        .expect(4, &[]);
    place.write(&edit(tiny(), "/hooks", json!([stats, save])));
    place
        .sconce(&["run", "manifest.json", "--resume", "--allow-changes"])
        .expect(0, &[]);
    let file = "out/activations.csv";
    assert_eq!(place.read(file), whole.read(file));
}

#[test]
fn wrong_configurations_are_refused() {
    for (name, config, words) in [
        ("model-complexity", json!({"depth": 1}), "max_depth"),
        ("model-complexity", json!({"max_depth": -1}), "max_depth"),
        (
            "model-complexity",
            json!({"csv": "../x"}),
            "`csv` must be relative",
        ),
        ("activation-stats", json!({"every": 0}), "every"),
        ("activation-stats", json!({"warn_above": 2}), "warn_above"),
        ("activation-stats", json!({"threshold": -1}), "threshold"),
        (
            "activation-stats",
            json!({"ignore": ["a["]}),
            "`ignore` has no name pattern: `a[`",
        ),
        (
            "activation-stats",
            json!({"modules": ["fx*"]}),
            "`modules` has `fx*`",
        ),
    ] {
        let (_, finished) = run(tiny(), json!([{"hook": name, "config": config}]));
        finished.expect_refused(words);
    }
}
