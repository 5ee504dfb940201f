//! The parts of JSON Schema that a configuration's Rust type does not enforce: ranges and lengths.
//!
//! A host checks configurations against the whole schema before creating a hook; `serde` in the hook checks
//! only names and types.

use serde_json::Value;

/// Describes the first value that is out of range; `None` if there is none.
pub(super) fn problem(schema: &Value, value: &Value) -> Option<String> {
    at(schema, value, "")
}

fn at(schema: &Value, value: &Value, path: &str) -> Option<String> {
    if let Some(problem) = number(schema, value).or_else(|| length(schema, value)) {
        let path = if path.is_empty() {
            "the configuration"
        } else {
            path
        };
        return Some(format!("{path} {problem}"));
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (key, schema) in properties {
            let Some(value) = value.get(key) else {
                continue;
            };
            let path = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            if let Some(problem) = at(schema, value, &path) {
                return Some(problem);
            }
        }
    }
    if let (Some(items), Value::Array(values)) = (schema.get("items"), value) {
        for (index, value) in values.iter().enumerate() {
            if let Some(problem) = at(items, value, &format!("{path}[{index}]")) {
                return Some(problem);
            }
        }
    }
    if let (Some(of_others), Value::Object(values)) = (schema.get("additionalProperties"), value) {
        let named = schema.get("properties");
        let is_other = |key: &str| named.and_then(|named| named.get(key)).is_none();
        for (key, value) in values.iter().filter(|(key, _)| is_other(key)) {
            if let Some(problem) = at(of_others, value, &format!("{path}.{key}")) {
                return Some(problem);
            }
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(choices)) = schema.get(keyword) {
            let mut problems = choices.iter().map(|choice| at(choice, value, path));
            if choices
                .iter()
                .all(|choice| at(choice, value, path).is_some())
            {
                return problems.next().flatten();
            }
        }
    }
    None
}

fn number(schema: &Value, value: &Value) -> Option<String> {
    let found = value.as_f64()?;
    let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let is_wrong = |keyword, is_wrong: fn(f64, f64) -> bool, words: &str| {
        let limit = limit(keyword)?;
        is_wrong(found, limit).then(|| format!("must be {words} {limit}, found {value}"))
    };
    is_wrong("minimum", |found, limit| found < limit, "at least")
        .or_else(|| is_wrong("maximum", |found, limit| found > limit, "at most"))
        .or_else(|| is_wrong("exclusiveMinimum", |found, limit| found <= limit, "above"))
        .or_else(|| is_wrong("exclusiveMaximum", |found, limit| found >= limit, "below"))
}

fn length(schema: &Value, value: &Value) -> Option<String> {
    let (length, least, most, what) = match value {
        Value::String(text) => (text.chars().count(), "minLength", "maxLength", "characters"),
        Value::Array(values) => (values.len(), "minItems", "maxItems", "entries"),
        Value::Object(values) => (values.len(), "minProperties", "maxProperties", "entries"),
        _ => return None,
    };
    let limit = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
    if limit(least).is_some_and(|limit| (length as u64) < limit) {
        return Some(format!("must have at least {} {what}", limit(least)?));
    }
    if limit(most).is_some_and(|limit| length as u64 > limit) {
        return Some(format!("must have at most {} {what}", limit(most)?));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_out_of_its_range_is_named() {
        let schema = json!({"properties": {
            "rate": {"minimum": 0, "exclusiveMaximum": 1},
            "names": {"items": {"minLength": 1}, "minItems": 1},
            "limit": {"anyOf": [{"type": "null"}, {"minimum": 1}]},
            "factors": {"minProperties": 1},
        }});
        let problem = |config| problem(&schema, &config);
        assert_eq!(
            problem(json!({"rate": 0.5, "names": ["a"], "limit": 3})),
            None
        );
        let found = problem(json!({"rate": 1.0}));
        assert_eq!(found.as_deref(), Some("rate must be below 1, found 1.0"));
        let found = problem(json!({"rate": -1}));
        assert_eq!(found.as_deref(), Some("rate must be at least 0, found -1"));
        let found = problem(json!({"names": ["a", ""]}));
        assert_eq!(
            found.as_deref(),
            Some("names[1] must have at least 1 characters")
        );
        assert!(problem(json!({"names": []})).is_some());
        assert!(problem(json!({"factors": {}})).is_some());
    }
}
