//! Runs that train adapters beside a pretrained model: their checkpoints, their results, and the same bits after an interruption.

use std::fs;

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// A run with adapters on the weights of `base`, which saves a checkpoint after each epoch.
fn adapted(epochs: u64) -> Value {
    let mut manifest = edit(tiny(), "/train/epochs", json!(epochs));
    manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.01});
    manifest["weights"] = json!({"file": "base/weights.safetensors"});
    manifest["adapt"] = json!({"kind": "lora", "rank": 2, "alpha": 4, "dropout": 0.1, "modules": ["fc1"], "train": ["fc2.bias"]});
    manifest["hooks"] = json!([{"hook": "checkpoint", "config": {"epochs": 1}}]);
    manifest
}

fn place() -> Workplace {
    let place = Workplace::new(&["sconce-plugin-checkpoints"]);
    place
        .run(&edit(tiny(), "/output", json!("base")))
        .expect(0, &[]);
    place
}

fn bytes(place: &Workplace, file: &str) -> Vec<u8> {
    fs::read(place.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

const RESULTS: [&str; 3] = [
    "out/weights.safetensors",
    "out/adapter/adapter_model.safetensors",
    "out/adapter/adapter_config.json",
];

#[test]
fn a_run_with_adapters_is_the_same_after_an_interruption() {
    let place = place();
    place.run(&adapted(4)).expect(0, &["4 loaded"]);
    let whole = RESULTS.map(|file| bytes(&place, file));
    let saved = place.checkpoint("latest");
    let names: Vec<&str> = saved.keys().map(String::as_str).collect();
    let of_base = ["fc1.weight", "fc1.bias", "fc2.weight"];
    for name in of_base {
        assert!(
            !names
                .iter()
                .any(|saved| saved.ends_with(name) && !saved.contains("lora")),
            "{names:?}"
        );
    }
    fs::remove_dir_all(place.path("out")).expect("removed");
    place.run(&adapted(2)).expect(0, &[]);
    place.write(&adapted(4));
    place
        .sconce(&["run", "manifest.json", "--resume"])
        .expect(0, &[]);
    assert!(
        whole == RESULTS.map(|file| bytes(&place, file)),
        "other bits"
    );

    // The base is another one.
    place
        .run(&edit(
            edit(tiny(), "/output", json!("base")),
            "/seed",
            json!(2),
        ))
        .expect(0, &[]);
    place.write(&adapted(5));
    place.sconce(&["run", "manifest.json", "--resume"]).expect(
        2,
        &["its adapters were trained beside other weights than those that `weights` names now"],
    );
}

#[test]
fn adapters_are_merged_and_used() {
    let place = place();
    place.run(&adapted(2)).expect(0, &[]);
    let own = place
        .sconce(&["eval", "out", "--json"])
        .expect(0, &[])
        .stdout;
    let merged = ["merge", "out", "--output", "merged"];
    let said = place.sconce(&merged).expect(0, &[]).stdout;
    assert!(said.contains("1 weights of"), "{said}");
    assert!(said.contains("merged/model.safetensors"), "{said}");
    // The same model, described without adapters.
    place.write(&tiny());
    let eval = [
        "eval",
        "manifest.json",
        "--checkpoint",
        "merged/model.safetensors",
        "--json",
    ];
    let other = place.sconce(&eval).expect(0, &[]).stdout;
    let loss = |text: &str| -> f64 {
        let value: Value = serde_json::from_str(text).expect("JSON");
        value["metrics"]["loss"].as_f64().expect("a loss")
    };
    assert!((loss(&own) - loss(&other)).abs() < 1e-6, "{own} {other}");
    place
        .sconce(&["eval", "out/checkpoints/latest"])
        .expect(2, &["has adapters, and not the model"]);
    place
        .sconce(&["merge", "base", "--output", "merged"])
        .expect(2, &["adapter_config.json"]);
    let alone = ["merge", "out/adapter", "--output", "alone"];
    place.sconce(&alone).expect(2, &["`--base PATH` names it"]);
    let with_base = [
        "merge",
        "out/adapter",
        "--base",
        "base/weights.safetensors",
        "--output",
        "alone",
    ];
    place.sconce(&with_base).expect(0, &[]);
    assert_eq!(
        bytes(&place, "alone/model.safetensors"),
        bytes(&place, "merged/model.safetensors")
    );
}

#[test]
fn a_head_that_the_base_lacks_is_trained_whole() {
    let place = place();
    let mut manifest = adapted(1);
    manifest["weights"] =
        json!({"file": "base/weights.safetensors", "strict": false, "rename": {"fc2.": "old."}});
    manifest["adapt"]["train"] = json!([]);
    place
        .run(&manifest)
        .expect(0, &["2 loaded", "2 new", "`fc2.weight`"]);
    let saved = place.checkpoint("latest");
    assert!(saved.keys().any(|name| name.ends_with("fc2.weight")));
    assert!(!saved.keys().any(|name| name.ends_with("fc1.weight")));
    let config = place.read("out/adapter/adapter_config.json");
    let config: Value = serde_json::from_str(&config).expect("JSON");
    assert_eq!(config["modules_to_save"], json!(["fc2"]));
}

#[test]
fn adapters_that_a_model_can_t_have_are_refused() {
    let place = place();
    for (adapt, words) in [
        (json!({"kind": "lora"}), "`adapt.modules` is missing"),
        (
            json!({"kind": "lora", "modules": ["fc3"]}),
            "no linear layer of the model is called `fc3`",
        ),
        (json!({"kind": "dora"}), "at adapt"),
    ] {
        let mut manifest = adapted(1);
        manifest["adapt"] = adapt;
        place.run(&manifest).expect(2, &[words]);
    }
    let mut manifest = adapted(1);
    manifest
        .as_object_mut()
        .expect("an object")
        .remove("weights");
    place
        .run(&manifest)
        .expect(2, &["the manifest has no `weights`"]);
}
