//! Manifests for tests.

use serde_json::{Value, json};

/// A run that takes a fraction of a second: 3 batches of 8 synthetic digits per epoch, 2 epochs.
pub fn tiny() -> Value {
    json!({
        "name": "tiny",
        "seed": 1,
        "output": "out",
        "plugins": ["plugins"],
        "model": {"kind": "mlp", "hidden": [8]},
        "data": {"kind": "synthetic-digits", "train": 24, "val": 10, "test": 6},
        "optimizer": {"kind": "sgd", "learning_rate": 0.01},
        "train": {"epochs": 2, "batch_size": 8},
        "hooks": []
    })
}

/// The quickstart's run on synthetic digits.
pub fn digits() -> Value {
    let mut manifest = tiny();
    manifest["model"] = json!({"kind": "mlp", "hidden": [128]});
    manifest["data"] = json!({"kind": "synthetic-digits"});
    manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.001});
    manifest["train"] = json!({"epochs": 5, "batch_size": 64});
    manifest
}

/// Returns `manifest` with the value at a JSON pointer replaced; the parent must exist.
///
/// # Panics
///
/// If the parent does not exist.
pub fn edit(mut manifest: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer has a slash");
    let parent = manifest
        .pointer_mut(parent)
        .unwrap_or_else(|| panic!("nothing at `{parent}`"));
    match parent {
        Value::Array(items) => {
            let index: usize = key.parse().expect("an array's key is a number");
            items[index] = value;
        }
        other => other[key] = value,
    }
    manifest
}
