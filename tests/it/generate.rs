//! What a trained model writes: `sconce generate`.

use sconce_tests::{Finished, Workplace, edit, tiny};
use serde_json::{Value, json};

/// A manifest of a small transformer that learns a text.
fn manifest(causal: bool) -> Value {
    let data = json!({"kind": "text", "file": "training.txt", "unit": "char", "context": 12, "val": {"fraction": 0.1}});
    let model = json!({"kind": "sequential", "layers": [
        {"kind": "embedding", "width": 24},
        {"kind": "position-embedding"},
        {"kind": "residual", "layers": [{"kind": "attention", "heads": 2, "causal": causal}]},
        {"kind": "linear"},
    ]});
    let optimizer = json!({"kind": "adamw", "learning_rate": 0.02});
    let train = json!({"epochs": 30, "batch_size": 16});
    let edits = [
        ("/data", data),
        ("/model", model),
        ("/optimizer", optimizer),
        ("/train", train),
    ];
    let changed = edits.into_iter();
    changed.fold(tiny(), |manifest, (path, value)| {
        edit(manifest, path, value)
    })
}

fn trained(causal: bool) -> Workplace {
    let place = Workplace::new(&[]);
    place.write_text("training.txt", &"abcdefgh. ".repeat(200));
    place.run(&manifest(causal)).expect(0, &[]);
    place
}

fn generated(place: &Workplace, arguments: &[&str]) -> Finished {
    let all = [&["generate", "out"], arguments].concat();
    place.sconce(&all)
}

#[test]
fn a_model_writes_what_it_has_learnt_the_same_alone_and_among_others() {
    let place = trained(true);
    // Beyond the 12 tokens that it sees at once.
    let written = generated(
        &place,
        &["--prompt", "abc", "--tokens", "27", "--temperature", "0"],
    );
    let text = written.expect(0, &[]).stdout;
    assert_eq!(text, "abcdefgh. abcdefgh. abcdefgh. \n");

    let stopped = generated(
        &place,
        &["--prompt", "ab", "--stop", ". ", "--temperature", "0"],
    );
    assert_eq!(stopped.expect(0, &[]).stdout, "abcdefgh\n");

    let drawn = [
        "--temperature",
        "30",
        "--tokens",
        "20",
        "--seed",
        "5",
        "--format",
        "jsonl",
    ];
    let alone = generated(&place, &[&["--prompt", "abc"][..], &drawn].concat());
    let both = [&["--prompt", "abc", "--prompt", "h. abcdef"][..], &drawn].concat();
    let both = generated(&place, &both).expect(0, &[]).stdout;
    let lines: Vec<Value> = both
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["tokens"], 20);
    assert_eq!(lines[0]["end"], "length");
    let first = both.lines().next().expect("two lines");
    assert_eq!(alone.expect(0, &[]).stdout.trim_end(), first);
    let other = [
        "--prompt",
        "abc",
        "--temperature",
        "30",
        "--tokens",
        "20",
        "--seed",
        "6",
        "--format",
        "jsonl",
    ];
    assert_ne!(
        generated(&place, &other).expect(0, &[]).stdout.trim_end(),
        first
    );
}

#[test]
fn what_cannot_be_written_on_is_refused_with_its_reason() {
    let place = trained(false);
    generated(&place, &["--prompt", "abc"]).expect(2, &["sees the tokens after a position"]);
    generated(&place, &["--prompt", "xyz"]).expect(2, &["sees the tokens after a position"]);
    generated(&place, &[]).expect(2, &["--prompt"]);

    let place = Workplace::new(&[]);
    place.run(&tiny()).expect(0, &[]);
    generated(&place, &["--prompt", "abc"]).expect(2, &["the model doesn't predict text"]);
    let range = "`top_p` must be above 0 and at most 1, found 2";
    generated(&place, &["--prompt", "abc", "--top-p", "2"]).expect(2, &[range]);
}
