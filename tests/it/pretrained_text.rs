//! A model that `transformers` wrote, by its files: its perplexity and the text that it writes are those that `transformers` finds.

use std::os::unix::fs::symlink;

use sconce_tests::{Workplace, workspace};
use serde_json::{Value, json};

#[test]
fn perplexity_and_greedy_text_are_those_of_transformers() {
    let tutorials = workspace().join("tests/reference/tutorials");
    let expected = std::fs::read(tutorials.join("expected.json")).expect("the reference");
    let expected: Value = serde_json::from_slice(&expected).expect("JSON");
    let text = |key: &str| expected[key].as_str().expect("a text");
    let place = Workplace::new(&[]);
    symlink(tutorials.join("gpt2"), place.path("gpt2")).expect("a link");
    place.write_text("fixed.txt", text("text"));
    let data = json!({"kind": "text", "file": "fixed.txt", "tokenizer": "gpt2", "context": expected["context"],
                      "val": {"file": "fixed.txt"}});
    // Steps of nothing: what a run leaves is the model as it was.
    let manifest = json!({
        "output": "out",
        "data": data,
        "model": {"kind": "transformers", "config": "gpt2"},
        "weights": {"file": "gpt2"},
        "optimizer": {"kind": "sgd", "learning_rate": 1e-30},
        "train": {"epochs": 1, "batch_size": 8},
    });
    place.run(&manifest).expect(0, &["28 loaded", "1 tied"]);

    let evaluated = place.sconce(&["eval", "out", "--json"]).expect(0, &[]);
    let evaluated: Value = serde_json::from_str(&evaluated.stdout).expect("JSON");
    let found = evaluated["metrics"]["perplexity"]
        .as_f64()
        .expect("a number");
    let perplexity = expected["perplexity"].as_f64().expect("a number");
    assert!(
        (found / perplexity - 1.0).abs() < 1e-5,
        "{found} {perplexity}"
    );

    let greedy = ["--tokens", "64", "--temperature", "0", "--format", "jsonl"];
    let generate = [
        &["generate", "out", "--prompt", text("prompt")],
        &greedy[..],
    ]
    .concat();
    let written = place.sconce(&generate).expect(0, &[]).stdout;
    let written: Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!(written["tokens"], 64);
    assert_eq!(written["text"], expected["written"]);
}
