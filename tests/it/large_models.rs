//! Models and files that no memory holds are refused before anything of them is allocated.

use std::fs::{self, File};
use std::process::Command;

use sconce_tests::{Finished, Workplace, artifacts, edit, tiny};
use serde_json::{Value, json};

const HUGE: u64 = 1 << 40;

/// A command with 8 GB of address space: a model that is allocated after all fails otherwise.
pub(super) fn limited(place: &Workplace, arguments: &[&str]) -> Finished {
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 8000000; exec \"$0\" \"$@\""])
        .arg(artifacts().sconce())
        .args(arguments)
        .current_dir(place.directory())
        .output()
        .expect("a shell");
    Finished::from(output)
}

fn text(kind: &Value) -> Value {
    let manifest = edit(tiny(), "/model", kind.clone());
    edit(
        manifest,
        "/data",
        json!({"kind": "grammar", "train": 8, "context": 16}),
    )
}

fn layers(layers: Value) -> Value {
    json!({"kind": "sequential", "layers": layers})
}

#[test]
fn models_of_any_kind_are_refused_with_layer_and_bytes() {
    let images = |model: Value| edit(tiny(), "/model", model);
    let linear = json!({"kind": "linear"});
    for (manifest, words) in [
        (
            images(json!({"kind": "mlp", "hidden": [HUGE]})),
            "the layer `fc1` (linear) can't be made: the parameter `fc1.weight` of shape [1099511627776, 784] needs",
        ),
        (
            images(json!({"kind": "mlp", "hidden": [8, u64::MAX >> 1]})),
            "`fc2.weight`",
        ),
        (
            images(json!({"kind": "convnet", "channels": [HUGE]})),
            "`conv1",
        ),
        (
            images(json!({"kind": "convnet", "channels": [4], "hidden": [HUGE]})),
            "(linear)",
        ),
        (images(json!({"kind": "resnet", "width": HUGE})), "(conv2d)"),
        (images(json!({"kind": "resnet", "blocks": [HUGE]})), "10000"),
        (
            images(json!({"kind": "vit", "patch": 4, "width": HUGE})),
            "needs",
        ),
        (
            images(json!({"kind": "vit", "patch": 4, "width": 6, "expansion": HUGE})),
            "needs",
        ),
        (
            images(json!({"kind": "vit", "patch": 4, "layers": HUGE})),
            "10000",
        ),
        (text(&json!({"kind": "gpt", "width": HUGE})), "`tok"),
        (text(&json!({"kind": "gpt", "expansion": HUGE})), "(linear)"),
        (text(&json!({"kind": "gpt", "layers": HUGE})), "10000"),
        (
            images(layers(
                json!([{"kind": "flatten"}, {"kind": "linear", "outputs": HUGE}, linear]),
            )),
            "at model.layers[1]",
        ),
        (
            images(layers(json!([
                {"kind": "conv2d", "channels": HUGE, "kernel": 3}, {"kind": "flatten"}, linear
            ]))),
            "(conv2d)",
        ),
        (
            images(layers(json!([
                {"kind": "conv2d", "channels": 8, "kernel": 1, "padding": 65_536}, {"kind": "flatten"}, linear
            ]))),
            "(conv2d) gives [8, 131100, 131100] for each of 8 samples",
        ),
        (
            images(layers(json!([
                {"kind": "reshape", "shape": [28, 28]},
                {"kind": "conv1d", "channels": 8, "kernel": 1, "padding": HUGE}, {"kind": "flatten"}, linear
            ]))),
            "(conv1d) gives [8, 2199023255580]",
        ),
        (
            images(layers(json!([
                {"kind": "reshape", "shape": [28, 28]},
                {"kind": "conv1d", "channels": 8, "kernel": HUGE, "padding": HUGE}, {"kind": "flatten"}, linear
            ]))),
            "needs",
        ),
        (
            images(layers(json!([
                {"kind": "adaptive-avg-pool2d", "size": 65_536}, {"kind": "flatten"}, linear
            ]))),
            "(adaptive-avg-pool2d) gives [1, 65536, 65536]",
        ),
        (
            images(layers(
                json!([{"kind": "reshape", "shape": [HUGE, HUGE]}, {"kind": "flatten"}, linear]),
            )),
            "makes [1099511627776, 1099511627776]",
        ),
        (
            text(&layers(
                json!([{"kind": "embedding", "width": HUGE}, linear]),
            )),
            "(embedding)",
        ),
    ] {
        let place = Workplace::new(&[]);
        place.write(&manifest);
        for command in ["check", "summary", "run"] {
            limited(&place, &[command, "manifest.json"]).expect(2, &[words]);
            assert!(!place.path("out").exists(), "{command}");
        }
    }
}

#[test]
fn the_optimizers_state_and_the_limit_are_part_of_the_message() {
    let place = Workplace::new(&[]);
    // 2.5 GB of parameters, four times that with gradients and Adam's moments.
    let manifest = edit(
        tiny(),
        "/model",
        json!({"kind": "mlp", "hidden": [800_000]}),
    );
    place.write(&edit(
        manifest,
        "/optimizer",
        json!({"kind": "adam", "learning_rate": 0.1}),
    ));
    let words = [
        "needs 10.0 GB with its gradient and the optimizer's state",
        "`ulimit -v`",
    ];
    limited(&place, &["check", "manifest.json"]).expect(2, &words);
}

#[test]
fn files_longer_than_what_they_contain_are_not_read() {
    let place = Workplace::new(&[]);
    place.run(&tiny()).expect(0, &[]);
    let grow = |name: &str| {
        let file = File::options()
            .write(true)
            .open(place.path(name))
            .expect("open");
        file.set_len(200 << 30).expect("a sparse file");
    };
    for start in [&[][..], &[0; 8], b"\x02\0\0\0\0\0\0\0{}"] {
        fs::write(place.path("weights"), start).expect("written");
        grow("weights");
        let arguments = ["eval", "manifest.json", "--checkpoint", "weights"];
        limited(&place, &arguments).expect(2, &["is not a safetensors file"]);
    }
    let table = json!({"kind": "csv", "file": "weights", "target": "c"});
    let array = json!({"kind": "npy", "inputs": "weights", "targets": "weights"});
    let tensors = json!({"kind": "safetensors", "file": "weights"});
    for data in [table, array, tensors] {
        place.write(&edit(tiny(), "/data", data));
        limited(&place, &["check", "manifest.json"]).expect(2, &["`weights`"]);
    }
}
