//! Suggests the right form of a wrongly written value: `[64]` for `64`, `{"fraction": 0.2}` for `0.2`.

use sconce_schema::CompiledSchema;
use serde_json::{Value, json};

use super::example::example;
use sconce_base::nearest::nearest;

/// Maximum number of suggested forms.
const SHOWN: usize = 3;

/// Maximum number of elements of a suggested list.
const LONGEST_LIST: u64 = 8;

/// Suggests how the value should have been written according to `schema`. `None` if that can't be derived
/// from it.
pub(super) fn hint(found: &Value, schema: &Value, key: Option<&str>) -> Option<String> {
    let mut forms = Vec::new();
    for form in written(found, schema) {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    let shown: Vec<String> = forms
        .iter()
        .take(SHOWN)
        .map(|form| match key {
            Some(key) => format!("`\"{key}\": {form}`"),
            None => format!("`{form}`"),
        })
        .collect();
    match shown.as_slice() {
        [] => None,
        [only] => Some(format!("write {only}")),
        [first @ .., last] => Some(format!("write {} or {last}", first.join(", "))),
    }
}

/// The forms, valid under the schema, that the value may have been meant as.
fn written(found: &Value, schema: &Value) -> Vec<Value> {
    let branches = ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(|key| schema.get(key)?.as_array());
    let of_branches: Vec<Value> = branches
        .flatten()
        .flat_map(|branch| written(found, branch))
        .collect();
    if !of_branches.is_empty() {
        return of_branches;
    }
    match found {
        Value::Array(elements) => match elements.as_slice() {
            [only] if takes(schema, only) => vec![only.clone()],
            _ => of_names(elements, schema).into_iter().collect(),
        },
        Value::Null => Vec::new(),
        Value::String(text) if percentage(text).is_some() => {
            let fraction = json!(percentage(text));
            scalar(found, schema)
                .into_iter()
                .chain(object(&fraction, schema))
                .collect()
        }
        _ => [scalar(found, schema), list(found, schema)]
            .into_iter()
            .flatten()
            .chain(object(found, schema))
            .collect(),
    }
}

/// A number or boolean written as a string; an integer written with a fraction.
fn scalar(found: &Value, schema: &Value) -> Option<Value> {
    let read: Value = match found {
        Value::String(text) => {
            let text = text.trim();
            let lower = text.to_lowercase();
            let percent = percentage(text);
            match (lower.as_str(), percent) {
                ("true" | "yes" | "on", _) => json!(true),
                ("false" | "no" | "off", _) => json!(false),
                (_, Some(fraction)) => json!(fraction),
                _ => serde_json::from_str(text).ok().filter(Value::is_number)?,
            }
        }
        Value::Number(number) if number.as_f64() == Some(0.0) => json!(false),
        Value::Number(number) if number.as_f64() == Some(1.0) => json!(true),
        _ => return None,
    };
    takes(schema, &read).then_some(read)
}

/// The fraction that a text such as `20 %` says.
fn percentage(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix('%')?.trim().parse::<f64>().ok()?;
    Some(number / 100.0)
}

/// A list that contains only the value, as often as the list must have elements: `[28, 28]` for a size of 28.
fn list(found: &Value, schema: &Value) -> Option<Value> {
    let items = has_type(schema, "array")
        .then(|| schema.get("items"))
        .flatten()?;
    if takes(items, found) {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1);
        let count = usize::try_from(least.clamp(1, LONGEST_LIST)).ok()?;
        let repeated = Value::Array(vec![found.clone(); count]);
        return takes(schema, &repeated).then_some(repeated);
    }
    // One level deeper, such as `[{"monitor": "val/loss"}]` for a string.
    let inner = written(found, items);
    match inner.as_slice() {
        [only] => Some(json!([only])),
        _ => None,
    }
}

/// Objects with one key that accepts the value: the only required key, or any if none is required.
fn object(found: &Value, schema: &Value) -> Vec<Value> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Vec::new();
    };
    if found.is_object() || !has_type(schema, "object") {
        return Vec::new();
    }
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let fits = |key: &str| {
        properties
            .get(key)
            .is_some_and(|schema| takes(schema, found))
    };
    let with = |key: &str| {
        let mut object = serde_json::Map::new();
        object.insert(key.to_owned(), found.clone());
        Value::Object(object)
    };
    match required.as_slice() {
        [] => {
            // An `offset` alone is not valid.
            let keys = properties
                .keys()
                .filter(|key| fits(key) && *key != "offset");
            keys.map(|key| with(key)).collect()
        }
        [only] if fits(only) => vec![with(only)],
        _ => Vec::new(),
    }
}

/// An object for a list of the names of its members: `{"flip": "horizontal"}` for `["flip"]`.
fn of_names(elements: &[Value], schema: &Value) -> Option<Value> {
    let properties = schema.get("properties")?.as_object()?;
    let mut object = serde_json::Map::new();
    for name in elements {
        let name = nearest(name.as_str()?, properties.keys().map(String::as_str))?;
        object.insert(name.to_owned(), example(properties.get(name)?)?);
    }
    let object = Value::Object(object);
    (!elements.is_empty() && takes(schema, &object)).then_some(object)
}

/// Whether a schema accepts a value.
pub(super) fn takes(schema: &Value, value: &Value) -> bool {
    CompiledSchema::new(schema).is_ok_and(|schema| schema.accepts(value))
}

fn has_type(schema: &Value, wanted: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == wanted,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_from_the_value_and_the_schema() {
        let portion = json!({"type": "object", "properties": {
            "count": {"type": ["integer", "null"], "minimum": 1},
            "file": {"type": ["string", "null"]},
            "fraction": {"type": ["number", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": 1}
        }});
        let optional = json!({"anyOf": [portion, {"type": "null"}]});
        let file = json!({"type": "object", "required": ["file"], "properties": {
            "file": {"type": "string"}, "strict": {"type": "boolean"}
        }});
        let list = json!({"type": "array", "items": {"type": "integer", "minimum": 1}});
        let best = json!({"type": "array", "items": {"type": "object", "required": ["monitor"],
            "properties": {"monitor": {"type": "string"}, "keep": {"type": "integer"}}}});
        for (schema, found, expected) in [
            (
                &optional,
                json!(0.2),
                Some("write `\"key\": {\"fraction\":0.2}`"),
            ),
            (
                &optional,
                json!(500),
                Some("write `\"key\": {\"count\":500}`"),
            ),
            (
                &optional,
                json!("val.csv"),
                Some("write `\"key\": {\"file\":\"val.csv\"}`"),
            ),
            (&optional, json!(true), None),
            (
                &file,
                json!("w.safetensors"),
                Some("write `\"key\": {\"file\":\"w.safetensors\"}`"),
            ),
            (&list, json!(64), Some("write `\"key\": [64]`")),
            (&list, json!(-64), None),
            (
                &best,
                json!("val/loss"),
                Some("write `\"key\": [{\"monitor\":\"val/loss\"}]`"),
            ),
            (
                &json!({"type": "number"}),
                json!("1e-3"),
                Some("write `\"key\": 1e-3`"),
            ),
            (
                &json!({"type": "number"}),
                json!("20 %"),
                Some("write `\"key\": 0.2`"),
            ),
            (
                &json!({"type": "number"}),
                json!([5]),
                Some("write `\"key\": 5`"),
            ),
            (
                &json!({"type": "boolean"}),
                json!("True"),
                Some("write `\"key\": true`"),
            ),
            (
                &json!({"type": "boolean"}),
                json!(1),
                Some("write `\"key\": true`"),
            ),
            (&json!({"type": "integer"}), json!("five"), None),
        ] {
            let found_hint = hint(&found, schema, Some("key"));
            let plain = found_hint.map(|hint| hint.replace("0.001", "1e-3"));
            assert_eq!(plain.as_deref(), expected, "{found}");
        }
    }
}
