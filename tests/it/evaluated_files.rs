//! A model is evaluated on files of its own: all rows, the same rows as in the training, or those that are new.

use std::fs;

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

/// Rows of which some are equal, and with weights.
fn rows(numbers: std::ops::Range<usize>) -> String {
    let row = |row: usize| {
        let kind = ["a", "b", "c"][row % 3];
        format!("{}.5,{kind},{},{}\n", row / 2 % 7, row % 2 + 1, row % 5)
    };
    numbers.map(row).collect()
}

fn table(rows: &str) -> String {
    format!("size,kind,weight,sold\n{rows}")
}

/// A run of which all that matters to its losses and metrics differs from the defaults.
fn on_table(data: Value) -> Workplace {
    let place = Workplace::new(&["sconce-plugin-checkpoints"]);
    place.write_text("training.csv", &table(&rows(0..40)));
    let base = json!({"kind": "csv", "file": "training.csv", "target": "sold", "weight": "weight",
        "val": {"count": 8}, "test": {"count": 8}});
    let mut manifest = edit(tiny(), "/data", base);
    for (key, value) in data.as_object().expect("an object") {
        manifest = edit(manifest, &format!("/data/{key}"), value.clone());
    }
    let model = json!({"kind": "mlp", "hidden": [8], "dropout": 0.5});
    manifest = edit(manifest, "/model", model);
    if data.get("target_kind").is_some() {
        let loss = json!({"kind": "cross-entropy", "class_weights": "balanced"});
        manifest = edit(manifest, "/loss", loss);
        manifest = edit(manifest, "/metrics", json!(["accuracy", "f1"]));
    } else {
        manifest = edit(manifest, "/loss", json!({"kind": "huber", "delta": 0.3}));
    }
    manifest = edit(manifest, "/hooks", json!([{"hook": "checkpoint"}]));
    place.run(&manifest).expect(0, &[]);
    place
}

fn eval(place: &Workplace, arguments: &[&str]) -> Finished {
    place.sconce(&[&["eval"], arguments].concat())
}

const CLASSES: &str = r#"{"target_kind": "classes"}"#;
const NUMBERS: &str = r#"{"target_scaling": "standard"}"#;

#[test]
fn the_same_rows_are_found_in_a_longer_file() {
    for data in [CLASSES, NUMBERS] {
        let place = on_table(serde_json::from_str(data).expect("JSON"));
        let phases = ["train", "val", "test"];
        let before = phases.map(|phase| {
            let measured = eval(&place, &["out", "--phase", phase]).expect(0, &[]);
            assert!(
                measured.stdout.contains(&format!("{phase}/loss")),
                "{}",
                measured.stdout
            );
            measured.stdout
        });
        // Equal to earlier rows, most of them.
        place.write_text("more.csv", &table(&(rows(0..40) + &rows(40..60))));
        fs::remove_file(place.path("training.csv")).expect("removed");
        fs::remove_dir_all(place.path("plugins")).expect("removed");
        for (phase, expected) in phases.iter().zip(&before) {
            let found = eval(&place, &["out", "--input", "more.csv", "--phase", phase]);
            let found = found.expect(0, &["rows that are in no part: 20"]);
            assert_eq!(&found.stdout, expected, "{data}");
        }
        let new = eval(
            &place,
            &["out/model", "--input", "more.csv", "--phase", "new"],
        );
        let new = new.expect(0, &[]).stdout;
        place.write_text("new.csv", &table(&rows(40..60)));
        let alone = eval(&place, &["out", "--input", "new.csv"]).expect(0, &[]);
        assert_eq!(alone.stdout.replace("input/", "new/"), new);
        // In another order, too; some of them may then have other neighbours in sums.
        let mut lines: Vec<String> = rows(0..60)
            .lines()
            .map(|line| format!("{line}\n"))
            .collect();
        lines.reverse();
        place.write_text("more.csv", &table(&lines.concat()));
        eval(&place, &["out", "--input", "more.csv", "--phase", "val"]).expect(0, &[]);
    }
}

#[test]
fn rows_that_are_gone_are_an_error_unless_that_is_allowed() {
    let place = on_table(serde_json::from_str(CLASSES).expect("JSON"));
    place.write_text("less.csv", &table(&rows(20..40)));
    let arguments = ["out", "--input", "less.csv", "--phase", "train"];
    eval(&place, &arguments).expect(2, &["of the 24 rows of `train`", "--allow-changes"]);
    let more = [&arguments[..], &["--allow-changes"]].concat();
    eval(&place, &more).expect(0, &[]);
}

#[test]
fn rows_that_cannot_be_evaluated_are_left_out_or_an_error() {
    let place = on_table(serde_json::from_str(CLASSES).expect("JSON"));
    let input = |rows: &str| {
        place.write_text("input.csv", &table(rows));
        eval(&place, &["out", "--input", "input.csv"])
    };
    input("1.5,a,1,\n2.5,b,1,3\n,c,1,2\n2.5,,1,2\n").expect(
        0,
        &[
            "a row without a target is left out",
            "a row with a missing value",
        ],
    );
    place.write_text("unweighted.csv", "kind,sold,size\na,1,1.5\n");
    eval(&place, &["out", "--input", "unweighted.csv"])
        .expect(0, &["`weight` of the rows' weights"]);
    input("1.5,a,1,9\n").expect(2, &["line 2", "9"]);
    input("1.5,x,1,1\n").expect(2, &["line 2", "`x`"]);
    input("1.5,a,1,\n").expect(2, &["nothing is left"]);
    let input = ["--input", "training.csv"];
    eval(&place, &["out", "--phase", "new"]).expect(2, &["--input FILE"]);
    let of_checkpoint = [&["out/checkpoints/epoch-1"], &input[..]].concat();
    eval(&place, &of_checkpoint).expect(2, &["class weights that follow"]);
    let phase = [&of_checkpoint[..], &["--phase", "val"]].concat();
    eval(&place, &phase).expect(2, &["doesn't know which rows"]);
    let changed = [&["out"], &input[..], &["--set", "seed=2"]].concat();
    eval(&place, &changed).expect(2, &["complete in itself"]);
    let none = [&["out"], &input[..], &["--phase", "new"]].concat();
    eval(&place, &none).expect(2, &["no row of `training.csv` is new"]);
    fs::write(place.path("out/model/rows.safetensors"), [0; 64]).expect("written");
    let damaged = [&["out"], &input[..], &["--phase", "val"]].concat();
    eval(&place, &damaged).expect(2, &["rows.safetensors", "damaged"]);
    let all = eval(&place, &[&["out"], &input[..]].concat()).expect(0, &[]);
    assert!(all.stdout.contains("input/accuracy"), "{}", all.stdout);
}

#[test]
fn a_part_with_a_file_of_its_own_is_known_too() {
    let place = Workplace::new(&[]);
    place.write_text("training.csv", &table(&rows(0..30)));
    place.write_text("val.csv", &table(&rows(30..40)));
    let data = json!({"kind": "csv", "file": "training.csv", "target": "sold", "val": {"file": "val.csv"}});
    let manifest = edit(edit(tiny(), "/data", data), "/hooks", json!([]));
    let manifest = edit(manifest, "/model", json!({"kind": "mlp", "hidden": [4]}));
    place.run(&manifest).expect(0, &[]);
    let expected = eval(&place, &["out", "--phase", "val"])
        .expect(0, &[])
        .stdout;
    place.write_text("all.csv", &table(&rows(30..50)));
    let found = eval(&place, &["out", "--input", "all.csv", "--phase", "val"]);
    assert_eq!(found.expect(0, &[]).stdout, expected);
}

#[test]
fn files_without_targets_are_evaluated_through_the_manifest() {
    let place = Workplace::new(&[]);
    place.run(&edit(tiny(), "/hooks", json!([]))).expect(0, &[]);
    eval(&place, &["out", "--input", "x.npy"]).expect(2, &["x.npy"]);
}
