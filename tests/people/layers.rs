//! Manifests over manifests, the environment's assignments, and their places in errors.

use sconce_tests::{Workplace, tiny};
use serde_json::{Value, json};

fn place_with(layer: &Value) -> Workplace {
    let place = Workplace::new(&[]);
    place.write(&tiny());
    place.write_text("over.json", &format!("{layer:#}"));
    place
}

#[test]
fn later_ones_win_and_objects_are_merged() {
    let place = place_with(&json!({"train": {"epochs": 1}, "seed": 7}));
    let arguments = [
        "run",
        "manifest.json",
        "--layer",
        "over.json",
        "--set",
        "seed=9",
    ];
    let environment = [
        ("SCONCE_SET", "seed=8"),
        ("SCONCE_SET_RATE", "optimizer.learning_rate=0.5"),
    ];
    place.sconce_in(&arguments, &environment).expect(0, &[]);
    let manifest: Value = serde_json::from_str(&place.read("out/manifest.json")).expect("JSON");
    for (pointer, expected) in [
        ("/train/epochs", json!(1)),
        ("/train/batch_size", json!(8)),
        ("/seed", json!(9)),
        ("/optimizer/learning_rate", json!(0.5)),
    ] {
        assert_eq!(manifest.pointer(pointer), Some(&expected), "{pointer}");
    }
}

#[test]
fn a_mistake_is_reported_where_it_was_made() {
    let place = place_with(&json!({"train": {"epochs": "three"}}));
    let check = ["check", "manifest.json", "--layer", "over.json"];
    place
        .sconce(&check)
        .expect(2, &["over.json:3", "\"three\""]);
    place
        .sconce_in(
            &["check", "manifest.json"],
            &[("SCONCE_SET_E", "train.epoch=3")],
        )
        .expect(
            2,
            &["environment", "SCONCE_SET_E=train.epoch=3", "`epochs`"],
        );
    place
        .sconce_in(&["check", "manifest.json"], &[("SCONCE_SET", "epochs")])
        .expect(2, &["`SCONCE_SET=epochs`", "as `train.epochs=3`"]);
    place
        .sconce(&["check", "manifest.json", "--layer", "nowhere.json"])
        .expect(2, &["nowhere.json"]);
}
