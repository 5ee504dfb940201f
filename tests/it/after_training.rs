//! What is done with a trained model: its weights, `summary`, `eval`, `predict`; and models that don't
//! fit.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

/// An IDX file of images, each a ramp.
fn idx_images(count: u32, size: u32) -> Vec<u8> {
    let mut file = vec![0, 0, 8, 3];
    for side in [count, size, size] {
        file.extend(side.to_be_bytes());
    }
    file.extend((0..count * size * size).map(|index| (index * 7 % 251) as u8));
    file
}

fn trained() -> Workplace {
    let place = Workplace::new(&[]);
    place.run(&tiny()).expect(0, &[]);
    place
}

fn prints(printed: &str, words: &[&str]) {
    for words in words {
        assert!(printed.contains(words), "no {words:?} in:\n{printed}");
    }
}

const WEIGHTS: [&str; 2] = ["--checkpoint", "out/weights.safetensors"];

#[test]
fn an_evaluation_gives_what_the_run_ended_with() {
    let place = trained();
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    for phase in ["val", "test"] {
        let arguments = [
            "eval",
            "manifest.json",
            WEIGHTS[0],
            WEIGHTS[1],
            "--json",
            "--phase",
            phase,
        ];
        let printed = place.sconce(&arguments).expect(0, &[]).stdout;
        let found: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(found["phase"], phase);
        assert_eq!(found["metrics"], record["metrics"][phase], "{phase}");
    }
    // Without a phase, the test.
    let eval = ["eval", "manifest.json", WEIGHTS[0], WEIGHTS[1]];
    let printed = place.sconce(&eval).expect(0, &[]).stdout;
    prints(&printed, &["test/loss", "test/accuracy"]);
}

#[test]
fn predictions_come_as_json_lines_and_as_csv() {
    let place = trained();
    let predict = |more: &[&str]| {
        let arguments = [&["predict", "manifest.json"], &WEIGHTS[..], more].concat();
        place.sconce(&arguments)
    };
    let lines = predict(&["--phase", "val"]).expect(0, &[]).stdout;
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 10);
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line["index"], index);
        let all = line["probabilities"].as_object().expect("an object");
        let sum: f64 = all.values().filter_map(Value::as_f64).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        let class = line["class"].as_str().expect("a name");
        assert_eq!(all[class], line["probability"]);
    }
    std::fs::write(place.path("images"), idx_images(3, 28)).expect("written");
    let table = predict(&["--input", "images", "--format", "csv"])
        .expect(0, &[])
        .stdout;
    let table: Vec<&str> = table.lines().collect();
    assert_eq!(table.len(), 4);
    assert!(table[0].starts_with("index,row,class,probability,probability of 0"));
    assert!(
        !table[0].contains("target"),
        "an images' file has no labels"
    );
    std::fs::write(place.path("images"), idx_images(3, 20)).expect("written");
    predict(&["--input", "images"]).expect(2, &["[1, 20, 20]", "[1, 28, 28]"]);
    predict(&["--input", "nowhere"]).expect(2, &["nowhere", "there is no such file"]);
}

#[test]
fn weights_of_another_model_are_reported_by_name() {
    let place = trained();
    let wider = ["--set", "model.hidden=[9, 5]"];
    let eval = [&["eval", "manifest.json"], &WEIGHTS[..], &wider[..]].concat();
    place.sconce(&eval).expect(
        2,
        &[
            "none of the weights in",
            "fits the model: 0 fit",
            "2 missing: `fc3.weight`",
            "`fc1.weight` (the model's is [9, 784], the file's [8, 784])",
        ],
    );
    // Without a single one nothing is left of what was trained.
    let lenient = [&eval[..], &["--lenient"]].concat();
    place.sconce(&lenient).expect(2, &["0 fit"]);
    let wider = ["--set", "model.hidden=[9]"];
    let eval = [&["eval", "manifest.json"], &WEIGHTS[..], &wider[..]].concat();
    place
        .sconce(&eval)
        .expect(2, &["don't fit the model: 1 fit", "--lenient"]);
    let lenient = [&eval[..], &["--lenient"]].concat();
    place.sconce(&lenient).expect(0, &["warning", "1 fit"]);
    place
        .sconce(&["eval", "manifest.json", "--checkpoint", "no"])
        .expect(2, &["can't read the weights"]);
    place.write_text("text", "no tensors");
    place
        .sconce(&["eval", "manifest.json", "--checkpoint", "text"])
        .expect(2, &["`text` is not a safetensors file"]);
}

#[test]
fn a_training_may_begin_with_weights() {
    let place = trained();
    let first: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let weights = json!({"file": "out/weights.safetensors"});
    let again = edit(tiny(), "/output", json!("again"));
    let mut again = edit(again, "/train/epochs", json!(0));
    again["weights"] = weights;
    place.run(&again).expect(0, &[]);
    let second: Value = serde_json::from_str(&place.read("again/run.json")).expect("JSON");
    assert_eq!(first["metrics"]["test"], second["metrics"]["test"]);
    again["model"]["hidden"] = json!([9]);
    place.run(&again).expect(
        2,
        &["don't fit the model", "at weights", "`\"strict\": false`"],
    );
    again["weights"]["strict"] = json!(false);
    place.run(&again).expect(0, &["warning", "1 fit"]);
    // A prefix that the model's names don't have, as PyTorch's wrappers leave.
    again["weights"]["rename"] = json!({"": "model."});
    place.run(&again).expect(
        2,
        &["none of the weights in", "`\"rename\": {\"model.\":\"\"}`"],
    );
    again["weights"]["rename"] = json!({"modle.": ""});
    place
        .run(&again)
        .expect(2, &["no name of a weight begins with `modle.`"]);
}

#[test]
fn a_summary_has_layers_shapes_parameters_and_operations() {
    let place = Workplace::new(&[]);
    let summary = |manifest: &Value| {
        place.write(manifest);
        let finished = place.sconce(&["summary", "manifest.json"]);
        finished.expect(0, &[]).stdout
    };
    prints(
        &summary(&tiny()),
        &[
            "(input)          1 × 28 × 28",
            "fc1      linear  8            6,280       12,544",
            "6,370 parameters, 12,704 operations",
            // 784 inputs, 8 hidden values and 10 outputs of each sample, and the loss, 4 bytes each.
            "activations kept for the backward pass of a batch of 8: 25.7 kB",
        ],
    );
    let resnet = json!({"kind": "resnet", "blocks": [1, 1], "width": 4});
    prints(
        &summary(&edit(tiny(), "/model", resnet)),
        &[
            "layer2.0",
            "  layer2.0.downsample.0",
            "adaptive-avg-pool2d",
            "numbers in buffers",
        ],
    );
}

/// A manifest's model of these layers.
fn sequential(layers: Value) -> Value {
    edit(
        tiny(),
        "/model",
        json!({"kind": "sequential", "layers": layers}),
    )
}

#[test]
fn layers_that_do_not_fit_are_reported_before_anything_is_trained() {
    let conv =
        |kernel: usize| json!({"kind": "conv2d", "name": "first", "channels": 4, "kernel": kernel});
    for (layers, words) in [
        (
            json!([conv(3), {"kind": "linear"}]),
            &[
                "linear_1",
                "is the last and gives numbers of shape [4, 26, 10]",
                "[10]",
                "layers[1]",
            ][..],
        ),
        (
            json!([{"kind": "flatten"}, conv(3), {"kind": "linear"}]),
            &["`first` (conv2d) wants images", "shape [784]", "layers[1]"],
        ),
        (
            json!([conv(30), {"kind": "flatten"}, {"kind": "linear"}]),
            &[
                "`first` (conv2d) has a window of (30, 30), larger than its input",
                "layers[0]",
            ],
        ),
        (
            json!([{"kind": "embedding", "width": 3}, {"kind": "linear"}]),
            &[
                "`embedding_1` (embedding) wants tokens",
                "numbers of shape [1, 28, 28]",
            ],
        ),
        (
            json!([{"kind": "flatten"}, {"kind": "residual", "name": "r", "layers": [{"kind": "linear", "outputs": 5}]}]),
            &["`r` (residual) adds numbers of shape [5]", "[784]"],
        ),
        (
            json!([{"kind": "flatten"}, {"kind": "linear", "name": "a"}, {"kind": "linear", "name": "a"}]),
            &["`a` (linear) has the name of another layer"],
        ),
        (
            json!([{"kind": "flatten"}, {"kind": "linear", "name": "a b"}]),
            &["has a name of other characters"],
        ),
        (
            json!([{"kind": "reshape", "shape": [7, 112]}, {"kind": "attention", "heads": 5}]),
            &["divides vectors of 112 into 5 heads"],
        ),
        (
            json!([{"kind": "conv2d", "channels": 4, "kernel": 3, "groups": 3}]),
            &["both must be multiples"],
        ),
        (
            json!([{"kind": "reshape", "shape": [5]}]),
            &["makes [5], 5 numbers, of"],
        ),
        (json!([{"kind": "liner"}]), &["linear"]),
        (
            json!([{"kind": "linear", "output": 3}]),
            &["output", "outputs"],
        ),
    ] {
        let place = Workplace::new(&[]);
        let finished = place.run(&sequential(layers));
        finished.expect(2, words);
        assert!(!place.path("out").exists());
    }
}

#[test]
fn a_sequential_model_needs_no_rust() {
    let place = Workplace::new(&[]);
    let layers = json!([
        {"kind": "conv2d", "channels": 4, "kernel": 5, "stride": 2, "bias": false},
        {"kind": "batch-norm"},
        {"kind": "relu"},
        {"kind": "residual", "layers": [
            {"kind": "conv2d", "channels": 4, "kernel": 3, "padding": 1, "groups": 2},
            {"kind": "silu"}
        ]},
        {"kind": "max-pool2d", "kernel": 2},
        {"kind": "flatten"},
        {"kind": "dropout", "share": 0.2},
        {"kind": "linear", "name": "head"}
    ]);
    let finished = place.run(&sequential(layers)).expect(0, &[]);
    prints(&finished.stdout, &["completed"]);
    let record: Value = serde_json::from_str(&place.read("out/run.json")).expect("JSON");
    let loss = record["metrics"]["val"]["loss"].as_f64().expect("a number");
    assert!(loss.is_finite());
    // The run's model again, running statistics and all.
    let eval = [
        "eval",
        "manifest.json",
        WEIGHTS[0],
        WEIGHTS[1],
        "--json",
        "--phase",
        "val",
    ];
    let found: Value =
        serde_json::from_str(&place.sconce(&eval).expect(0, &[]).stdout).expect("JSON");
    assert_eq!(found["metrics"], record["metrics"]["val"]);
}
