//! Weights of classes by name and balanced are those of a list, and what is learnt is recorded.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

fn manifest(weights: Value) -> Value {
    let mut manifest = tiny();
    manifest["data"] =
        json!({"kind": "csv", "file": "birds.csv", "target": "bird", "val": {"file": "birds.csv"}});
    manifest["loss"] = json!({"kind": "cross-entropy", "class_weights": weights});
    manifest
}

/// 24 owls, 12 larks and 4 kites.
fn place() -> Workplace {
    let place = Workplace::new(&[]);
    let birds = [("owl", 24), ("lark", 12), ("kite", 4)];
    let rows = birds.iter().flat_map(|(bird, count)| {
        (0..*count).map(move |row| format!("{},{bird}", row * 7 % 11 + bird.len()))
    });
    let rows: Vec<String> = rows.collect();
    place.write_text("birds.csv", &format!("size,bird\n{}\n", rows.join("\n")));
    place
}

fn trained(weights: Value) -> (Vec<u8>, Value, String) {
    let place = place();
    let finished = place.run(&manifest(weights)).expect(0, &[]);
    let weights = std::fs::read(place.path("out/weights.safetensors")).expect("weights");
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    (weights, record, finished.stderr)
}

#[test]
fn weights_by_name_and_balanced_train_as_a_list_does() {
    // Classes are in alphabetical order; 40 / (3 · count), as scikit-learn's compute_class_weight.
    let balanced = [40.0 / 12.0, 40.0 / 36.0, 40.0 / 72.0];
    let list = trained(json!(balanced));
    assert_eq!(list.1.get("learnt"), None);
    let learnt = trained(json!("balanced"));
    assert!(learnt.0 == list.0, "the same bits");
    assert_eq!(learnt.1["metrics"], list.1["metrics"]);
    let weights = &learnt.1["learnt"]["class_weights"];
    assert_eq!(
        *weights,
        json!({"kite": balanced[0], "lark": balanced[1], "owl": balanced[2]})
    );
    let line = "class weights from the training data: kite 3.3333, lark 1.1111, owl 0.5556";
    assert!(learnt.2.contains(line), "{}", learnt.2);
    let named = trained(json!({"owl": 0.25}));
    assert!(named.0 == trained(json!([1, 1, 0.25])).0, "the same bits");
}

#[test]
fn weights_that_fit_no_class_are_errors_at_their_place() {
    for (weights, words) in [
        (
            json!({"owls": 2}),
            "no class is called `owls`; did you mean `owl`?",
        ),
        (
            json!([1, 2]),
            "must have 3 elements, one for each class; found 2",
        ),
        (json!("balancd"), "balanced"),
    ] {
        let place = place();
        place.write(&manifest(weights));
        let finished = place.sconce(&["check", "manifest.json"]);
        finished.expect(2, &[words, "at loss"]);
    }
    let place = place();
    let two = edit(manifest(json!("balanced")), "/data/file", json!("two.csv"));
    place.write_text("two.csv", "size,bird\n1,owl\n2,owl\n3,lark\n");
    place.write_text("birds.csv", "size,bird\n1,owl\n2,kite\n");
    let finished = place.run(&two);
    assert!(finished.code == 2, "{}", finished.stderr);
}

#[test]
fn balanced_sampling_is_the_same_resumed_and_needs_classes() {
    let balanced = edit(manifest(json!([1, 1, 1])), "/train/epochs", json!(3));
    let balanced = edit(balanced, "/train/sampling", json!("balanced"));
    let bits =
        |place: &Workplace| std::fs::read(place.path("out/weights.safetensors")).expect("weights");
    let whole = place();
    whole.run(&balanced).expect(0, &[]);
    let once = place();
    once.run(&edit(balanced.clone(), "/train/sampling", json!("once")))
        .expect(0, &[]);
    assert!(bits(&whole) != bits(&once), "other samples");
    let parts = Workplace::new(&["sconce-plugin-checkpoints"]);
    parts.write_text("birds.csv", &whole.read("birds.csv"));
    let keep = json!([{"hook": "checkpoint", "config": {}}]);
    let short = edit(
        edit(balanced.clone(), "/hooks", keep),
        "/train/epochs",
        json!(1),
    );
    parts.run(&short).expect(0, &[]);
    parts
        .sconce(&[
            "run",
            "manifest.json",
            "--resume",
            "--set",
            "train.epochs=3",
        ])
        .expect(0, &[]);
    assert!(bits(&parts) == bits(&whole), "resumed");
    let text = json!({"kind": "regression", "train": 20});
    whole.write(&edit(
        edit(balanced, "/data", text),
        "/loss",
        json!({"kind": "mse"}),
    ));
    whole
        .sconce(&["check", "manifest.json"])
        .expect(2, &["at train.sampling", "one class of each sample"]);
}
