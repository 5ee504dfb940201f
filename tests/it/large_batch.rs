//! An update of several batches has the gradient of one large batch, whatever the loss counts: accumulated, on ranks, with
//! an uneven last batch, and resumed in the middle.

use std::collections::BTreeMap;

use sconce_tests::{Workplace, edit, tiny, workspace};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &["sconce-plugin-sockets", "sconce-fixture-faults"];

/// 50 samples: an update of six batches of 8 and one of 2, or of one of 50.
const SMALL: (usize, usize) = (8, 7);
const LARGE: (usize, usize) = (50, 1);

/// A run of two updates by SGD, of `accumulate` batches of `batch_size` samples each.
fn manifest(data: &Value, model: &Value, loss: &Value, batches: (usize, usize)) -> Value {
    let mut manifest = tiny();
    manifest["threads"] = json!(1);
    manifest["data"] = data.clone();
    manifest["model"] = model.clone();
    manifest["loss"] = loss.clone();
    manifest["optimizer"] = json!({"kind": "sgd", "learning_rate": 1.0});
    manifest["train"] = json!({"epochs": 2, "batch_size": batches.0, "accumulate": batches.1});
    manifest["distributed"] = json!({"batches": "update"});
    manifest
}

/// Tables and texts that manifests name.
fn place() -> Workplace {
    let place = Workplace::new(PLUGINS);
    let row = |i: usize| format!("{},{},{},{}", i % 7, i % 5, i % 3 % 2, i % 11 % 2);
    let rows: Vec<String> = (0..50).map(row).collect();
    place.write_text("binary.csv", &format!("a,b,y,z\n{}\n", rows.join("\n")));
    let row = |i: usize| format!("{},{},{},{}", i % 7, i % 5, i % 3 % 2, i % 4 * i % 3);
    let rows: Vec<String> = (0..50).map(row).collect();
    place.write_text("weighted.csv", &format!("a,b,y,w\n{}\n", rows.join("\n")));
    let text = "a text with some words, and with spaces of uneven number per window. ";
    place.write_text("text.txt", &text.repeat(7)[..=50 * 8]);
    let reference = workspace().join("tests/reference/tokenizers.json");
    let reference = std::fs::read(reference).expect("tokenizers");
    let reference: Value = serde_json::from_slice(&reference).expect("JSON");
    place.write_text(
        "tokenizer.json",
        &reference["kinds"]["gpt2"]["json"].to_string(),
    );
    // Of some rows a single token is learnt, of others seven.
    let row =
        |i: usize| json!({"prompt": "a".repeat(i % 7), "completion": "b c".repeat(i % 5 / 3)});
    let rows: Vec<String> = (0..50).map(|i| row(i).to_string()).collect();
    place.write_text("rows.jsonl", &rows.join("\n"));
    place
}

/// Trained parameters, as bits, and the metrics of the run.
type Results = (BTreeMap<String, Vec<u32>>, Value);

fn results(place: &Workplace) -> Results {
    let bytes = std::fs::read(place.path("out/weights.safetensors")).expect("weights");
    let file = safetensors::SafeTensors::deserialize(&bytes).expect("weights");
    let bits = |data: &[u8]| {
        let numbers = data.as_chunks::<4>().0.iter();
        numbers.map(|four| u32::from_le_bytes(*four)).collect()
    };
    let tensors = file.tensors().into_iter();
    let tensors = tensors.map(|(name, view)| (name, bits(view.data())));
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    (tensors.collect(), record["metrics"].clone())
}

fn trained_on(manifest: &Value, ranks: usize) -> Results {
    let place = place();
    place.write(manifest);
    let ranks = ranks.to_string();
    let finished = match ranks.as_str() {
        "1" => place.sconce(&["run", "manifest.json"]),
        ranks => place.sconce(&["launch", "-n", ranks, "manifest.json"]),
    };
    finished.expect(0, &[]);
    results(&place)
}

/// The largest difference of two parameters' elements.
fn difference(left: &Results, right: &Results) -> f32 {
    let numbers = |results: &Results| -> Vec<f32> {
        let all = results.0.values().flatten();
        all.map(|&bits| f32::from_bits(bits)).collect()
    };
    let (left, right) = (numbers(left), numbers(right));
    assert_eq!(left.len(), right.len());
    let pairs = left.iter().zip(&right);
    pairs.fold(0.0, |most, (left, right)| (left - right).abs().max(most))
}

fn digits() -> (Value, Value) {
    (
        json!({"kind": "synthetic-digits", "train": 50, "val": 20, "test": 0, "size": 16}),
        json!({"kind": "mlp", "hidden": [6]}),
    )
}

/// Rows of which few tokens are learnt, and a model of them.
fn rows() -> (Value, Value) {
    (
        json!({"kind": "jsonl", "file": "rows.jsonl", "tokenizer": "tokenizer.json", "context": 8,
               "val": {"file": "rows.jsonl"}}),
        json!({"kind": "gpt", "layers": 1, "heads": 2, "width": 8}),
    )
}

/// The same, several in a sample.
fn packed_rows() -> (Value, Value) {
    let (rows, gpt) = rows();
    (edit(rows, "/packing", json!(true)), gpt)
}

/// A table whose rows have weights, some of them 0.
fn weighted_rows(kind: &str) -> Value {
    json!({"kind": "csv", "file": "weighted.csv", "target": "y", "target_kind": kind, "weight": "w",
           "val": {"file": "weighted.csv"}})
}

fn weighted() -> Value {
    json!({"kind": "cross-entropy", "class_weights": [1, 10, 100, 1, 10, 100, 1, 10, 100, 0]})
}

#[test]
fn batches_of_an_update_have_the_gradient_of_one_large_batch() {
    let (digits, mlp) = digits();
    let table = json!({"kind": "csv", "file": "binary.csv", "target": ["y", "z"], "val": {"file": "binary.csv"}});
    let text =
        json!({"kind": "text", "file": "text.txt", "context": 8, "val": {"file": "text.txt"}});
    let (rows, gpt) = rows();
    for (data, model, loss) in [
        (&digits, &mlp, json!({"kind": "cross-entropy"})),
        (
            &digits,
            &mlp,
            json!({"kind": "cross-entropy", "label_smoothing": 0.2}),
        ),
        (&digits, &mlp, weighted()),
        (
            &digits,
            &mlp,
            json!({"kind": "cross-entropy", "ignore_index": 3}),
        ),
        (
            &digits,
            &mlp,
            json!({"kind": "cross-entropy", "label_smoothing": 0.1, "ignore_index": 3,
                   "class_weights": [1, 10, 100, 1, 10, 100, 1, 10, 100, 0]}),
        ),
        (
            &table,
            &mlp,
            json!({"kind": "binary-cross-entropy", "pos_weight": [5, 0.5]}),
        ),
        (&table, &mlp, json!({"kind": "huber"})),
        (&weighted_rows("numbers"), &mlp, json!({"kind": "l1"})),
        (
            &weighted_rows("classes"),
            &mlp,
            json!({"kind": "cross-entropy", "class_weights": [1, 5]}),
        ),
        (&text, &gpt, json!({"kind": "cross-entropy"})),
        // Spaces are ignored: windows have unequal numbers of targets.
        (
            &text,
            &gpt,
            json!({"kind": "cross-entropy", "ignore_index": 32}),
        ),
        (&rows, &gpt, json!({"kind": "cross-entropy"})),
    ] {
        let large = trained_on(&manifest(data, model, &loss, LARGE), 1);
        let small = trained_on(&manifest(data, model, &loss, SMALL), 1);
        let found = difference(&large, &small);
        assert!(found < 2e-6, "{found} of {loss}");
        let loss_of = |results: &Results| results.1["val"]["loss"].as_f64().expect("a loss");
        let apart = (loss_of(&large) - loss_of(&small)).abs();
        assert!(apart < 1e-5 * loss_of(&large).max(1.0), "{apart} of {loss}");
    }
}

#[test]
fn packed_rows_have_the_gradient_of_rows_apart() {
    let plain = json!({"kind": "cross-entropy"});
    let (rows, gpt) = rows();
    let (packed, _) = packed_rows();
    let apart = trained_on(&manifest(&rows, &gpt, &plain, LARGE), 1);
    for batches in [LARGE, SMALL] {
        let packed = trained_on(&manifest(&packed, &gpt, &plain, batches), 1);
        let found = difference(&apart, &packed);
        assert!(found < 1e-6, "{found} in {batches:?}");
        let loss_of = |results: &Results| results.1["val"]["loss"].as_f64().expect("a loss");
        let found = (loss_of(&apart) - loss_of(&packed)).abs();
        assert!(found < 1e-6, "{found} in {batches:?}");
    }
}

#[test]
fn weighted_batches_have_the_same_bits_on_any_number_of_ranks() {
    let (digits, mlp) = digits();
    let manifest = manifest(&digits, &mlp, &weighted(), SMALL);
    let alone = trained_on(&manifest, 1);
    for ranks in [2, 3] {
        assert!(trained_on(&manifest, ranks) == alone, "{ranks} ranks");
    }
    let rows = self::manifest(
        &weighted_rows("numbers"),
        &mlp,
        &json!({"kind": "mse"}),
        SMALL,
    );
    assert!(
        trained_on(&rows, 3) == trained_on(&rows, 1),
        "weighted rows"
    );
    let (packed, gpt) = packed_rows();
    let packed = self::manifest(&packed, &gpt, &json!({"kind": "cross-entropy"}), (3, 2));
    let alone = trained_on(&packed, 1);
    for ranks in [2, 3] {
        assert!(trained_on(&packed, ranks) == alone, "packed, {ranks} ranks");
    }
    // Fewer batches than ranks, and a batch alone in its update.
    let manifest = edit(manifest, "/train/accumulate", json!(2));
    let alone = trained_on(&manifest, 1);
    assert!(trained_on(&manifest, 3) == alone, "updates of two batches");
}

#[test]
fn a_weighted_update_resumes_in_its_middle_with_the_same_bits() {
    let (digits, mlp) = digits();
    resumes_with_the_same_bits(&manifest(&digits, &mlp, &weighted(), SMALL));
}

#[test]
fn packed_rows_resume_in_the_middle_of_an_update_with_the_same_bits() {
    let (packed, gpt) = packed_rows();
    let loss = json!({"kind": "cross-entropy"});
    resumes_with_the_same_bits(&manifest(&packed, &gpt, &loss, (2, 3)));
}

/// Stops a run after its tenth iteration, within an update of its second epoch, and lets it go on.
fn resumes_with_the_same_bits(manifest: &Value) {
    let expected = trained_on(manifest, 1);
    let asker = |what: &str, text: &str| {
        json!({"hook": "asker", "config":
            {"at": "after_iter", "phase": "train", "what": what, "text": text, "after_iteration": 10, "once": true}})
    };
    let hooks = json!([asker("save_checkpoint", "here"), asker("stop", "enough")]);
    for ranks in ["1", "2"] {
        let place = place();
        place
            .run(&edit(manifest.clone(), "/hooks", hooks.clone()))
            .expect(0, &[]);
        place.write(manifest);
        let resume = ["--resume", "here", "--allow-changes"];
        let run: &[&str] = match ranks {
            "1" => &["run", "manifest.json"],
            ranks => &["launch", "-n", ranks, "manifest.json"],
        };
        place
            .sconce(&[run, &resume].concat())
            .expect(0, &["resumes from"]);
        assert!(results(&place) == expected, "on {ranks} ranks");
    }
}

#[test]
fn updates_of_which_nothing_counts_leave_parameters_finite() {
    let place = place();
    let rows: Vec<String> = (0..50).map(|i| format!("{i},no")).collect();
    place.write_text(
        "mostly.csv",
        &format!("a,y\n{}\n50,yes\n51,maybe\n", rows.join("\n")),
    );
    let table = json!({"kind": "csv", "file": "mostly.csv", "target": "y"});
    let loss = json!({"kind": "cross-entropy", "ignore_index": 1});
    let (_, mlp) = digits();
    let manifest = manifest(&table, &mlp, &loss, (1, 2));
    let finished = place.run(&manifest).expect(0, &[]);
    assert!(
        finished.stdout.contains("52 updates"),
        "{}",
        finished.stdout
    );
    for bits in results(&place).0.values().flatten() {
        assert!(f32::from_bits(*bits).is_finite());
    }
}
