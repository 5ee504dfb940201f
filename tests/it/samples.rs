//! The hook `samples`: what the model writes in each evaluation, by the parameters that it uses.

use sconce_tests::{Workplace, edit, tiny};
use serde_json::{Value, json};

const PLUGINS: &[&str] = &[
    "sconce-plugin-logging",
    "sconce-plugin-optimisation",
    "sconce-fixture-faults",
];

/// Five epochs of a small transformer over a text, with these hooks.
fn manifest(hooks: Value) -> Value {
    let data = json!({"kind": "text", "file": "training.txt", "unit": "char", "context": 12, "val": {"fraction": 0.1}});
    let model = json!({"kind": "sequential", "layers": [
        {"kind": "embedding", "width": 16},
        {"kind": "position-embedding"},
        {"kind": "residual", "layers": [{"kind": "attention", "heads": 2, "causal": true}]},
        {"kind": "linear"},
    ]});
    let edits = [
        ("/data", data),
        ("/model", model),
        (
            "/optimizer",
            json!({"kind": "adamw", "learning_rate": 0.02}),
        ),
        ("/train", json!({"epochs": 5, "batch_size": 16})),
        ("/hooks", hooks),
    ];
    let changed = edits.into_iter();
    changed.fold(tiny(), |manifest, (path, value)| {
        edit(manifest, path, value)
    })
}

fn samples(config: Value) -> Value {
    json!({"hook": "samples", "config": config})
}

fn config() -> Value {
    json!({"prompts": ["abc", "gh. "], "tokens": 12, "temperature": 0.7, "seed": 3})
}

fn place() -> Workplace {
    let place = Workplace::new(PLUGINS);
    place.write_text("training.txt", &"abcdefgh. ".repeat(100));
    place
}

/// The texts of each evaluation.
fn texts(place: &Workplace) -> Vec<[String; 2]> {
    let lines = place.records("samples.jsonl");
    let text = |line: &Value| line["text"].as_str().unwrap_or_default().to_owned();
    let pairs = lines.chunks_exact(2);
    pairs.map(|pair| [text(&pair[0]), text(&pair[1])]).collect()
}

#[test]
fn texts_are_written_by_the_parameters_of_the_evaluation() {
    let learning = place();
    let finished = learning.run(&manifest(json!([samples(config())])));
    finished.expect(0, &["samples", "abc"]);
    let written = texts(&learning);
    assert_eq!(written.len(), 5);
    assert_ne!(written[0], written[4], "the model learns");
    // What the command writes with the last weights, prompt by prompt as in the list.
    let arguments = "generate out --prompt abc --tokens 12 --temperature 0.7 --seed 3 --prompt gh.";
    let mut arguments: Vec<&str> = arguments.split(' ').collect();
    if let Some(last) = arguments.last_mut() {
        *last = "gh. ";
    }
    let finished = learning.sconce(&arguments).expect(0, &[]);
    let lines = finished.stdout.lines();
    let commands: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let found: Vec<&str> = commands
        .iter()
        .filter_map(|line| line["text"].as_str())
        .collect();
    assert_eq!(found, written[4]);

    // Averages that never move: all validations use the first parameters.
    let still = place();
    let ema = json!({"hook": "ema", "config": {"decay": 1.0, "warm_up": "none"}});
    let hooks = json!([samples(config()), ema]);
    still.run(&manifest(hooks)).expect(0, &[]);
    let written = texts(&still);
    assert!(written.iter().all(|texts| *texts == written[0]));
    assert_eq!(written.len(), 5);
}

#[test]
fn a_resumed_run_and_an_isolated_hook_write_the_same_file() {
    let save = json!({"hook": "asker", "config": {"at": "after_iter", "phase": "train", "what": "save_checkpoint", "once": true,
        "after_iteration": 14, "text": "here"}});
    let manifest = manifest(json!([samples(config()), save]));
    let here = place();
    here.run(&manifest).expect(0, &[]);
    let expected = here.read("out/samples.jsonl");
    // Back to the third epoch: what was written since is cut off.
    let again = here.sconce(&["run", "manifest.json", "--resume", "here"]);
    again.expect(0, &["resumes from"]);
    assert_eq!(here.read("out/samples.jsonl"), expected);

    let apart = place();
    apart.write(&manifest);
    let finished = apart.sconce_in(&["run", "manifest.json"], &[("SCONCE_ISOLATE", "all")]);
    finished.expect(0, &[]);
    assert_eq!(apart.read("out/samples.jsonl"), expected);
}

#[test]
fn a_model_or_prompt_that_nothing_can_be_written_from_is_refused_at_the_start() {
    let place = place();
    let digits = edit(
        tiny(),
        "/hooks",
        json!([samples(json!({"prompts": ["a"]}))]),
    );
    place.write(&digits);
    for command in ["check", "run"] {
        let finished = place.sconce(&[command, "manifest.json"]);
        finished.expect(3, &["the model doesn't predict text: it was trained on"]);
    }
    let hooks = json!([samples(json!({"prompts": ["abc", "XYZ"]}))]);
    let at_start = "hook `samples` failed at `before_run`";
    let finished = place.run(&manifest(hooks));
    finished.expect(4, &[at_start, "prompt 2: 'X' is not in the vocabulary"]);
    let causal = "/model/layers/2/layers/0/causal";
    let hooks = json!([samples(json!({"prompts": ["abc"]}))]);
    let finished = place.run(&edit(manifest(hooks), causal, json!(false)));
    finished.expect(4, &[at_start, "sees the tokens after a position"]);
}
