//! Configurations generated from a JSON Schema: minimal, random and invalid ones.

use serde_json::{Map, Value, json};

use crate::manifest::schema_check;
use crate::random::Stream;

/// Maximum depth of generated values.
const DEEPEST: usize = 4;

/// The keys that a configuration may have, with the schemas of their values.
pub(in crate::validate) fn options(schema: &Value) -> Vec<(&str, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    properties
        .map(|(key, value)| (key.as_str(), value))
        .collect()
}

/// The keys that a configuration must have.
pub(in crate::validate) fn required(schema: &Value) -> Vec<&str> {
    let keys = schema.get("required").and_then(Value::as_array);
    keys.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The minimal configuration that the schema allows.
pub(in crate::validate) fn least(schema: &Value) -> Value {
    object(schema, &mut ChoicePolicy::Least, 0)
}

/// A random configuration that the schema allows; `None` if none was found.
pub(in crate::validate) fn random(schema: &Value, stream: &mut Stream) -> Option<Value> {
    (0..20)
        .map(|_| object(schema, &mut ChoicePolicy::Random(stream), 0))
        .find(|config| schema_check::check(config, schema).is_empty())
}

/// A configuration with one key set.
pub(in crate::validate) fn with(config: &Value, key: &str, value: Value) -> Value {
    let mut config = config.clone();
    if let Value::Object(members) = &mut config {
        members.insert(key.to_owned(), value);
    }
    config
}

/// A value of every JSON type, and some that look like another type.
pub(in crate::validate) fn kinds() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(0.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("text"),
        json!("1"),
        json!("\u{0}\n\u{1f525}"),
        json!([]),
        json!([null, [1], {}]),
        json!({}),
        json!({"key": 1}),
    ]
}

/// Values at and around the bounds of a number's schema, if it has any.
pub(in crate::validate) fn bounds(schema: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for branch in branches(schema) {
        let is_whole = branch.get("type").is_some_and(|kind| has(kind, "integer"));
        let is_number = is_whole || branch.get("type").is_some_and(|kind| has(kind, "number"));
        if !is_number {
            continue;
        }
        for key in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
            let Some(bound) = branch.get(key) else {
                continue;
            };
            found.push(bound.clone());
            match (bound.as_i64(), bound.as_f64()) {
                (Some(bound), _) if is_whole => {
                    found.push(json!(bound.saturating_sub(1)));
                    found.push(json!(bound.saturating_add(1)));
                }
                (_, Some(bound)) => {
                    found.push(json!(bound.next_down()));
                    found.push(json!(bound.next_up()));
                    found.push(json!(bound - 1.0));
                    found.push(json!(bound + 1.0));
                }
                _ => {}
            }
        }
        let extremes = if is_whole {
            vec![json!(i64::MIN), json!(0), json!(1), json!(u64::MAX)]
        } else {
            vec![
                json!(-f64::MAX),
                json!(-0.0),
                json!(5e-324),
                json!(f64::MAX),
            ]
        };
        found.extend(extremes);
    }
    found
}

/// The alternatives of a schema: itself, or those that it lists.
fn branches(schema: &Value) -> Vec<&Value> {
    let listed = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key));
    match listed.and_then(Value::as_array) {
        Some(branches) => branches.iter().collect(),
        None => vec![schema],
    }
}

fn has(kind: &Value, name: &str) -> bool {
    match kind {
        Value::String(kind) => kind == name,
        Value::Array(kinds) => kinds.iter().any(|kind| kind == name),
        _ => false,
    }
}

/// The policy for open choices.
enum ChoicePolicy<'a> {
    /// The default, else the first or the smallest possibility.
    Least,
    /// A random possibility.
    Random(&'a mut Stream),
}

impl ChoicePolicy<'_> {
    fn below(&mut self, bound: usize) -> usize {
        match self {
            ChoicePolicy::Least => 0,
            ChoicePolicy::Random(stream) => stream.below(bound.max(1) as u64) as usize,
        }
    }

    /// True with this probability; never for `Least`.
    fn happens(&mut self, chance: f64) -> bool {
        match self {
            ChoicePolicy::Least => false,
            ChoicePolicy::Random(stream) => stream.unit() < chance,
        }
    }
}

fn object(schema: &Value, choice: &mut ChoicePolicy<'_>, depth: usize) -> Value {
    let required = required(schema);
    let mut members = Map::new();
    for (key, schema) in options(schema) {
        if required.contains(&key) || choice.happens(0.5) {
            members.insert(key.to_owned(), value(schema, choice, depth + 1));
        }
    }
    Value::Object(members)
}

fn value(schema: &Value, choice: &mut ChoicePolicy<'_>, depth: usize) -> Value {
    if let Some(default) = schema.get("default")
        && !choice.happens(0.7)
    {
        return default.clone();
    }
    if let Some(only) = schema.get("const") {
        return only.clone();
    }
    if let Some(Value::Array(examples)) = schema.get("examples")
        && let Some(example) = examples.get(choice.below(examples.len()))
    {
        return example.clone();
    }
    if let Some(Value::Array(all)) = schema.get("enum")
        && let Some(one) = all.get(choice.below(all.len()))
    {
        return one.clone();
    }
    let ways = branches(schema);
    if let Some(way) = ways.get(choice.below(ways.len()))
        && !std::ptr::eq(*way, schema)
    {
        return value(way, choice, depth);
    }
    let kinds = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(kind)) => vec![kind.as_str()],
        _ => vec![],
    };
    match kinds.get(choice.below(kinds.len())).copied() {
        Some("integer") => json!(number(schema, choice).round() as i64),
        Some("number") => json!(number(schema, choice)),
        Some("string") => text(schema, choice),
        Some("boolean") => json!(choice.happens(0.5)),
        Some("array") => array(schema, choice, depth),
        Some("object") if depth < DEEPEST => object(schema, choice, depth),
        Some("object") => json!({}),
        _ => Value::Null,
    }
}

fn number(schema: &Value, choice: &mut ChoicePolicy<'_>) -> f64 {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let is_whole = schema.get("type").is_some_and(|kind| has(kind, "integer"));
    let step = if is_whole { 1.0 } else { 1e-3 };
    let low = bound("minimum").or(bound("exclusiveMinimum").map(|bound| bound + step));
    let high = bound("maximum").or(bound("exclusiveMaximum").map(|bound| bound - step));
    let low = low.unwrap_or_else(|| high.map_or(0.0, |high| high.min(0.0)));
    // Without an upper bound, avoid huge values: another test tries those.
    let high = high.unwrap_or(f64::MAX).min(low + 50.0);
    match choice {
        ChoicePolicy::Least => low.max(1.0).min(high),
        ChoicePolicy::Random(stream) => stream.uniform(low, high),
    }
}

fn text(schema: &Value, choice: &mut ChoicePolicy<'_>) -> Value {
    let is_metric = schema
        .get("format")
        .is_some_and(|format| format == sconce_plugin_api::METRIC_FORMAT);
    let texts: &[&str] = if is_metric {
        &["val/loss", "train/loss", "val/accuracy", "loss"]
    } else {
        &[
            "a",
            "b.txt",
            "val/loss",
            "é\u{1f525}",
            "*",
            "two words",
            "{epoch}",
            "fc1.weight",
        ]
    };
    json!(texts.get(choice.below(texts.len())))
}

fn array(schema: &Value, choice: &mut ChoicePolicy<'_>, depth: usize) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
    let least = bound("minItems").unwrap_or(0) as usize;
    let most = bound("maxItems").map_or(least + 3, |most| (most as usize).min(least + 3));
    let count = least + choice.below(most.saturating_sub(least) + 1);
    let Some(items) = schema.get("items") else {
        return json!(vec![Value::Null; least]);
    };
    (0..count)
        .map(|_| value(items, choice, depth + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    fn schema() -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["monitor", "count"],
            "properties": {
                "monitor": {"type": "string", "format": sconce_plugin_api::METRIC_FORMAT},
                "count": {"type": "integer", "minimum": 3, "maximum": 9},
                "share": {"type": ["number", "null"], "minimum": 0.0, "maximum": 1.0},
                "mode": {"oneOf": [{"const": "min"}, {"const": "max"}], "default": "max"},
                "names": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            },
        })
    }

    #[test]
    fn the_least_has_what_is_required_and_random_ones_are_allowed() {
        assert_eq!(least(&schema()), json!({"monitor": "val/loss", "count": 3}));
        let mut stream = stream(1, "configs", 0, 0);
        let mut seen = Vec::new();
        for _ in 0..50 {
            let config = random(&schema(), &mut stream).expect("one that is allowed");
            seen.extend(config.as_object().expect("an object").keys().cloned());
        }
        for key in ["share", "mode", "names"] {
            assert!(seen.iter().any(|seen| seen == key), "never `{key}`");
        }
    }

    #[test]
    fn bounds_are_met_and_left() {
        let schema = schema();
        let values = bounds(&schema["properties"]["count"]);
        for number in [2, 3, 4, 8, 9, 10] {
            assert!(values.contains(&json!(number)), "{number}");
        }
        assert!(bounds(&schema["properties"]["mode"]).is_empty());
    }
}
