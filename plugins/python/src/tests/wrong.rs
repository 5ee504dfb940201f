//! What is wrong with a hook, its configuration or its state, and how that is said.

use std::fs;

use serde_json::json;

use super::{Script, run};
use crate::Python;

#[test]
fn a_damaged_state_is_an_error() {
    let good = b"sconce-python-state 1\n";
    let head = |json: &str| {
        let length = (json.len() as u64).to_le_bytes();
        [good.as_slice(), &length, json.as_bytes()].concat()
    };
    let huge = r#"{"value":{"$array":0},"parts":[{"dtype":"<f8","shape":[4611686018427387904,4],"bytes":0}]}"#;
    for (state, words) in [
        (b"pickle".to_vec(), "not one of a hook in Python"),
        (good.to_vec(), "truncated"),
        ([good.as_slice(), &[255; 8]].concat(), "truncated"),
        (head("{"), "damaged"),
        (head(r#"{"value":{"$array":3},"parts":[]}"#), "no part 3"),
        (head(r#"{"value":1,"parts":[{"bytes":9}]}"#), "truncated"),
        (
            head(r#"{"value":{"$array":0},"parts":[{"dtype":"|O","shape":[],"bytes":0}]}"#),
            "are not stored",
        ),
        (head(huge), "does not fit"),
        (head(&"[".repeat(100_000)), "damaged"),
    ] {
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        fs::write(place.path().join("state"), &state).expect("a file can be written");
        // Through the function that a resume calls.
        let text = format!(
            "def before_run(self, task):\n    from sconce import _state\n    _state.decode(open({:?}, 'rb').read())",
            place.path().join("state")
        );
        let Some(reader) = Script::new(&text) else {
            return;
        };
        let failed = run().drive::<Python>(reader.config(json!({}))).unwrap_err();
        let needs_numpy = words == "does not fit" || words == "are not stored";
        let has_none = failed.message.contains("No module named 'numpy'");
        assert!(
            failed.message.contains(words) || needs_numpy && has_none,
            "{words}: {failed}"
        );
    }
}

#[test]
fn exceptions_are_the_hooks_errors_with_a_traceback() {
    for (body, message) in [
        ("raise ValueError('bad\\x1b')", "ValueError: bad\u{1b}"),
        (
            "import sys; sys.exit(0)",
            "SystemExit: the hook called sys.exit(0)",
        ),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise sconce.HookError('no luck')", "no luck"),
        ("task.stop(3)", "TypeError: stop() expects a text"),
        (
            "task.stop()",
            "TypeError: stop() takes 1 argument (reason: str), found 0",
        ),
        (
            "task.unfreeze()",
            "TypeError: unfreeze() takes 1 to 2 arguments (parameter: str, learning_rate_multiplier: float = 1.0), found 0",
        ),
        (
            "task.skip_batch(1)",
            "TypeError: skip_batch() takes 0 arguments, found 1",
        ),
        ("task.parameter('w2')", "parameters have no `w2`"),
        ("task.metric_of('tests', 'loss')", "no phase `tests`"),
        (
            "import no_such_module",
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
    ] {
        let text = format!(
            "def helper(self, task):\n    {body}\ndef after_iter(self, task):\n    self.helper(task)"
        );
        let Some(script) = Script::new(&text) else {
            return;
        };
        let failed = run().drive::<Python>(script.config(json!({}))).unwrap_err();
        assert!(failed.message.starts_with(message), "{message}: {failed}");
        assert!(
            failed.message.contains("in after_iter") && failed.message.contains("in helper"),
            "{failed}"
        );
        let place = failed.source_location.as_str();
        assert!(place.ends_with("case.py:8"), "{place}");
    }
}

#[test]
fn an_unknown_attribute_of_the_task_is_near_a_known_one() {
    let Some(script) = Script::new(
        "
def after_iter(self, task):
    import sys
    if sys.version_info < (3, 10):
        raise sconce.HookError('exceptions do not say what lacks the attribute: did you mean `learning_rate`?')
    task.learning_rte
",
    ) else {
        return;
    };
    let failed = run().drive::<Python>(script.config(json!({}))).unwrap_err();
    let words = "did you mean `learning_rate`?";
    assert!(failed.message.contains(words), "{failed}");
}

#[test]
fn a_configuration_is_checked_against_the_class() {
    let dataclass = "
@dataclass
class Config:
    bins: int
    rate: float = 0.5
    kind: Literal['a', 'b'] = 'a'
    edges: List[float] = field(default_factory=list)
    name: Optional[str] = None
    def __post_init__(self):
        if self.rate < 0:
            raise ValueError('`rate` must not be negative')
        if self.rate > 1:
            raise ValueError(f'`rate`: {self.rate} is above 1')
def __init__(self, config, setup):
    super().__init__(config, setup)
    if config.bins == 13:
        raise ValueError('`bins`: 13 brings bad luck')
def before_run(self, task):
    print(self.config)
";
    let schema = "
Config = {'type': 'object', 'additionalProperties': False, 'required': ['bins'], 'properties': {
    'bins': {'type': 'integer', 'minimum': 1}, 'rate': {'type': 'number', 'default': 0.5},
    'kind': {'enum': ['a', 'b']}, 'edges': {'type': 'array', 'items': {'type': 'number'}}}}
def before_run(self, task):
    print(self.config)
";
    for (text, cases) in [
        (
            dataclass,
            vec![
                (json!({}), "config", "`bins` is missing"),
                (
                    json!({"bins": 1.5}),
                    "config.bins",
                    "expected a whole number, found 1.5",
                ),
                (
                    json!({"bins": true}),
                    "config.bins",
                    "expected a whole number, found True",
                ),
                (
                    json!({"bins": 1, "edges": [1, "x"]}),
                    "config.edges[1]",
                    "expected a number, found a text",
                ),
                (
                    json!({"bins": 1, "kind": "c"}),
                    "config.kind",
                    "must be one of 'a', 'b'",
                ),
                (
                    json!({"bins": 1, "binz": 1}),
                    "config.binz",
                    "did you mean `bins`?",
                ),
                (
                    json!({"bins": 1, "rate": -1}),
                    "config",
                    "`rate` must not be negative",
                ),
                (
                    json!({"bins": 1, "rate": 2}),
                    "config.rate",
                    "2.0 is above 1",
                ),
                (json!({"bins": 13}), "config.bins", "13 brings bad luck"),
            ],
        ),
        (
            schema,
            vec![
                (json!({}), "config", "`bins` is missing"),
                (
                    json!({"bins": 0}),
                    "config.bins",
                    "must be at least 1, found 0",
                ),
                (
                    json!({"bins": "x"}),
                    "config.bins",
                    "expected a whole number, found a text",
                ),
                (
                    json!({"bins": 1, "edges": [1, "x"]}),
                    "config.edges[1]",
                    "expected a number",
                ),
                (
                    json!({"bins": 1, "kind": "c"}),
                    "config.kind",
                    "must be one of",
                ),
                (
                    json!({"bins": 1, "rat": 1}),
                    "config.rat",
                    "did you mean `rate`?",
                ),
            ],
        ),
    ] {
        let Some(script) = Script::new(text) else {
            return;
        };
        for (config, path, words) in cases {
            let failed = run().drive::<Python>(script.config(config)).unwrap_err();
            assert!(
                failed.message.contains(&format!("`{path}`: ")),
                "{path}: {failed}"
            );
            assert_eq!(
                failed.message.matches(words).count(),
                1,
                "{words}: {failed}"
            );
        }
        let seen = run()
            .drive::<Python>(script.config(json!({"bins": 3})))
            .expect("it is right");
        let printed = &seen.messages()[0].text;
        assert!(
            printed.contains('3') && printed.contains("0.5"),
            "{printed}"
        );
    }
}

#[test]
fn what_is_not_a_hook_is_refused_and_a_misspelt_method_warned_of() {
    for (text, words) in [
        (
            "\nclass Other(sconce.Hook):\n    pass",
            "has several hooks: choose one with `class`",
        ),
        (
            "async def after_iter(self, task):\n    pass",
            "`after_iter` is a coroutine",
        ),
        ("def x(:", "SyntaxError"),
    ] {
        // Back at the margin for a class of its own.
        let Some(script) = Script::new(if text.starts_with('\n') { "" } else { text }) else {
            return;
        };
        if let Some(more) = text.strip_prefix('\n') {
            let file = script.place.path().join("case.py");
            let before = fs::read_to_string(&file).expect("a file can be read");
            fs::write(&file, before + more).expect("a file can be written");
        }
        let failed = run().drive::<Python>(script.config(json!({}))).unwrap_err();
        assert!(failed.message.contains(words), "{words}: {failed}");
    }
    let Some(script) = Script::new("def after_batch(self, task):\n    pass") else {
        return;
    };
    let seen = run()
        .drive::<Python>(script.config(json!({})))
        .expect("it does nothing");
    let warnings = seen.warnings();
    assert!(
        warnings[0].contains("did you mean `after_iter`?"),
        "{warnings:?}"
    );
    assert!(warnings[1].contains("it has no method"), "{warnings:?}");
    drop(script);
    let names = [
        ("afer_epoch", Some("after_epoch")),
        ("beforeepoch", Some("before_epoch")),
        ("load_state", Some("load_state_dict")),
        ("update", None),
        ("iterate", None),
    ];
    let methods = names.map(|(name, _)| format!("def {name}(self):\n    pass\n"));
    let text = methods.concat() + "def after_run(self, task, outcome):\n    pass";
    let Some(script) = Script::new(&text) else {
        return;
    };
    let seen = run()
        .drive::<Python>(script.config(json!({})))
        .expect("it does nothing");
    let warnings = seen.warnings();
    for (name, meant) in names {
        let of_name = warnings
            .iter()
            .find(|text| text.starts_with(&format!("`{name}`")));
        let is_meant = |text: &str| {
            meant.is_some_and(|meant| text.ends_with(&format!("did you mean `{meant}`?")))
        };
        assert!(
            of_name.map_or(meant.is_none(), |text| is_meant(text)),
            "{name}: {warnings:?}"
        );
    }
    let mut config = script.config(json!({}));
    config["class"] = json!("Cas");
    let failed = run().drive::<Python>(config).unwrap_err();
    assert!(
        failed.message.contains("there is no class `Cas`") && failed.message.contains("`Case`?"),
        "{failed}"
    );
}
