//! The models in `docs/models.md` can be built, and those that its tables name train through a manifest.

use std::fs;

use candle_core::{DType, Device};
use sconce::data::Targets;
use sconce::nn::{ModelConfig, Signal};
use sconce::parameters::Parameters;
use sconce_tests::{Workplace, edit, tiny, workspace};
use serde_json::{Value, json};

/// The `json` blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let text = fs::read_to_string(workspace().join(page)).expect("the page");
    let parts = text.split("```json\n").skip(1);
    parts
        .filter_map(|part| Some(part.split_once("```")?.0.to_owned()))
        .collect()
}

#[test]
fn the_pages_models_can_be_built() {
    let classes: Vec<String> = (0..10).map(|class| class.to_string()).collect();
    let mut built = 0;
    for block in blocks("docs/models.md") {
        let (model, input) = if block.starts_with("\"model\"") {
            let value: Value = serde_json::from_str(&format!("{{{block}}}")).expect("JSON");
            (value["model"].clone(), Signal::numbers([1, 28, 28]))
        } else if block.starts_with("{ \"kind\": \"conv2d\"") {
            // A part of a list of layers.
            let end = r#"{"kind": "adaptive-avg-pool2d"}, {"kind": "flatten"}, {"kind": "linear"}"#;
            let layers: Value = serde_json::from_str(&format!("[{block}, {end}]")).expect("JSON");
            let model = json!({"kind": "sequential", "layers": layers});
            (model, Signal::numbers([32, 8, 8]))
        } else {
            continue;
        };
        // A model of tokens predicts the next one.
        let (input, targets) = if block.contains("\"wte\"") {
            (
                Signal::tokens(16, 10),
                Targets::ClassPerPosition(classes.clone()),
            )
        } else {
            (input, Targets::Class(classes.clone()))
        };
        let config: ModelConfig = serde_json::from_value(model).expect("a model");
        let mut parameters = Parameters::new(0, DType::F32, &Device::Cpu);
        let network = config.build(&mut parameters, &input, &targets);
        assert!(network.is_ok(), "{block}: {:?}", network.err());
        built += 1;
    }
    assert!(built >= 7, "{built} models");
}

#[test]
fn a_vision_transformer_trains_and_is_summarised() {
    let place = Workplace::new(&[]);
    let model = json!({"kind": "vit", "patch": 7, "width": 8, "heads": 2, "layers": 1});
    let mut manifest = edit(tiny(), "/model", model);
    place.write(&manifest);
    let printed = place.sconce(&["summary", "manifest.json"]).expect(0, &[]);
    for line in [
        "activations kept for the backward pass of a batch of 8: ",
        "patch            conv2d              8 × 4 × 4",
        "pos              position-embedding  16 × 8",
        "  blocks.0.attn  attention           16 × 8",
        "mean             mean-positions      8",
        "head             linear              10",
    ] {
        assert!(printed.stdout.contains(line), "{line}\n{}", printed.stdout);
    }
    let weights = |manifest: &Value, output: &str| {
        let manifest = edit(manifest.clone(), "/output", json!(output));
        place.run(&manifest).expect(0, &[]);
        let file = place.path(&format!("{output}/weights.safetensors"));
        fs::read(file).expect("weights")
    };
    let kept = weights(&manifest, "kept");
    manifest["model"]["recompute"] = json!(true);
    place.write(&manifest);
    let summary = place.sconce(&["summary", "manifest.json"]).expect(0, &[]);
    let words = "while a block is recomputed";
    assert!(summary.stdout.contains(words), "{}", summary.stdout);
    let again = weights(&manifest, "again");
    assert!(kept == again, "recomputing changes nothing");
    manifest["model"]["patch"] = json!(29);
    place
        .run(&manifest)
        .expect(2, &["`patch` (conv2d)", "larger than its input"]);
    manifest["model"] = json!({"kind": "vit", "width": 10, "heads": 3, "patch": 7});
    place
        .run(&manifest)
        .expect(2, &["vectors of 10 into 3 heads"]);
}

/// The layers that are printed are the model that they were printed of.
#[test]
fn printed_layers_are_the_model() {
    let place = Workplace::new(&[]);
    let config = json!({"model_type": "resnet", "layer_type": "basic", "depths": [1], "hidden_sizes": [8],
        "embedding_size": 8, "num_channels": 1, "hidden_act": "gelu_new", "sizes": 3});
    fs::create_dir(place.path("model")).expect("a directory");
    fs::write(place.path("model/config.json"), config.to_string()).expect("written");
    let model = json!({"kind": "transformers", "config": "model"});
    let mut manifest = edit(tiny(), "/model", model);
    place.write(&manifest);
    let table = place
        .sconce(&["summary", "manifest.json"])
        .expect(0, &[])
        .stdout;
    assert!(table.contains("classifier.1"), "{table}");
    let printed = place
        .sconce(&["summary", "manifest.json", "--layers"])
        .expect(0, &[]);
    let printed: Value = serde_json::from_str(&printed.stdout).expect("JSON");
    manifest["model"] = printed["model"].clone();
    place.write(&manifest);
    let again = place
        .sconce(&["summary", "manifest.json"])
        .expect(0, &[])
        .stdout;
    assert_eq!(again, table);
    // A key that nothing is known of is a warning, and a value that can't be had an error at its place.
    manifest["model"] = json!({"kind": "transformers", "config": config});
    place.write(&manifest);
    let checked = place.sconce(&["check", "manifest.json"]);
    let all = format!("{}{}", checked.stdout, checked.stderr);
    assert!(
        all.contains("`sizes` of the model's `config.json` is not a key"),
        "{all}"
    );
    manifest["model"]["config"]["layer_type"] = json!("deep");
    place
        .run(&manifest)
        .expect(2, &["`layer_type`", "blocks are `basic` or `bottleneck`"]);
}

/// Without targets, a model learns its inputs.
#[test]
fn an_autoencoder_needs_no_targets() {
    let place = Workplace::new(&[]);
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 2, 3)}\n";
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    // Multiples of one pattern, of a mean square of 0.12.
    for sample in 0..64_u8 {
        for element in 0..6_u8 {
            let value = (f32::from(sample) / 32.0 - 1.0) * (f32::from(element) / 3.0 - 1.0);
            file.extend(value.to_le_bytes());
        }
    }
    fs::write(place.path("x.npy"), &file).expect("written");
    let mut manifest = edit(
        tiny(),
        "/model",
        json!({"kind": "mlp", "hidden": [8], "activation": "tanh"}),
    );
    manifest["data"] = json!({"kind": "npy", "inputs": "x.npy", "val": {"count": 16}});
    manifest["train"] = json!({"epochs": 60, "batch_size": 8});
    manifest["optimizer"] = json!({"kind": "adamw", "learning_rate": 0.02});
    place.run(&manifest).expect(0, &[]);
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let loss = record["metrics"]["val"]["loss"].as_f64().expect("a loss");
    assert!(loss < 0.03, "{loss}");
    // Validation has targets if the training has any.
    manifest["data"]["val"] = json!({"inputs": "x.npy", "targets": "x.npy"});
    place.run(&manifest).expect(2, &["without `targets`"]);
}
