//! Folds: every sample is validated once, and runs of one manifest are compared by mean and deviation.

use std::collections::BTreeSet;

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

#[test]
fn each_sample_is_validated_in_one_fold_and_compare_has_mean_and_deviation() {
    let place = Workplace::new(&[]);
    let row = |row: i32| format!("{row},{}\n", ["a", "b", "c"][row as usize % 3]);
    let rows: Vec<String> = (0..30).map(row).collect();
    place.write_text("table.csv", &format!("x,y\n{}", rows.concat()));
    let data = json!({
        "kind": "csv", "file": "table.csv", "target": "y", "stratified": true, "split_seed": 3,
        "val": {"fold": 1, "folds": 3},
    });
    let manifest = edit(tiny(), "/data", data);
    place.write(&edit(
        manifest,
        "/model",
        json!({"kind": "mlp", "hidden": []}),
    ));
    let mut rows = BTreeSet::new();
    let mut losses = Vec::new();
    for fold in ["1", "2", "3"] {
        let set = format!("data.val.fold={fold}");
        // Another seed of the run is the same split.
        let seed = format!("seed={fold}");
        let output = format!("runs/{fold}");
        let run = ["run", "manifest.json", "--set", &set, "--output", &output];
        place.sconce(&run).expect(0, &[]);
        let predict = ["predict", &output, "--phase", "val", "--set", &seed];
        for line in place.sconce(&predict).expect(0, &[]).stdout.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            assert!(rows.insert(line["row"].as_u64()), "twice: {line}");
        }
        let record: Value =
            serde_json::from_str(&place.read(&format!("{output}/run.json"))).expect("JSON");
        losses.push(record["metrics"]["val"]["loss"].as_f64().expect("a loss"));
    }
    assert_eq!(rows.len(), 30);
    let compare = ["compare", "runs/1", "runs/2", "runs/3"];
    let shown = place.sconce(&compare).expect(0, &[]).stdout;
    assert!(shown.contains("folds of one manifest:"), "{shown}");
    let compared = place.sconce(&[&compare[..], &["--json"]].concat());
    let compared: Value = serde_json::from_str(&compared.expect(0, &[]).stdout).expect("JSON");
    let mean = losses.iter().sum::<f64>() / 3.0;
    let squares: f64 = losses.iter().map(|loss| (loss - mean).powi(2)).sum();
    let of = |key: &str| compared["folds"]["val/loss"][key].as_f64().expect(key);
    assert!((of("mean") - mean).abs() < 1e-12);
    assert!((of("deviation") - (squares / 2.0).sqrt()).abs() < 1e-12);
    // Runs that differ otherwise are not folds.
    let other = [
        "run",
        "manifest.json",
        "--set",
        "data.val.fold=2",
        "--set",
        "seed=9",
        "--output",
        "runs/other",
    ];
    place.sconce(&other).expect(0, &[]);
    let shown = place
        .sconce(&["compare", "runs/1", "runs/other"])
        .expect(0, &[])
        .stdout;
    assert!(!shown.contains("folds of one manifest"), "{shown}");
}
