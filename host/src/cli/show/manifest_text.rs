//! Formatting of a manifest as people write it: keys in their usual order, short values on one
//! line.

use serde_json::{Map, Value};

/// Order of keys at every level; others follow in their original order.
const ORDER: [&str; 15] = [
    "$schema",
    "name",
    "seed",
    "kind",
    "hook",
    "plugins",
    "model",
    "data",
    "metrics",
    "optimizer",
    "train",
    "epochs",
    "batch_size",
    "hooks",
    "config",
];

/// Maximum width of a line that holds a complete list or object.
const WIDTH: usize = 88;

/// Returns the manifest's text, with a final line break.
pub(in crate::cli) fn text(manifest: &Value) -> String {
    let mut text = String::from("{\n");
    let entries = manifest.as_object().map(ordered).unwrap_or_default();
    let lines: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("  {}: {}", Value::from(key), broken(value, key.len() + 8)))
        .collect();
    text.push_str(&lines.join(",\n"));
    text.push_str("\n}\n");
    text
}

/// Formats a value on one line, or one entry per line if that would be too long.
fn broken(value: &Value, before: usize) -> String {
    let line = on_one_line(value);
    if before + line.len() <= WIDTH {
        return line;
    }
    match value {
        Value::Array(values) => {
            let lines: Vec<String> = values.iter().map(on_one_line).collect();
            format!("[\n    {}\n  ]", lines.join(",\n    "))
        }
        Value::Object(map) => {
            let entries = ordered(map).into_iter();
            let lines: Vec<String> = entries
                .map(|(key, value)| format!("{}: {}", Value::from(key), on_one_line(value)))
                .collect();
            format!("{{\n    {}\n  }}", lines.join(",\n    "))
        }
        _ => line,
    }
}

pub(super) fn on_one_line(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(on_one_line).collect();
            format!("[{}]", values.join(", "))
        }
        Value::Object(map) if !map.is_empty() => {
            let entries = ordered(map).into_iter();
            let entries: Vec<String> = entries
                .map(|(key, value)| format!("{}: {}", Value::from(key), on_one_line(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

pub(super) fn ordered(map: &Map<String, Value>) -> Vec<(&str, &Value)> {
    let mut entries: Vec<(&str, &Value)> = map
        .iter()
        .map(|(key, value)| (key.as_str(), value))
        .collect();
    // The sort is stable: other keys keep their order.
    entries.sort_by_key(|(key, _)| {
        ORDER
            .iter()
            .position(|known| known == key)
            .unwrap_or(ORDER.len())
    });
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_the_same_value_in_the_usual_order() {
        let manifest = json!({
            "hooks": ["console", {"config": {"text": "a\"b".repeat(30)}, "hook": "x"}],
            "model": {"hidden": [32], "kind": "mlp"},
            "name": "run",
        });
        let text = text(&manifest);
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(manifest));
        assert!(text.starts_with("{\n  \"name\": \"run\",\n  \"model\": { \"kind\": \"mlp\", \"hidden\": [32] },\n  \"hooks\": [\n    \"console\",\n    { \"hook\": \"x\""), "{text}");
    }
}
