//! GPT-2 as `transformers` wrote it, whose head is its embedding, trained with dropout, as a whole and by adapters: the same bits after a
//! `kill -9`, and on any number of ranks.

use std::fs;
use std::os::unix::fs::symlink;

use sconce_tests::{Finished, Workplace, workspace};
use serde_json::{Value, json};

const PLUGINS: [&str; 4] = [
    "sconce-plugin-sockets",
    "sconce-plugin-csv",
    "sconce-plugin-checkpoints",
    "sconce-fixture-breaker",
];

const TABLES: [&str; 2] = ["out/train.csv", "out/val.csv"];

/// Updates of six batches, which this many ranks share; a checkpoint after each.
fn manifest(adapt: Option<&Value>, ranks: usize) -> Value {
    let mut manifest = json!({
        "name": "gpt2",
        "seed": 3,
        "output": "out",
        "threads": 1,
        "plugins": ["plugins"],
        "data": {"kind": "tokens", "files": ["tokens"], "context": 8, "val": {"fraction": 0.2}},
        "model": {"kind": "transformers", "config": "gpt2"},
        "weights": {"file": "gpt2"},
        "optimizer": {"kind": "adamw", "learning_rate": 0.01},
        "train": {"epochs": 2, "batch_size": 2, "accumulate": 6},
        "distributed": {"batches": "update", "check_every": 1, "timeout": 60.0},
        "hooks": ["csv", {"hook": "checkpoint", "config": {"iterations": 6 / ranks}}, "breaker"],
    });
    if let Some(adapt) = adapt {
        manifest["adapt"] = adapt.clone();
    }
    manifest
}

fn place() -> Workplace {
    let place = Workplace::new(&PLUGINS);
    let model = workspace().join("tests/reference/tutorials/gpt2");
    symlink(model, place.path("gpt2")).expect("a link");
    place.write_text(
        "text.txt",
        &"The film was moving. The plot was dull. ".repeat(16),
    );
    let tokenize = [
        "tokenize",
        "text.txt",
        "--tokenizer",
        "gpt2",
        "--output",
        "tokens",
    ];
    place.sconce(&tokenize).expect(0, &[]);
    place
}

fn run_on(place: &Workplace, size: usize, more: &[&str]) -> Finished {
    let size = size.to_string();
    let start = match size.as_str() {
        "1" => vec!["run", "manifest.json"],
        size => vec!["launch", "-n", size, "manifest.json"],
    };
    place.sconce(&[&start, more].concat())
}

/// Weights, adapters, and the metrics of all phases: what depends on no number of ranks.
fn results(place: &Workplace) -> (Vec<Vec<u8>>, Value) {
    let files = [
        "out/weights.safetensors",
        "out/adapter/adapter_model.safetensors",
    ];
    let there = files
        .iter()
        .map(|file| place.path(file))
        .filter(|path| path.exists());
    let files = there.map(|path| fs::read(path).expect("weights")).collect();
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    (files, record["metrics"].clone())
}

fn tables(place: &Workplace) -> [String; 2] {
    TABLES.map(|table| place.read(table))
}

fn same_after_a_kill(adapt: Option<&Value>) {
    let place = place();
    let mut alone = None;
    for size in [1, 2, 3] {
        place.write(&manifest(adapt, size));
        run_on(&place, size, &["--overwrite"]).expect(0, &[]);
        let (undisturbed, table) = (results(&place), tables(&place));
        assert_eq!(undisturbed.0.len(), 1 + usize::from(adapt.is_some()));
        let alone = alone.get_or_insert_with(|| undisturbed.clone());
        assert!(undisturbed == *alone, "{size} ranks");

        fs::remove_dir_all(place.path("out")).expect("removed");
        fs::create_dir(place.path("out")).expect("made");
        let order = json!({"at": "after_update", "iteration": 12 / size, "signal": "KILL"});
        place.write_text("out/break.json", &order.to_string());
        let killed = run_on(&place, size, &[]);
        assert_ne!(killed.code, 0, "{size} ranks: {}", killed.stderr);
        assert!(!place.path("out/weights.safetensors").exists());
        run_on(&place, size, &["--resume"]).expect(0, &["resumes from"]);
        assert!(results(&place) == *alone, "{size} ranks, after a kill");
        assert_eq!(tables(&place), table, "{size} ranks, after a kill");
    }
}

#[test]
fn tied_weights_are_the_same_after_a_kill_on_any_number_of_ranks() {
    same_after_a_kill(None);
}

#[test]
fn adapters_are_the_same_after_a_kill_on_any_number_of_ranks() {
    let adapt = json!({"kind": "lora", "rank": 2, "alpha": 4, "dropout": 0.1, "train": ["transformer.ln_f.*"]});
    same_after_a_kill(Some(&adapt));
}
