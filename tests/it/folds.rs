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

/// 24 rows of eight patients, three rows of each.
fn patients(place: &Workplace) -> Value {
    let row = |row: i32| format!("{row},{},p{}\n", ["a", "b"][row as usize / 3 % 2], row / 3);
    let rows: Vec<String> = (0..24).map(row).collect();
    place.write_text("table.csv", &format!("x,y,patient\n{}", rows.concat()));
    let data = json!({
        "kind": "csv", "file": "table.csv", "target": "y", "group": "patient", "stratified": true,
    });
    let manifest = edit(tiny(), "/data", data);
    let model = json!({"kind": "mlp", "hidden": []});
    edit(manifest, "/model", model)
}

#[test]
fn one_command_trains_all_folds_of_groups_and_compares_them() {
    let place = Workplace::new(&[]);
    place.write(&patients(&place));
    let run = ["run", "manifest.json", "--folds", "4", "--output", "cv"];
    let shown = place.sconce(&run).expect(0, &[]).stdout;
    assert!(shown.contains("fold 4 of 4, in cv/fold-4"), "{shown}");
    assert!(shown.contains("folds of one manifest:"), "{shown}");
    let mut all = BTreeSet::new();
    for fold in 1..=4 {
        let output = format!("cv/fold-{fold}");
        let predict = ["predict", &output, "--phase", "val"];
        let lines = place.sconce(&predict).expect(0, &[]).stdout;
        let rows: Vec<u64> = (lines.lines())
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
            .map(|line| line["row"].as_u64().expect("a row"))
            .collect();
        // Whole patients, one of each class.
        assert_eq!(rows.len(), 6);
        assert!(
            rows.chunks(3).all(|rows| rows[0] / 3 == rows[2] / 3),
            "{rows:?}"
        );
        assert_ne!(rows[0] / 3 % 2, rows[3] / 3 % 2, "{rows:?}");
        all.extend(rows);
    }
    assert_eq!(all.len(), 24);
    // What has ended isn't trained again, what is missing is.
    let before = place.read("cv/fold-1/run.json");
    std::fs::remove_dir_all(place.path("cv/fold-3")).expect("removed");
    let again = place.sconce(&[&run[..], &["--resume"]].concat());
    let shown = again.expect(0, &[]).stdout;
    assert!(
        shown.contains("fold 1 of 4, in cv/fold-1: has ended"),
        "{shown}"
    );
    assert!(!shown.contains("fold-3: has ended"), "{shown}");
    assert_eq!(place.read("cv/fold-1/run.json"), before);
    assert!(!place.read("cv/fold-3/run.json").is_empty());
    // Folds of different manifests are not one series.
    let changed = place.sconce(&[&run[..], &["--resume", "--set", "train.epochs=3"]].concat());
    changed.expect(2, &["`cv/fold-1` has ended, and was of another manifest"]);
}

#[test]
fn folds_that_can_not_be_are_refused() {
    let place = Workplace::new(&[]);
    place.write(&patients(&place));
    let run = |more: &[&str]| place.sconce(&[&["run", "manifest.json"], more].concat());
    run(&["--folds", "1"]).expect(2, &["at least 2"]);
    run(&["--folds", "3", "--fold", "4"]).expect(2, &["from 1 to 3"]);
    run(&["--folds", "2", "--resume", "epoch-1"]).expect(2, &["takes no checkpoint"]);
    let ended = run(&["--folds", "9"]).expect(2, &["8 groups", "9 folds"]);
    assert!(
        ended.stdout.contains("go on with fold 1 of 9"),
        "{}",
        ended.stdout
    );
    let set = r#"data.val={"fraction": 0.2}"#;
    run(&["--set", set]).expect(2, &["`data.stratified` with `data.group` is for folds"]);
    run(&["--set", "data.group=y", "--folds", "2"]).expect(2, &["`data.target`"]);
    place.write_text("table.csv", "x,y,patient\n1,a,p\n2,b,\n3,a,q\n");
    run(&["--folds", "2"]).expect(2, &["line 3", "`patient`"]);
}
