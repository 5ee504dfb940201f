//! A trained model is complete in itself: its directory predicts elsewhere, whatever becomes of the training data.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use sconce_tests::{Finished, Workplace, edit, tiny, workspace};
use serde_json::{Value, json};

const CLASSES: [&str; 3] = ["Adelie", "Chinstrap", "Gentoo"];

/// A table of numbers, categories and classes.
fn table() -> String {
    let row = |row: usize| {
        let class = row % 3;
        let island = ["Biscoe", "Dream", "Torgersen"][(row / 3) % 3];
        format!("{}.5,{island},{}\n", class * 7 + row / 10, CLASSES[class])
    };
    let rows: Vec<String> = (0..30).map(row).collect();
    format!("bill,island,species\n{}", rows.concat())
}

fn trained(place: &Workplace, manifest: &Value) {
    place.run(manifest).expect(0, &[]);
}

fn on_table() -> Workplace {
    let place = Workplace::new(&["sconce-plugin-checkpoints"]);
    place.write_text("training.csv", &table());
    let manifest = edit(
        tiny(),
        "/data",
        json!({"kind": "csv", "file": "training.csv", "target": "species", "val": {"count": 6}, "test": {"count": 6}}),
    );
    let manifest = edit(manifest, "/model", json!({"kind": "mlp", "hidden": [4]}));
    let manifest = edit(
        manifest,
        "/hooks",
        json!([{"hook": "checkpoint", "config": {"keep_last": 2}}]),
    );
    trained(&place, &manifest);
    place.write_text(
        "input.csv",
        "bill,island\n0.5,Biscoe\n7.5,Dream\n15.5,Torgersen\n",
    );
    place
}

fn predict(place: &Workplace, model: &str, input: &str) -> Finished {
    place.sconce(&["predict", model, "--input", input])
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

/// Predictions of a run, which must be those of its model alone in an empty place, also once the training data are gone.
#[track_caller]
fn assert_complete(place: &Workplace, input: &str, data: &str) {
    let expected = predict(place, "out", input).expect(0, &[]).stdout;
    assert!(expected.lines().count() > 1, "{expected}");
    let other = Workplace::new(&[]);
    copy(&place.path("out/model"), &other.path("model"));
    let input_here = place.path(input);
    let input_here = input_here.to_str().expect("UTF-8");
    let alone = predict(&other, "model", input_here).expect(0, &[]);
    assert_eq!(alone.stdout, expected);
    assert_eq!(alone.stderr, "");
    let data = place.path(data);
    if data.is_dir() {
        fs::remove_dir_all(data).expect("removed");
    } else {
        fs::remove_file(data).expect("removed");
    }
    fs::remove_dir_all(place.path("plugins")).expect("removed");
    for model in ["out", "out/model"] {
        assert_eq!(predict(place, model, input).expect(0, &[]).stdout, expected);
    }
}

#[test]
fn a_table_is_predicted_without_the_training_data() {
    let place = on_table();
    assert_complete(&place, "input.csv", "training.csv");
    let last = place.read("out/run.json");
    let record: Value = serde_json::from_str(&last).expect("JSON");
    let metrics: Value = serde_json::from_str(&place.read("out/model/metrics.json")).expect("JSON");
    for key in ["kept", "metrics", "last"] {
        assert_eq!(metrics[key], record[key], "{key}");
    }
    let page = place.read("out/model/README.md");
    assert!(page.contains("| island | category | "), "{page}");
    let origin = place.read("out/model/provenance.json");
    let origin: Value = serde_json::from_str(&origin).expect("JSON");
    assert_eq!(origin["hooks"][0]["kind"], "checkpoint");
    assert_eq!(origin["data"], record["data"]);
}

/// Dates and embedded categories, of which the model learns vectors.
#[test]
fn dates_and_embedded_categories_are_predicted_without_the_training_data() {
    let place = Workplace::new(&[]);
    let row = |row: usize| {
        let (day, shop) = (row % 28 + 1, (row * 7) % 5 + 100);
        format!("{day}/{}/2024,{shop},{}\n", row % 12 + 1, row % 3)
    };
    let rows: Vec<String> = (0..60).map(row).collect();
    place.write_text("training.csv", &format!("day,shop,sold\n{}", rows.concat()));
    let data = json!({"kind": "csv", "file": "training.csv", "target": "sold", "dates": ["day"],
        "embed": ["shop"], "val": {"count": 10}, "test": {"count": 10}});
    let manifest = edit(tiny(), "/data", data);
    let model = json!({"kind": "mlp", "hidden": [4], "embedding_width": 3});
    let manifest = edit(edit(manifest, "/model", model), "/hooks", json!([]));
    place.run(&manifest).expect(0, &[]);
    let shown = place.sconce(&["summary", "manifest.json"]).expect(0, &[]);
    assert!(
        shown.stdout.contains("embed-categories"),
        "{}",
        shown.stdout
    );
    place.write_text("input.csv", "shop,day\n101,31/1/2025\n104,3/4/2024\n");
    assert_complete(&place, "input.csv", "training.csv");
    place.write_text("input.csv", "shop,day\n107,31/1/2025\n");
    predict(&place, "out", "input.csv").expect(2, &["line 2", "the category `107`"]);
    place.write_text("input.csv", "shop,day\n101,1/31/2025\n");
    predict(&place, "out", "input.csv").expect(2, &["line 2", "dates such as", "`1/31/2025`"]);
}

/// Models of each format that was ever written are read for ever, with the predictions that they had.
#[test]
fn a_model_of_an_earlier_format_predicts_as_it_did() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/model-format-1");
    let place = Workplace::new(&[]);
    copy(&fixture, &place.path("model"));
    let found = predict(&place, "model", "model/input.csv").expect(0, &[]);
    assert_eq!(found.stderr, "");
    let rows = |text: &str| -> Vec<Value> {
        let lines = text.lines();
        let row = |line| serde_json::from_str(line).expect("JSON");
        lines.map(row).collect()
    };
    let (expected, found) = (
        rows(&place.read("model/predictions.jsonl")),
        rows(&found.stdout),
    );
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected["class"], found["class"]);
        for (class, probability) in expected["probabilities"].as_object().expect("classes") {
            let found = found["probabilities"][class].as_f64().expect("a number");
            let expected = probability.as_f64().expect("a number");
            // Processors differ in the last bits of f32.
            assert!(
                (found - expected).abs() < 1e-5,
                "{class}: {found} {expected}"
            );
        }
    }
}

#[test]
fn no_prediction_moves_when_the_training_data_change() {
    let place = on_table();
    let expected = predict(&place, "out", "input.csv").expect(0, &[]).stdout;
    let of_checkpoint = predict(&place, "out/checkpoints/epoch-2", "input.csv").expect(0, &[]);
    assert_eq!(of_checkpoint.stdout, expected, "the last epoch's");
    let renamed = table().replace("Adelie", "Zadelie");
    let more = table() + &"99.5,Dream,Gentoo\n".repeat(9);
    for changed in [renamed, more, table().replace("Biscoe", "Zebra")] {
        place.write_text("training.csv", &changed);
        for model in ["out", "out/model", "out/checkpoints/epoch-2"] {
            let found = predict(&place, model, "input.csv").expect(0, &[]);
            assert_eq!(found.stdout, expected, "{model}");
        }
    }
    // A run that has not ended has its checkpoints.
    fs::remove_file(place.path("out/run.json")).expect("removed");
    fs::remove_dir_all(place.path("out/model")).expect("removed");
    let found = predict(&place, "out", "input.csv").expect(0, &["the last checkpoint"]);
    assert_eq!(found.stdout, expected);
}

#[test]
fn an_evaluation_says_if_the_data_are_others_than_the_trainings() {
    let place = on_table();
    let eval = |more: &[&str]| place.sconce(&[&["eval", "out"], more].concat());
    let expected = eval(&[]).expect(0, &[]).stdout;
    place.write_text("training.csv", &table().replace("Adelie", "Zadelie"));
    let words = [
        "not those that the model was trained on",
        "`training.csv` has changed",
    ];
    eval(&[]).expect(2, &words);
    place.sconce(&["predict", "out"]).expect(2, &words);
    eval(&["--allow-changes"]).expect(0, &words);
    // The manifest's own data, and others on purpose.
    let other = ["--set", "data.file=training.csv"];
    eval(&other).expect(0, &words);
    let manifest = ["eval", "manifest.json", "--checkpoint", "out"];
    place.sconce(&manifest).expect(0, &words);
    place.write_text("training.csv", &table());
    assert_eq!(eval(&[]).expect(0, &[]).stdout, expected);
}

#[test]
fn images_of_a_folder_are_predicted_without_the_training_data() {
    let place = Workplace::new(&[]);
    let image = |name: &str, grey: usize| {
        let path = place.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        let pixels = format!("{grey} ").repeat(16);
        fs::write(path, format!("P2 4 4 255 {pixels}")).expect("written");
    };
    for index in 0..12 {
        image(&format!("training/cat/{index}.pgm"), index * 5);
        image(&format!("training/dog/{index}.pgm"), 150 + index * 5);
    }
    for index in 0..3 {
        image(&format!("input/{index}.pgm"), index * 90);
    }
    let data = json!({"kind": "image-folder", "directory": "training", "mode": "grey", "val": {"count": 4}});
    trained(&place, &edit(tiny(), "/data", data));
    assert_complete(&place, "input", "training");
}

#[test]
fn text_is_predicted_without_the_training_data() {
    let place = Workplace::new(&[]);
    place.write_text(
        "training.txt",
        &"to be, or not to be: that is the question. ".repeat(12),
    );
    place.write_text("input.txt", "that is not the question to be");
    let manifest = edit(
        tiny(),
        "/data",
        json!({"kind": "text", "file": "training.txt", "context": 8, "val": {"fraction": 0.2}}),
    );
    let model = json!({"kind": "gpt", "width": 8, "layers": 1, "heads": 1});
    trained(&place, &edit(manifest, "/model", model));
    assert_complete(&place, "input.txt", "training.txt");
}

/// Texts of different lengths, to classify by a tokenizer of BERT's kind.
fn labelled_texts(place: &Workplace) {
    let reference = workspace().join("tests/reference/tokenizers.json");
    let reference = fs::read(reference).expect("tokenizers");
    let reference: Value = serde_json::from_slice(&reference).expect("JSON");
    let tokenizer = &reference["kinds"]["bert"]["json"];
    place.write_text("tokenizer.json", &tokenizer.to_string());
    let row = |i: usize| json!({"text": "a b c d e f"[..=(i * 2 % 12)].trim(), "label": i % 2});
    let rows: Vec<String> = (0..24).map(|i| row(i).to_string()).collect();
    place.write_text("training.jsonl", &rows.join("\n"));
}

#[test]
fn padding_of_texts_changes_no_prediction() {
    // Parameters that are as good as untrained, and the same for any length of the rows.
    let predicted = |context: usize| {
        let place = Workplace::new(&[]);
        labelled_texts(&place);
        let data = json!({"kind": "jsonl", "file": "training.jsonl", "tokenizer": "tokenizer.json", "context": context,
            "val": {"count": 6}});
        let model = json!({"kind": "sequential", "layers": [
            {"kind": "embedding", "width": 8},
            {"kind": "residual", "layers": [{"kind": "attention", "heads": 2}]},
            {"kind": "select", "at": "last"},
            {"kind": "linear"},
        ]});
        let optimizer = json!({"kind": "sgd", "learning_rate": 1e-12});
        let manifest = edit(tiny(), "/data", data);
        let manifest = edit(edit(manifest, "/model", model), "/optimizer", optimizer);
        trained(&place, &manifest);
        let lines = predict(&place, "out", "training.jsonl").expect(0, &[]);
        let line = |line: &str| -> Value { serde_json::from_str(line).expect("JSON") };
        let lines: Vec<Value> = lines.stdout.lines().map(line).collect();
        let likely = |line: &Value| line["probabilities"]["0"].as_f64().expect("a number");
        lines.iter().map(likely).collect::<Vec<f64>>()
    };
    let (short, long) = (predicted(8), predicted(12));
    assert_eq!((short.len(), long.len()), (24, 24));
    for (row, (short, long)) in short.iter().zip(&long).enumerate() {
        assert!((short - long).abs() < 1e-6, "row {row}: {short}, {long}");
    }
    let apart = (short[0] - short[1]).abs();
    assert!(apart > 1e-9, "texts are told apart");
}

/// An npy file of `f32`.
fn npy(path: &Path, shape: &str, values: &[f32]) {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let padded = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((padded.len() as u16).to_le_bytes());
    bytes.extend(padded.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    fs::write(path, bytes).expect("written");
}

#[test]
fn arrays_are_predicted_without_the_training_data() {
    let place = Workplace::new(&[]);
    fs::create_dir(place.path("training")).expect("made");
    let inputs: Vec<f32> = (0..60).map(|x| x as f32 / 7.0).collect();
    let targets: Vec<f32> = (0..20).map(|x| x as f32).collect();
    npy(&place.path("training/x.npy"), "(20, 3)", &inputs);
    npy(&place.path("training/y.npy"), "(20, 1)", &targets);
    npy(&place.path("input.npy"), "(4, 3)", &inputs[..12]);
    let data = json!({
        "kind": "npy", "inputs": "training/x.npy", "targets": "training/y.npy", "val": {"count": 4},
        "standardise": true,
    });
    let manifest = edit(tiny(), "/data", data);
    trained(
        &place,
        &edit(manifest, "/model", json!({"kind": "mlp", "hidden": [4]})),
    );
    assert_complete(&place, "input.npy", "training");
}

/// Changes a JSON file of the model, and says so in its description.
fn edit_model(place: &Workplace, name: &str, change: impl FnOnce(&mut Value)) {
    let path = place.path("out/model").join(name);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
    change(&mut value);
    fs::write(path, value.to_string()).expect("written");
}

#[test]
fn damaged_mixed_and_newer_models_are_refused() {
    let place = on_table();
    let whole = place.path("whole");
    copy(&place.path("out/model"), &whole);
    let refused = |words: &[&str]| {
        let found = predict(&place, "out/model", "input.csv").expect(2, words);
        assert_eq!(found.stdout, "");
        copy(&whole, &place.path("out/model"));
    };
    for name in ["preprocessing.json", "weights.safetensors"] {
        let path = place.path("out/model").join(name);
        let mut bytes = fs::read(&path).expect("a file");
        // What is linked to it must stay as it is.
        fs::remove_file(&path).expect("removed");
        *bytes.last_mut().expect("a byte") ^= 1;
        fs::write(&path, &bytes).expect("written");
        refused(&[name, "SHA-256", "damaged, or one of another model"]);
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
        refused(&[name, "bytes, `model.json` says"]);
        fs::remove_file(&path).expect("removed");
        refused(&[name, "can't be read"]);
    }
    // The weights of another model, whole in themselves.
    let other = on_table_of(5);
    let weights = "out/model/weights.safetensors";
    fs::remove_file(place.path(weights)).expect("removed");
    fs::copy(other.path(weights), place.path(weights)).expect("copied");
    refused(&["weights.safetensors", "of another model"]);

    edit_model(&place, "model.json", |model| {
        model["format"] = json!(9);
        model["least_reader"] = json!(9);
        model["written_by"] = json!("sconce 9\u{1b}[2J");
    });
    refused(&[
        "in format 9",
        "up to format 1",
        "use a newer build",
        r"\u{1b}",
    ]);
    edit_model(&place, "model.json", |model| model["more"] = json!(1));
    refused(&["model.json", "unknown field `more`"]);
    edit_model(&place, "model.json", |model| {
        model["files"][0]["name"] = json!("../../input.csv");
    });
    refused(&["lists no `weights.safetensors`"]);
    edit_model(&place, "model.json", |model| {
        model["facts"]["model"]["hidden"] = json!([1_u64 << 40]);
    });
    refused(&["can't be built", "fc1"]);
    edit_model(&place, "model.json", |model| {
        model["facts"]["model"]["hidden"] = json!([100_000]);
    });
    refused(&["asks for parameters of", "the weights in"]);
    edit_model(&place, "model.json", |model| {
        model["facts"]["batch_size"] = json!(0);
    });
    refused(&["`batch_size` is 0"]);
    edit_model(&place, "model.json", |model| {
        model["signature"]["outputs"] = json!(4);
    });
    refused(&["inputs and outputs are others than the preprocessing's"]);
    predict(&place, "out/model", "input.csv").expect(0, &[]);
    place
        .sconce(&["predict", "out/model"])
        .expect(2, &["give some by `--input FILE`"]);
}

/// A model of a table with a hidden layer of another width.
fn on_table_of(width: usize) -> Workplace {
    let place = Workplace::new(&[]);
    place.write_text("training.csv", &table());
    let data = json!({"kind": "csv", "file": "training.csv", "target": "species"});
    let manifest = edit(tiny(), "/data", data);
    trained(
        &place,
        &edit(
            manifest,
            "/model",
            json!({"kind": "mlp", "hidden": [width]}),
        ),
    );
    place
}

/// Predictions of rows on standard input.
fn stream(place: &Workplace, more: &[&str], rows: &str) -> Finished {
    let arguments = [&["predict", "out/model", "--input", "-"], more].concat();
    let mut command = place.command(&arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(rows.as_bytes()).expect("written");
    drop(input);
    Finished::from(child.wait_with_output().expect("it ends"))
}

#[test]
fn a_row_is_predicted_alike_beside_any_others() {
    let place = on_table();
    let row = |row: usize| format!("{}.5,{}\n", row % 21, ["Biscoe", "Dream"][row % 2]);
    let rows: Vec<String> = (0..64).map(row).collect();
    let predicted = |count: usize| {
        let text = format!("bill,island\n{}", rows[..count].concat());
        stream(&place, &[], &text).expect(0, &[]).stdout
    };
    let all = predicted(64);
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines.len(), 64);
    for count in [1, 7] {
        let some = predicted(count);
        assert_eq!(some.lines().collect::<Vec<_>>(), lines[..count], "{count}");
    }
    // The same rows as JSON, with their columns in another order.
    let objects: Vec<String> = (0..64)
        .map(|row| {
            let island = ["Biscoe", "Dream"][row % 2];
            json!({"island": island, "bill": row as f64 % 21.0 + 0.5}).to_string()
        })
        .collect();
    let of_objects = stream(&place, &[], &objects.join("\n")).expect(0, &[]);
    assert_eq!(of_objects.stdout, all);
}

#[test]
fn rows_that_do_not_fit_are_refused_or_left_out_by_line_and_column() {
    let place = on_table();
    let text = "bill,island,more\n1.5,Biscoe,x\n2.5,Torgersn,x\nmuch,Dream,x\n7.5,Dream,x\n";
    let unknown = [
        "line 3: ",
        "`island`",
        "`Torgersn`",
        "did you mean `Torgersen`?",
    ];
    let refused = stream(&place, &[], text).expect(2, &unknown);
    assert_eq!(refused.stdout.lines().count(), 1, "the row before it");
    let skipped = stream(&place, &["--on-invalid", "skip"], text).expect(
        1,
        &[
            "2 of 4 rows could not be used",
            "ignored columns that the training didn't have: `more`",
        ],
    );
    let lines: Vec<Value> = (skipped.stdout.lines())
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(
        (&lines[1]["index"], &lines[1]["line"]),
        (&json!(1), &json!(3))
    );
    assert!(
        lines[2]["error"]
            .as_str()
            .is_some_and(|error| error.contains("`bill`"))
    );
    assert!(lines[3]["class"].is_string());
    // A file too, and as a table.
    place.write_text("rows.csv", text);
    let file = [
        "predict",
        "out",
        "--input",
        "rows.csv",
        "--on-invalid",
        "skip",
    ];
    let found = place.sconce(&file).expect(1, &["2 of 4 rows"]);
    assert_eq!(found.stdout, skipped.stdout);
    let table = place.sconce(&[&file[..], &["--format", "csv"]].concat());
    let table = table.expect(1, &["a row is left out: line 3: "]);
    assert!(
        table.stdout.starts_with("index,class,probability,"),
        "{}",
        table.stdout
    );
    assert_eq!(table.stdout.lines().count(), 3);

    let strict = stream(&place, &["--strict"], text);
    strict.expect(
        2,
        &["line 1: ignored columns that the training didn't have: `more`"],
    );
    stream(&place, &["--strict"], "bill,island\n1e9,Biscoe\n")
        .expect(2, &["far from those of the training"]);
    stream(&place, &[], "bill\n1\n").expect(2, &["`island`"]);
    place
        .sconce(&[
            "predict",
            "manifest.json",
            "--checkpoint",
            "out",
            "--input",
            "-",
        ])
        .expect(2, &["complete in itself"]);
}
