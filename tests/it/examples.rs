//! The manifests in `examples/` as they are, on one thread; the longest is checked alone, and its figures
//! are in the README.

use sconce_tests::{Workplace, shared_data, workspace};
use serde_json::{Value, json};

/// An example's manifest for a workplace: with the workplace's plugins, absolute paths and output.
fn example(place: &Workplace, name: &str) -> Value {
    let directory = workspace().join("examples").join(name);
    let text = std::fs::read_to_string(directory.join("run.json")).expect("an example");
    let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
    for key in ["file", "images", "labels"] {
        if let Some(Value::String(path)) = manifest["data"].get(key) {
            let absolute = directory.join(path).canonicalize().expect("it is there");
            manifest["data"][key] = json!(absolute);
        }
    }
    manifest["plugins"] = json!([place.path("plugins")]);
    manifest["threads"] = json!(1);
    manifest["output"] = json!("out");
    manifest
}

const PLUGINS: [&str; 2] = ["sconce-plugin-console", "sconce-plugin-csv"];

#[test]
fn penguins_are_reported_apart_and_predicted_from_a_table_without_species() {
    let Some(shared) = shared_data() else {
        return;
    };
    let place = Workplace::new(&PLUGINS);
    let manifest = example(&place, "penguins");
    place.run(&manifest).expect(0, &["275 train, 69 test"]);
    let report: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let accuracy = report["metrics"]["test"]["accuracy"].as_f64();
    assert!(accuracy.is_some_and(|share| share >= 0.97), "{report}");

    let table = std::fs::read_to_string(shared.join("penguins.csv")).expect("the table");
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|row| row.split_once(','))
        .collect();
    let without: Vec<String> = rows.iter().map(|(_, rest)| format!("{rest}\n")).collect();
    place.write_text("unknown.csv", &without.concat());
    let arguments = [
        "predict",
        "manifest.json",
        "--checkpoint",
        "out/weights.safetensors",
    ];
    let predicted = place.sconce(&[&arguments[..], &["--input", "unknown.csv"]].concat());
    let predicted = predicted.expect(0, &[]).stdout;
    let right = predicted
        .lines()
        .zip(&rows[1..])
        .filter(|(line, (species, _))| {
            let line: Value = serde_json::from_str(line).expect("a JSON line");
            line["class"] == *species
        });
    assert_eq!(predicted.lines().count(), 344);
    assert!(right.count() >= 330, "{predicted}");
}

#[test]
fn lenet_learns_mnist_in_five_epochs() {
    if shared_data().is_none() {
        return;
    }
    let place = Workplace::new(&PLUGINS);
    let manifest = example(&place, "mnist-convnet");
    let finished = place.run(&manifest).expect(0, &["9000 train, 1000 val"]);
    // Within five epochs: which one is the best depends on the last bits of the products, and so on the
    // processor.
    let epochs = finished
        .stderr
        .lines()
        .filter(|line| line.contains("  val  "));
    let accuracy = epochs.filter_map(|line| {
        let (_, rest) = line.split_once("accuracy ")?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    });
    let best = accuracy.fold(0.0, f64::max);
    assert!(best >= 0.98, "{best}\n{}", finished.stderr);
}

#[test]
fn the_long_examples_pass_the_check() {
    if shared_data().is_none() {
        return;
    }
    for (name, words) in [
        ("mnist", &["9000 samples"][..]),
        (
            "shakespeare",
            &["1003855 bytes, 256 kinds", "windows of 64, every 64"],
        ),
    ] {
        let place = Workplace::new(&PLUGINS);
        place.write(&example(&place, name));
        let checked = place.sconce(&["check", "manifest.json"]).expect(0, &[]);
        for word in words {
            assert!(checked.stdout.contains(word), "{}", checked.stdout);
        }
    }
}

#[test]
fn a_grammar_is_learnt_by_a_small_gpt() {
    let place = Workplace::new(&[]);
    let manifest = json!({
        "model": {"kind": "gpt", "layers": 1, "heads": 2, "width": 16},
        "data": {"kind": "grammar", "train": 64, "val": 16, "test": 0, "context": 16},
        "optimizer": {"kind": "adamw", "learning_rate": 0.01},
        "train": {"epochs": 6, "batch_size": 8, "initial_validation": true},
        "threads": 1,
        "output": "out",
    });
    place.run(&manifest).expect(0, &["64 train, 16 val"]);
    let report: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let perplexity = report["metrics"]["val"]["perplexity"].as_f64();
    // Of 16 characters' chance it begins near the size of the vocabulary.
    assert!(perplexity.is_some_and(|value| value < 8.0), "{report}");
}

#[test]
fn wrong_tables_texts_and_arrays_are_reported_with_file_and_row() {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend([255, 255]);
    for (name, content, data, words) in [
        (
            "table.csv",
            b"a,b,y\n1,2,no\n3,4,yes\n5,six,no\n7,8,yes\n".to_vec(),
            json!({"kind": "csv", "file": "table.csv", "target": "y", "numeric": ["b"]}),
            &["table.csv", "line 4", "`b`", "six"][..],
        ),
        (
            "table.csv",
            b"a,b,y\n1,2,no\n3,4\n".to_vec(),
            json!({"kind": "csv", "file": "table.csv", "target": "y"}),
            &["table.csv", "line 3"],
        ),
        (
            "table.csv",
            b"a,b,yes\n1,2,no\n3,4,no\n".to_vec(),
            json!({"kind": "csv", "file": "table.csv", "target": "yess"}),
            &["`yess`", "`yes`"],
        ),
        (
            "text.txt",
            b"abcdefgh\nabc\xffdef\n".to_vec(),
            json!({"kind": "text", "file": "text.txt", "unit": "char", "context": 4}),
            &["text.txt", "line 2"],
        ),
        (
            "text.txt",
            b"short".to_vec(),
            json!({"kind": "text", "file": "text.txt", "context": 64}),
            &["text.txt", "64"],
        ),
        (
            "x.npy",
            bytes,
            json!({"kind": "npy", "inputs": "x.npy", "targets": "x.npy"}),
            &["x.npy", "truncated"],
        ),
    ] {
        let place = Workplace::new(&[]);
        std::fs::write(place.path(name), content).expect("written");
        let manifest = json!({
            "model": {"kind": "mlp", "hidden": [4]},
            "data": data,
            "optimizer": {"kind": "adamw", "learning_rate": 0.01},
            "train": {"epochs": 1},
            "threads": 1,
        "output": "out",
        });
        place.run(&manifest).expect(2, words);
        assert!(!place.path("out").exists(), "{name}");
    }
}
