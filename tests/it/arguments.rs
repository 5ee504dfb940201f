//! Wrong arguments are refused in the same words, whatever language a hook is written in, and whether it has a process of its own.

use sconce_tests::{Workplace, edit, python_with, tiny};
use serde_json::{Value, json};

/// The hook in Python that does what `caller` does in Rust and `c-caller` in C.
const CALLER: &str = r#"
import numpy, sconce

def ask(task, what, text, number):
    if what == "publish":
        task.publish_metric(text, number)
    elif what == "publish_value":
        task.publish(text, 1, "run")
    elif what == "publish_tensor":
        task.publish_tensor(text, numpy.array([1, 2], dtype=numpy.float32), "run")
    elif what in ("set_learning_rate", "set_momentum", "set_weight_decay") and text:
        getattr(task, what)(number, text)
    elif what in ("set_learning_rate", "set_momentum", "set_weight_decay", "scale_loss"):
        getattr(task, what)(number)
    elif what == "set_accumulation":
        task.set_accumulation(int(number))
    elif what == "unfreeze":
        task.unfreeze(text, number)
    elif what in ("skip_batch", "skip_update"):
        getattr(task, what)()
    else:
        getattr(task, what)(text)

class Caller(sconce.Hook):
    publishes = ["*"]

    def __init__(self, config, setup):
        self.calls = config["calls"]

    def after_iter(self, task):
        for index, call in enumerate(self.calls):
            text = call.get("text", "") * call.get("times", 1)
            try:
                ask(task, call["what"], text, float(call.get("number", 0)))
                print(f"{index}: done")
            except Exception as error:
                print(f"{index}: {error}")
        self.calls = []
"#;

/// Calls that are wrong at `after_iter`, in any language.
fn wrong_calls() -> Value {
    let mut calls = Vec::new();
    for what in ["publish", "publish_value", "publish_tensor"] {
        calls.push(json!({"what": what, "text": "", "number": 1.0}));
        calls.push(json!({"what": what, "text": "a\u{7}b", "number": 1.0}));
        calls.push(json!({"what": what, "text": "long", "times": 70, "number": 1.0}));
    }
    for what in [
        "parameter",
        "published_tensor",
        "optimizer_tensor",
        "roll_back",
        "save_checkpoint",
    ] {
        calls.push(json!({"what": what, "text": "../none"}));
        calls.push(json!({"what": what, "text": "a\u{1b}[2J"}));
    }
    for what in [
        "set_learning_rate",
        "set_momentum",
        "set_weight_decay",
        "unfreeze",
    ] {
        calls.push(json!({"what": what, "text": "none", "number": 0.5}));
    }
    calls.extend([
        json!({"what": "publish", "text": "loss", "number": 1.0}),
        json!({"what": "set_learning_rate", "number": -1.0}),
        json!({"what": "set_momentum", "number": 2.0}),
        json!({"what": "set_weight_decay", "number": -1.0}),
        json!({"what": "set_accumulation", "number": 0}),
        json!({"what": "scale_loss", "number": 2.0}),
        json!({"what": "skip_batch"}),
        json!({"what": "skip_update"}),
        json!({"what": "save_checkpoint", "text": ""}),
        json!({"what": "save_checkpoint", "text": "long", "times": 70}),
    ]);
    Value::from(calls)
}

/// What a hook says of its calls, each by its number or name.
fn answers(place: &Workplace, mut entry: Value, isolation: &str) -> Vec<String> {
    entry["name"] = json!("caller");
    entry["isolation"] = json!(isolation);
    let finished = place.run(&edit(tiny(), "/hooks", json!([entry])));
    let finished = finished.expect(0, &[]);
    let lines = finished.stderr.lines();
    let said = lines.filter_map(|line| line.strip_prefix("caller: "));
    said.map(str::to_owned).collect()
}

#[test]
fn wrong_arguments_are_refused_in_the_same_words_in_every_language_and_process() {
    let place = Workplace::new(&["sconce-fixture-faults", "sconce-plugin-python"]);
    let calls = wrong_calls();
    let count = calls.as_array().map_or(0, Vec::len);
    let config = json!({"calls": calls});
    let mut entries = vec![("Rust", json!({"hook": "caller", "config": config}))];
    if place.add_c_plugin("tests/c/caller.c", &[]).is_some() {
        entries.push(("C", json!({"hook": "c-caller", "config": config})));
    }
    if let Some(python) = python_with(&["numpy"]) {
        place.write_text("caller.py", CALLER);
        let config = json!({"file": "caller.py", "python": python, "config": config});
        entries.push(("Python", json!({"hook": "python", "config": config})));
    }
    let mut first: Option<Vec<String>> = None;
    for (language, entry) in entries {
        let here = answers(&place, entry.clone(), "none");
        let apart = answers(&place, entry, "process");
        assert_eq!(
            here, apart,
            "{language}, in the run's process and in one of its own"
        );
        let done: Vec<&String> = here
            .iter()
            .filter(|said| said.ends_with(": done"))
            .collect();
        assert!(done.is_empty(), "{language}: {done:?}");
        let (common, raw) = here.split_at(count);
        assert_eq!(raw.is_empty(), language != "C");
        match &first {
            None => first = Some(common.to_vec()),
            Some(first) => {
                for (own, first) in common.iter().zip(first) {
                    assert_eq!(own, first, "{language}");
                }
                assert_eq!(common.len(), first.len());
            }
        }
    }
}
