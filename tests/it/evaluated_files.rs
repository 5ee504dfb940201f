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

/// Of a run, of its model alone and of its checkpoints, which share one file of rows; the file is named, or found by the
/// manifest.
#[test]
fn a_table_that_has_grown_has_the_same_parts_with_every_checkpoint() {
    let place = on_table(serde_json::from_str(NUMBERS).expect("JSON"));
    let checkpoint = "out/checkpoints/epoch-1";
    let arguments = |more: &[&'static str]| [&["--phase", "val"], more].concat();
    let of_run = [&["out"], &arguments(&[])[..]].concat();
    let of_checkpoint = [&["out"], &arguments(&["--checkpoint", checkpoint])[..]].concat();
    let measured = |arguments: &[&str], words: &[&str]| {
        let measured = eval(&place, arguments).expect(0, words);
        assert!(measured.stdout.contains("val/loss"), "{}", measured.stdout);
        measured.stdout
    };
    let expected = [&of_run, &of_checkpoint].map(|of| measured(of, &[]));
    assert_ne!(expected[0], expected[1], "the weights are others");
    // Unchanged, it is recognised.
    let same = [&["out/model"], &arguments(&["--input", "training.csv"])[..]].concat();
    let words = ["`training.csv` is `training.csv` of the training, unchanged (b3:"];
    assert_eq!(measured(&same, &words), expected[0]);

    let grown = rows(0..60);
    place.write_text("training.csv", &table(&grown));
    let words = [
        "`training.csv` is not as it was in the training: of its rows, those of `val` are evaluated",
        "is not a file that the training read",
        "rows that are in no part: 20",
    ];
    let words =
        words.map(|words| words.replace("`training.csv` is not as", "training.csv` is not as"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    for (of, expected) in [&of_run, &of_checkpoint].iter().zip(&expected) {
        assert_eq!(&measured(of, &words), expected);
    }
    let named = ["--phase", "val", "--input", "training.csv"];
    for (of, expected) in [("out/model", &expected[0]), (checkpoint, &expected[1])] {
        let of = [&[of], &named[..]].concat();
        assert_eq!(&measured(&of, &words[1..]), expected);
    }
    let new = eval(&place, &["out", "--phase", "new"]).expect(0, &["those of `new`"]);
    assert!(new.stdout.contains("new/loss"), "{}", new.stdout);

    // One file of rows for all checkpoints, which a run from one of them brings along.
    let shared = |directory: &str| -> Vec<String> {
        let entries = fs::read_dir(place.path(directory)).expect("a directory");
        let files = entries.map(|entry| entry.expect("an entry").file_name());
        let files = files.map(|file| file.into_string().expect("text"));
        files.filter(|name| name.starts_with(".rows-")).collect()
    };
    let [name] = &shared("out/checkpoints")[..] else {
        panic!("one file");
    };
    let brought = [
        "run",
        "manifest.json",
        "--allow-changes",
        "--resume",
        checkpoint,
        "--output",
        "other",
    ];
    place.sconce(&brought).expect(0, &[]);
    assert!(shared("other/checkpoints").contains(name));
    let brought = [&["other/checkpoints/epoch-1"], &named[..]].concat();
    assert_eq!(measured(&brought, &[]), expected[1]);

    // Damaged, of other data, and gone.
    let file = place.path("out/checkpoints").join(name);
    let whole = fs::read(&file).expect("a file");
    let alone = [&[checkpoint], &named[..]].concat();
    let mut other = whole.clone();
    *other.last_mut().expect("a byte") ^= 1;
    for damaged in [&whole[..whole.len() / 2], &other, &[0xff; 64], b""] {
        fs::write(&file, damaged).expect("written");
        eval(&place, &alone).expect(2, &["`rows.safetensors` is damaged"]);
    }
    fs::remove_file(&file).expect("removed");
    eval(&place, &alone).expect(2, &["doesn't know which rows", ".rows-"]);
    // A changed row is not one that was trained on.
    place.write_text("training.csv", &table(&grown).replacen(".5,", ".75,", 30));
    eval(&place, &of_run).expect(2, &["not those that the model was trained on"]);
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
    eval(&place, &phase).expect(2, &["class weights that follow"]);
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

/// Trains on data with a test part of their own, takes the training data and the plugins away, and evaluates the test part by
/// the model alone: the metrics are those of the run.
fn assert_alike(place: &Workplace, data: Value, model: Value, input: &[&str]) {
    let manifest = edit(edit(tiny(), "/data", data), "/hooks", json!([]));
    let manifest = edit(manifest, "/model", model);
    let is_classes = input.iter().all(|argument| !argument.contains("numbers"));
    let (loss, metrics) = if is_classes {
        ("cross-entropy", json!(["accuracy"]))
    } else {
        ("mse", json!(["mae"]))
    };
    let manifest = edit(manifest, "/loss", json!({"kind": loss}));
    place
        .run(&edit(manifest, "/metrics", metrics))
        .expect(0, &[]);
    let expected = eval(place, &["out", "--phase", "test"])
        .expect(0, &[])
        .stdout;
    assert!(expected.contains("test/loss"), "{expected}");
    fs::remove_dir_all(place.path("training")).expect("removed");
    fs::remove_dir_all(place.path("plugins")).expect("removed");
    let found = eval(place, &[&["out/model", "--input"], input].concat()).expect(0, &[]);
    assert_eq!(found.stdout, expected.replace("test/", "input/"));
}

#[test]
fn images_in_folders_named_after_classes_are_evaluated() {
    let place = Workplace::new(&[]);
    let image = |name: &str, grey: usize| {
        let path = place.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(
            path,
            format!("P2 4 4 255 {}", format!("{grey} ").repeat(16)),
        )
        .expect("written");
    };
    for index in 0..8 {
        image(&format!("training/cat/{index}.pgm"), index * 5);
        image(&format!("training/dog/{index}.pgm"), 150 + index * 5);
    }
    for index in 0..3 {
        image(&format!("more/dog/{index}.pgm"), index * 80);
    }
    image("more/cat/0.pgm", 20);
    let data = json!({"kind": "image-folder", "directory": "training", "mode": "grey", "val": {"count": 4}, "test": {"file": "more"}});
    assert_alike(
        &place,
        data,
        json!({"kind": "mlp", "hidden": [4]}),
        &["more"],
    );
    let twice = eval(
        &place,
        &["out/model", "--input", "more", "--targets", "more"],
    );
    twice.expect(
        2,
        &["`more` has the targets of its samples in it: leave `--targets` out"],
    );
    image("more/dgo/0.pgm", 9);
    eval(&place, &["out/model", "--input", "more"]).expect(2, &["dgo", "dog"]);
}

#[test]
fn images_of_an_idx_file_are_evaluated_with_the_file_of_their_labels() {
    let place = Workplace::new(&[]);
    let file = |name: &str, dimensions: &[u32], bytes: &mut dyn Iterator<Item = u8>| {
        let path = place.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        let mut file = vec![0, 0, 8, dimensions.len() as u8];
        file.extend(dimensions.iter().flat_map(|side| side.to_be_bytes()));
        file.extend(bytes);
        fs::write(path, file).expect("written");
    };
    for (part, count) in [("training", 20), ("more", 6)] {
        let pixels = &mut (0..count * 9).map(|index| (index * 7 % 251) as u8);
        file(&format!("{part}/x"), &[count, 3, 3], pixels);
        file(
            &format!("{part}/y"),
            &[count],
            &mut (0..count).map(|index| (index % 3) as u8),
        );
    }
    let data = json!({"kind": "idx", "images": "training/x", "labels": "training/y", "classes": ["a", "b", "c"],
        "val": {"count": 4}, "test": {"images": "more/x", "labels": "more/y"}});
    let input = ["more/x", "--targets", "more/y"];
    assert_alike(&place, data, json!({"kind": "mlp", "hidden": [4]}), &input);
    let alone = eval(&place, &["out/model", "--input", "more/x"]);
    alone.expect(
        2,
        &[
            "without targets",
            "`--targets FILE` names the IDX file of their labels",
        ],
    );
    file("short", &[5], &mut (0..5));
    eval(
        &place,
        &["out/model", "--input", "more/x", "--targets", "short"],
    )
    .expect(2, &["short", "5"]);
}

#[test]
fn arrays_are_evaluated_with_their_targets() {
    let npy = |path: &std::path::Path, shape: &str, values: &[f32]| {
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{header:<117}\n").as_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        fs::write(path, bytes).expect("written");
    };
    let place = Workplace::new(&[]);
    let numbers: Vec<f32> = (0..60).map(|x| (x * x % 17) as f32).collect();
    npy(&place.path("training/x.npy"), "(20, 3)", &numbers);
    npy(
        &place.path("training/numbers.npy"),
        "(20, 1)",
        &numbers[..20],
    );
    npy(&place.path("more/x.npy"), "(5, 3)", &numbers[..15]);
    npy(&place.path("more/numbers.npy"), "(5, 1)", &numbers[20..25]);
    let data = json!({"kind": "npy", "inputs": "training/x.npy", "targets": "training/numbers.npy", "standardise": true,
        "target_scaling": "standard", "val": {"count": 4},
        "test": {"inputs": "more/x.npy", "targets": "more/numbers.npy"}});
    let model = json!({"kind": "mlp", "hidden": [4]});
    let input = ["more/x.npy", "--targets", "more/numbers.npy"];
    assert_alike(&place, data, model.clone(), &input);
    let alone = eval(&place, &["out/model", "--input", "more/x.npy"]);
    alone.expect(2, &["`--targets FILE` names the NumPy file of the targets"]);
    let part = eval(
        &place,
        &["out/model", "--input", "more/x.npy", "--phase", "val"],
    );
    part.expect(2, &["rows"]);

    let place = Workplace::new(&[]);
    fs::create_dir(place.path("training")).expect("made");
    let tensors = |file: &str, count: usize| {
        let device = candle_core::Device::Cpu;
        let inputs = candle_core::Tensor::from_slice(&numbers[..count * 3], (count, 3), &device);
        let targets: Vec<i64> = (0_i64..).take(count).map(|row| row % 3).collect();
        let targets = candle_core::Tensor::from_slice(&targets, count, &device);
        let named = [("x", inputs), ("y", targets)]
            .map(|(name, tensor)| (name.to_owned(), tensor.expect("a tensor")));
        let named = std::collections::HashMap::from(named);
        candle_core::safetensors::save(&named, place.path(file)).expect("written");
    };
    tensors("training/a.safetensors", 20);
    tensors("b.safetensors", 6);
    let data = json!({"kind": "safetensors", "file": "training/a.safetensors", "inputs": "x", "targets": "y",
        "val": {"count": 4}, "test": {"file": "b.safetensors"}});
    assert_alike(&place, data, model, &["b.safetensors", "--targets", "y"]);
    let wrong = eval(
        &place,
        &["out/model", "--input", "b.safetensors", "--targets", "z"],
    );
    wrong.expect(2, &["`z`"]);
}

#[test]
fn a_model_of_generated_samples_is_evaluated_on_no_file() {
    let place = Workplace::new(&[]);
    place.run(&edit(tiny(), "/hooks", json!([]))).expect(0, &[]);
    eval(&place, &["out", "--input", "x.npy"]).expect(2, &["x.npy"]);
}
