//! The pieces of manifests in the pages are right: each is put into a manifest, which is checked.

use std::fs;
use std::path::Path;

use sconce_tests::{Workplace, artifacts, edit, tiny, workspace};
use serde_json::{Value, json};

/// What a piece may lack here, and nothing else: it is its reader's.
const LACKS: [&str; 6] = [
    "there is no such file",
    "can't read the weights: ",
    "has no file `data_batch_1.bin`",
    "matches no module of the model",
    "matches no parameter",
    "no plugin has a hook `good-enough`",
];

/// The JSON blocks of a page, each with its line.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut block: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        if let Some((begin, mut text)) = block.take() {
            if line == "```" {
                found.push((begin, text));
            } else {
                text += line;
                text.push('\n');
                block = Some((begin, text));
            }
        } else if line == "```json" {
            block = Some((index + 1, String::new()));
        }
    }
    found
}

/// A block is a value, some members of an object, or values one after the other.
fn values(text: &str) -> Vec<Value> {
    let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    if let Ok(values) = stream.collect::<Result<Vec<Value>, _>>() {
        return values;
    }
    for text in [format!("{{{text}}}"), format!("[{text}]")] {
        match serde_json::from_str(&text) {
            Ok(Value::Array(values)) => return values,
            Ok(value) => return vec![value],
            Err(_) => {}
        }
    }
    panic!("no JSON: {text}");
}

/// Hooks that learn from views without labels.
const UNLABELLED: [&str; 9] = [
    "simclr",
    "barlow-twins",
    "vicreg",
    "moco",
    "byol",
    "dino",
    "ibot",
    "swav",
    "deep-cluster",
];

/// A manifest with a piece of one where it belongs; none of what a run writes.
fn around(piece: &Value) -> Option<Value> {
    let mut manifest = edit(tiny(), "/model", json!({"kind": "convnet"}));
    manifest["plugins"] = json!([artifacts().directory()]);
    let has = |key: &str| piece.get(key).is_some();
    if ["epoch", "unsigned", "split", "metric", "batch"]
        .map(has)
        .contains(&true)
    {
        // A record of a run, a `trust.json`, a part of `preprocessing.json`, or of a sweep.
        return None;
    }
    if has("hook") {
        manifest["hooks"] = json!([piece]);
        if piece["hook"] == "samples" {
            manifest["data"] = json!({"kind": "text", "file": "tinyshakespeare.txt"});
        }
        if UNLABELLED.iter().any(|hook| piece["hook"] == *hook) {
            manifest["data"] = json!({
                "kind": "synthetic-digits", "val": 0, "test": 0, "targets": "none", "views": [{"count": 2}],
            });
            manifest["model"] = json!({"kind": "sequential", "layers": [
                {"kind": "positions"}, {"kind": "mask-tokens"}, {"kind": "flatten"}, {"kind": "linear", "name": "projector", "outputs": 8}, {"kind": "unit-norm", "name": "directions"},
                {"kind": "linear", "name": "prototypes", "outputs": 8, "bias": false},
            ]});
            manifest["loss"] = json!("given");
        }
    } else if [
        "adapt",
        "data",
        "hooks",
        "model",
        "loss",
        "train",
        "weights",
        "distributed",
        "device",
    ]
    .map(has)
    .contains(&true)
    {
        let members = piece
            .as_object()?
            .iter()
            .filter(|(key, _)| *key != "plugins");
        for (key, value) in members {
            manifest[key] = value.clone();
        }
        if !has("data") && manifest["model"].to_string().contains("\"embedding\"") {
            manifest["data"] = json!({"kind": "grammar"});
        }
    } else if piece["kind"] == "attention" {
        manifest["data"] = json!({"kind": "grammar"});
        manifest["model"] = json!({"kind": "sequential", "layers": [
            {"kind": "embedding", "width": 768}, piece, {"kind": "linear"}]});
    } else if ["conv2d", "conv-transpose2d", "upsample"]
        .iter()
        .any(|kind| piece["kind"] == *kind)
    {
        manifest["model"] = json!({"kind": "sequential", "layers": [
            piece, {"kind": "flatten"}, {"kind": "linear"}]});
    } else if has("kind") && has("learning_rate") {
        manifest["optimizer"] = piece.clone();
    } else if has("kind") {
        manifest["data"] = piece.clone();
    } else if has("crop") {
        manifest["data"] =
            json!({"kind": "idx", "images": "images", "labels": "labels", "augment": piece});
    } else {
        panic!("neither a piece of a manifest, nor one of the other files: {piece}");
    }
    let of_tokens = ["text", "tokens"].map(|kind| manifest["data"]["kind"] == kind);
    if of_tokens.contains(&true) && !has("model") {
        manifest["model"] = json!({"kind": "gpt"});
    }
    Some(manifest)
}

/// The text that pages name, and its tokens.
fn books(place: &Workplace) {
    let line = |line| format!("Line {line} of a play, spoken to {}.\n", line * 7919 % 1000);
    let lines: Vec<String> = (0..4000).map(line).collect();
    fs::write(place.path("tinyshakespeare.txt"), lines.concat()).expect("written");
    let tokenize = [
        "tokenize",
        "tinyshakespeare.txt",
        "--train",
        "300",
        "--output",
        "books-tokens",
    ];
    place.sconce(&tokenize).expect(0, &[]);
}

#[test]
fn pieces_of_manifests_pass_the_check() {
    let place = Workplace::new(&[]);
    books(&place);
    let docs = fs::read_dir(workspace().join("docs")).expect("the pages");
    let pages = docs.map(|entry| entry.expect("an entry").path());
    // Those of the tutorials are trained from, with their models and data.
    let is_tutorial = |path: &Path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("tutorial-"))
    };
    let mut pages: Vec<_> = (pages.filter(|path| path.is_file() && !is_tutorial(path))).collect();
    pages.push(workspace().join("README.md"));
    let (mut passed, mut lacking) = (0, 0);
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for (line, block) in blocks(&text) {
            for manifest in values(&block).iter().filter_map(around) {
                place.write(&manifest);
                let mut arguments = vec!["check", "manifest.json"];
                // In a build without CUDA all else is checked.
                let device = manifest["device"].as_str().unwrap_or_default();
                if device.starts_with("cuda") {
                    arguments.extend(["--set", "device=cpu"]);
                }
                let checked = place.sconce(&arguments);
                let errors = checked.stderr.lines();
                let wrong: Vec<&str> = errors
                    .filter(|line| line.starts_with("error: "))
                    .filter(|line| !LACKS.iter().any(|lack| line.contains(lack)))
                    .collect();
                let at = format!("{}:{line}", page.display());
                assert!(wrong.is_empty(), "{at}\n{block}\n{}", checked.stderr);
                if checked.code == 0 {
                    passed += 1;
                } else {
                    assert!(checked.stderr.contains("error: "), "{at}");
                    lacking += 1;
                }
            }
        }
    }
    assert!(
        passed > 4 * lacking,
        "{passed} pass, {lacking} lack something"
    );
}
