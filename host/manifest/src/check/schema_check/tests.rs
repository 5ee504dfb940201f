//! Messages for values that do not fit their schema.

use serde_json::json;

use super::*;
use sconce_nn::loss::WrittenLoss;
use sconce_nn::metric::MetricConfig;

fn messages(value: &Value, schema: &Value) -> Vec<String> {
    let problems = check(value, schema).into_iter();
    problems
        .map(|problem| match problem.hint {
            Some(hint) => format!("{}: {}; {hint}", problem.path, problem.message),
            None => format!("{}: {}", problem.path, problem.message),
        })
        .collect()
}

#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only the schema is wanted")]
enum Stop {
    Never,
    After { epochs: u64 },
    AtLoss(f64),
}

#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only the schema is wanted")]
struct Config {
    stop: Option<Stop>,
    small: Option<u8>,
    count: Option<u64>,
    #[schemars(range(max = 9))]
    digit: Option<u64>,
    level: Option<i32>,
}

#[test]
fn a_value_of_none_of_several_forms_is_reported_with_all_of_them() {
    let schema = schemars::schema_for!(Config).to_value();
    for (stop, expected) in [
        (
            json!(3),
            "stop: expected `never` or an object with `after` or an object with `at-loss`, \
             found 3; write `\"stop\": {\"at-loss\":3}`",
        ),
        (
            json!({"aftr": {"epochs": 3}}),
            "stop: expected `never` or an object with `after` or an object with `at-loss`, \
             found {\"aftr\":{\"epochs\":3}}; did you mean `after`?",
        ),
        (
            json!({"after": {"epochs": "x"}}),
            "stop.after.epochs: expected a whole number, found \"x\"",
        ),
    ] {
        assert_eq!(messages(&json!({"stop": stop}), &schema), [expected]);
    }
    let layers = json!({"anyOf": [
        {"type": "object", "properties": {"kind": {"const": "relu"}}, "required": ["kind"]},
        {"type": "object", "properties": {"kind": {"const": "tanh"}}, "required": ["kind", "a"]}
    ]});
    assert_eq!(
        messages(&json!("rellu"), &layers),
        [": expected an object with `kind`, found \"rellu\"; did you mean `{\"kind\": \"relu\"}`?"]
    );
    for right in [json!("never"), json!({"at-loss": 1}), json!(null)] {
        assert!(messages(&json!({"stop": right}), &schema).is_empty());
    }
}

#[test]
fn whole_numbers_are_those_that_the_types_hold() {
    let schema = schemars::schema_for!(Config).to_value();
    for (value, expected) in [
        (
            json!({"count": 3.0}),
            "count: expected a whole number, found 3.0; write `3`",
        ),
        (
            json!({"count": 3.5}),
            "count: expected a whole number, found 3.5",
        ),
        (
            json!({"count": 18_446_744_073_709_551_616.0}),
            "count: must be at most 18446744073709551615, found 1.8446744073709552e+19",
        ),
        (json!({"count": -1}), "count: must be at least 0, found -1"),
        (
            json!({"small": 256}),
            "small: must be at most 255, found 256",
        ),
        (
            json!({"digit": 1e30}),
            "digit: must be at most 9, found 1e+30",
        ),
        (
            json!({"level": 2_147_483_648_u64}),
            "level: must be at most 2147483647, found 2147483648",
        ),
        (
            json!({"level": -1e300}),
            "level: must be at least -2147483648, found -1e+300",
        ),
    ] {
        assert_eq!(messages(&value, &schema), [expected]);
    }
    assert!(messages(&json!({"count": u64::MAX, "small": 255}), &schema).is_empty());
}

#[test]
fn keys_are_reported_short_and_in_one_line() {
    let schema = json!({"type": "object", "additionalProperties": false});
    let long = "k".repeat(100_000);
    let value = json!({"a\u{1b}\nb": 1, long: 2});
    let found = check(&value, &schema);
    assert_eq!(found[0].message, "unknown key `a\\u{1b}\\nb`");
    assert_eq!(
        found[1].message,
        format!("unknown key `{}…`", "k".repeat(60))
    );
}

#[test]
fn texts_of_a_format_are_found_wherever_they_stand() {
    let metric = json!({"type": "string", "format": "metric"});
    let schema = json!({
        "type": "object",
        "properties": {
            "monitor": metric,
            "more": {"type": "array", "items": {"$ref": "#/$defs/one"}},
            "maybe": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/one"}]},
            "name": {"type": "string"}
        },
        "$defs": {"one": metric}
    });
    let value = json!({"monitor": "a", "more": ["b", "c"], "maybe": "d", "name": "e"});
    let found: Vec<String> = of_format(&value, &schema, "metric")
        .into_iter()
        .map(|path| path.pretty)
        .collect();
    assert_eq!(found.len(), 4, "{found:?}");
    for path in ["monitor", "more[0]", "more[1]", "maybe"] {
        assert!(found.contains(&path.to_owned()), "{found:?}");
    }
}

#[test]
fn a_schema_that_is_none_finds_nothing() {
    assert!(check(&json!(1), &json!({"type": "nonsense"})).is_empty());
}

#[test]
fn of_texts_and_an_object_the_one_is_reported_that_was_meant() {
    let texts = json!({"oneOf": [
        {"type": "string", "const": "computed"},
        {"type": "string", "const": "none"}
    ]});
    let object = json!({
        "type": "object",
        "properties": {"mean": {}},
        "additionalProperties": false
    });
    let schema = json!({"properties": {"a": {"anyOf": [texts, object]}}});
    for (value, expected) in [
        (json!({"maen": 1}), "a.maen: unknown key `maen`"),
        (
            json!("computd"),
            "a: expected one of `computed`, `none`, found \"computd\"",
        ),
    ] {
        let found = messages(&json!({"a": value}), &schema);
        assert!(
            found.len() == 1 && found[0].starts_with(expected),
            "{found:?}"
        );
    }
    let numbers = messages(
        &json!({"a": 20}),
        &json!({"properties": {"a": {"enum": [10, 100]}}}),
    );
    assert_eq!(numbers, ["a: expected one of `10`, `100`, found 20"]);
}

#[test]
fn problems_of_losses_are_reported_where_they_are() {
    let schema = schemars::schema_for!(WrittenLoss).to_value();
    for (written, path, words) in [
        (
            json!({"kind": "mse", "delta": 1}),
            "delta",
            "unknown key `delta`",
        ),
        (
            json!({"kind": "huber", "dleta": 1}),
            "dleta",
            "unknown key `dleta`",
        ),
        (
            json!({"kind": "cross-entropie"}),
            "kind",
            "expected one of `cross-entropy`",
        ),
        (
            json!({"kind": "cross-entropy", "label_smoothing": 1}),
            "label_smoothing",
            "must be below 1",
        ),
        (
            json!({"kind": "cross-entropy", "class_weights": [1, "a"]}),
            "class_weights[1]",
            "expected a number",
        ),
    ] {
        let problems = check(&written, &schema);
        let [problem] = problems.as_slice() else {
            panic!("{written}: {problems:?}");
        };
        assert_eq!(problem.path, path, "{written}: {problems:?}");
        assert!(problem.message.contains(words), "{written}: {problems:?}");
    }
}

#[test]
fn problems_of_metrics_are_reported_where_they_are() {
    let schema = schemars::schema_for!(Vec<MetricConfig>).to_value();
    for (written, path, words) in [
        (
            json!(["acuracy"]),
            "[0]",
            "expected one of `accuracy`, `top-k`",
        ),
        (
            json!(["mae", {"kind": "acuracy"}]),
            "[1].kind",
            "expected one of `accuracy`",
        ),
        (
            json!([{"kind": "top-k", "n": 3}]),
            "[0].n",
            "unknown key `n`",
        ),
        (json!([{"kind": "top-k", "k": 0}]), "[0].k", "at least 1"),
        (
            json!([{"kind": "f1", "average": "mean"}]),
            "[0].average",
            "`macro`, `micro`",
        ),
        (json!([3]), "[0]", "or an object, found 3"),
    ] {
        let problems = check(&written, &schema);
        let [problem] = problems.as_slice() else {
            panic!("{written}: {problems:?}");
        };
        assert_eq!(problem.path, path, "{written}: {problems:?}");
        assert!(problem.message.contains(words), "{written}: {problems:?}");
    }
    let near = check(&json!(["acuracy"]), &schema)[0].hint.clone();
    assert_eq!(near.as_deref(), Some("did you mean `accuracy`?"));
}
