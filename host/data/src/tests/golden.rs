//! The bits of every kind of data: a change of these hashes changes what models are trained on.

use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::on_demand::{batch, datasets, files, in_memory, load, on_demand, write};
use crate::Dataset;

/// Manifests of tables and arrays with everything that is fitted to the training samples.
pub(crate) fn fitted() -> Vec<Value> {
    let parts = json!({"val": {"fraction": 0.2}, "test": {"count": 4}});
    let with = |mut config: Value| {
        for (key, value) in parts.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        config
    };
    vec![
        with(json!({"kind": "csv", "file": "mixed.csv", "target": "y", "stratified": true})),
        with(json!({
            "kind": "csv", "file": "mixed.csv", "target": "x", "ignore": ["y"], "on_missing": "most-frequent",
        })),
        json!({
            "kind": "csv", "file": "mixed.csv", "target": ["x", "w"], "categorical": ["v"], "standardise": false,
            "val": {"file": "mixed.csv"},
        }),
        json!({"kind": "csv", "file": "mixed.csv", "target": "y", "on_missing": "drop"}),
        with(json!({"kind": "npy", "inputs": "x.npy", "standardise": true})),
        with(json!({"kind": "idx", "images": "images", "labels": "labels", "normalise": "none"})),
        with(json!({"kind": "image-folder", "directory": "train", "size": [7, 5]})),
    ]
}

/// Files of all kinds, and a table of several kinds of columns.
pub(crate) fn mixed_files() -> TempDir {
    let directory = files();
    let rows = (0..40_i32).map(|i| {
        let c = ["red", "blue", "", "green"][(i * i % 4) as usize];
        let w = if i % 7 == 0 {
            "NA".to_owned()
        } else {
            format!("{}.5", i * i % 11)
        };
        format!(
            "{},{c},{w},{},{}\n",
            f64::from(i) / 7.0,
            i % 3,
            ["p", "q"][(i % 2) as usize]
        )
    });
    let table = format!("x,c,w,v,y\n{}", rows.collect::<String>());
    write(directory.path(), "mixed.csv", table.as_bytes());
    directory
}

/// The file that each configuration's data sets are opened with for predictions.
pub(crate) fn input(config: &Value) -> Option<&str> {
    Some(match config["kind"].as_str()? {
        "idx" => "test-images",
        "image-folder" => "own",
        "cifar" => "cifar/test.bin",
        "csv" if config["on_missing"] != "drop" => config["file"].as_str()?,
        "npy" => "x.npy",
        "text" => "own-text",
        _ => return None,
    })
}

fn add(hash: &mut Sha256, data: &dyn Dataset, epoch: u64) {
    let all: Vec<u32> = (0..data.len() as u32).collect();
    let (inputs, targets) = batch(data, &all, epoch);
    for number in inputs.into_iter().chain(targets) {
        hash.update(number.to_le_bytes());
    }
    hash.update(format!("{:?}{:?}", data.sample_shape(), data.targets()));
}

#[test]
fn all_kinds_of_data_keep_their_bits() {
    let directory = mixed_files();
    let mut found = String::new();
    for config in on_demand().into_iter().chain(in_memory()).chain(fitted()) {
        let splits = load(&config, None, directory.path());
        let mut hash = Sha256::new();
        for data in datasets(&splits) {
            add(&mut hash, data.as_ref(), 0);
            add(&mut hash, data.as_ref(), 5);
        }
        if let Some(input) = input(&config) {
            let opened = splits.preprocessing.open(&directory.path().join(input));
            add(&mut hash, opened.expect("data").samples.as_ref(), 0);
        }
        let kind = config["kind"].as_str().expect("a kind");
        let hash = &hash.finalize()[..8];
        write!(found, "{kind} ").expect("text");
        for byte in hash {
            write!(found, "{byte:02x}").expect("text");
        }
        found.push('\n');
    }
    assert_eq!(found, include_str!("golden.txt"));
}
