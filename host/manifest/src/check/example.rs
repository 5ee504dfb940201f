//! Examples of values that a schema accepts, for messages about values of another form.

use sconce_schema::CompiledSchema;
use serde_json::{Map, Value, json};

/// Maximum depth of an example.
const DEEPEST: usize = 6;

/// Longest example that is shown, in bytes.
const LONGEST: usize = 120;

/// Shows how a value may be written: `` for example `"every": {"epochs":1}` ``. `None` if no short example follows from the
/// schema.
pub fn hint(schema: &Value, key: Option<&str>) -> Option<String> {
    let example = example(schema)?.to_string();
    (example.len() <= LONGEST).then(|| match key {
        Some(key) => format!("for example `\"{key}\": {example}`"),
        None => format!("for example `{example}`"),
    })
}

/// A value that the schema accepts: the one that it names as an example, or the least that it admits. A schema that refers
/// to definitions outside of it, as layers within layers do, can't be asked.
pub(crate) fn example(schema: &Value) -> Option<Value> {
    let example = draft(schema, 0).filter(|example| !example.is_null())?;
    let accepts = CompiledSchema::new(schema).map_or(true, |schema| schema.accepts(&example));
    accepts.then_some(example)
}

fn draft(schema: &Value, depth: usize) -> Option<Value> {
    if depth > DEEPEST {
        return None;
    }
    let first = |key: &str| schema.get(key)?.as_array()?.first().cloned();
    if let Some(value) = first("examples").or_else(|| schema.get("const").cloned()) {
        return Some(value);
    }
    let branches = ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(|key| schema.get(key)?.as_array());
    let of_branches = branches
        .flatten()
        .filter_map(|branch| draft(branch, depth + 1));
    if let Some(value) = of_branches.into_iter().find(|value| !value.is_null()) {
        return Some(value);
    }
    first("enum").or_else(|| match type_of(schema)? {
        "object" => object(schema, depth),
        "array" => list(schema, depth),
        "string" => Some(json!("…")),
        "boolean" => Some(json!(true)),
        "integer" | "number" => Some(number(schema)),
        _ => None,
    })
}

/// The type, where one may also be left out.
fn type_of(schema: &Value) -> Option<&str> {
    match schema.get("type")? {
        Value::Array(types) => types
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null"),
        kind => kind.as_str(),
    }
}

/// The required members, or, where none is required, the first one.
fn object(schema: &Value, depth: usize) -> Option<Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let mut members = Map::new();
    for key in required
        .into_iter()
        .flatten()
        .filter_map(|key| key.as_str())
    {
        let member = draft(properties?.get(key)?, depth + 1)?;
        members.insert(key.to_owned(), member);
    }
    if members.is_empty() {
        let first = properties.into_iter().flatten().find_map(|(key, schema)| {
            Some((
                key.clone(),
                draft(schema, depth + 1).filter(|value| !value.is_null())?,
            ))
        });
        members.extend(first);
    }
    Some(Value::Object(members))
}

/// As few equal elements as the schema admits, but at least one.
fn list(schema: &Value, depth: usize) -> Option<Value> {
    let element = draft(schema.get("items")?, depth + 1)?;
    let least = schema
        .get("minItems")
        .and_then(Value::as_u64)
        .unwrap_or(1)
        .clamp(1, 8);
    Some(Value::Array(vec![element; usize::try_from(least).ok()?]))
}

/// The default, 1 if that is in the range, or a number in it.
fn number(schema: &Value) -> Value {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let least = bound("minimum").or(bound("exclusiveMinimum"));
    let is_below_one = bound("exclusiveMaximum").is_some_and(|most| most <= 1.0);
    match schema.get("default") {
        Some(Value::Number(default)) => Value::Number(default.clone()),
        _ if is_below_one => json!(0.5),
        _ if least.is_some_and(|least| least > 1.0) => {
            schema.get("minimum").cloned().unwrap_or_else(|| json!(1))
        }
        _ => json!(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_what_the_schema_names_or_its_least() {
        for (schema, expected) in [
            (
                json!({"type": "integer", "minimum": 16}),
                "for example `\"key\": 16`",
            ),
            (
                json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
                "for example `\"key\": 0.5`",
            ),
            (
                json!({"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 2}),
                "for example `\"key\": [1,1]`",
            ),
            (
                json!({"type": "object", "examples": [{"a": 3}]}),
                "for example `\"key\": {\"a\":3}`",
            ),
            (
                json!({"anyOf": [{"type": "null"}, {"const": "x"}]}),
                "for example `\"key\": \"x\"`",
            ),
        ] {
            assert_eq!(hint(&schema, Some("key")).as_deref(), Some(expected));
        }
        // None that would be refused itself.
        assert_eq!(
            hint(&json!({"type": "string", "pattern": "^[0-9]+$"}), None),
            None
        );
    }
}
