//! Explanation of a manifest's keys, from its schema.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Text of the file next to the manifest.
pub(super) fn notes(manifest: &Value, schema: &Value, file: &str) -> String {
    let mut text = format!(
        "# What stands in `{file}`\n\nA manifest is shorter without comments, so they stand here. Relative paths start at \
         the manifest's directory.\n"
    );
    let empty = Map::new();
    let properties = |schema: &Value| {
        schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    let known = properties(schema);
    let values = manifest.as_object().unwrap_or(&empty);
    for (key, schema) in known.iter().filter(|(key, _)| values.contains_key(*key)) {
        let value = values.get(key).unwrap_or(&Value::Null);
        // Writing to a string can't fail.
        let _ = write!(text, "\n## `{key}`\n\n{}\n", description(schema));
        let Value::Object(parts) = value else {
            continue;
        };
        let chosen = chosen(schema, value);
        if let Some(kind) = value.get("kind").and_then(Value::as_str) {
            let _ = write!(text, "\n`\"kind\": \"{kind}\"`: {}\n", description(&chosen));
        }
        let inner = properties(&chosen);
        let is_set = |name: &String| parts.contains_key(name);
        for (heading, wanted) in [("", true), ("Other keys:\n\n", false)] {
            let keys: Vec<_> = inner
                .iter()
                .filter(|(name, _)| name.as_str() != "kind" && is_set(name) == wanted)
                .collect();
            if !keys.is_empty() {
                let _ = write!(text, "\n{heading}");
            }
            for (name, schema) in keys {
                let _ = writeln!(text, "- `{name}`: {}", described(schema));
            }
        }
    }
    text.push_str("\n## Other keys\n\n");
    for (key, schema) in known.iter().filter(|(key, _)| !values.contains_key(*key)) {
        let _ = writeln!(text, "- `{key}`: {}", described(schema));
    }
    text
}

/// Returns the schema of the value's kind.
fn chosen(schema: &Value, value: &Value) -> Value {
    let choices = ["oneOf", "anyOf"]
        .iter()
        .filter_map(|keyword| schema[*keyword].as_array());
    let mut choices = choices.flatten();
    let is_it = |choice: &&Value| {
        let kind = &choice["properties"]["kind"];
        !kind.is_null() && (kind["const"] == value["kind"] || kind["enum"][0] == value["kind"])
    };
    choices.find(is_it).unwrap_or(schema).clone()
}

fn description(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .replace('\n', " ")
}

/// Returns the description, with the default if the text doesn't mention one.
fn described(schema: &Value) -> String {
    let text = description(schema);
    match &schema["default"] {
        Value::Null | Value::Object(_) => text,
        _ if text.contains("efault") => text,
        default => format!("{text} Default: `{default}`."),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::{TaskSource, json_schema};

    #[test]
    fn every_key_of_a_manifest_is_explained() {
        let manifest = json!({
            "name": "x",
            "model": {"kind": "mlp", "hidden": [1]},
            "train": {"epochs": 3},
        });
        let text = notes(&manifest, &json_schema(TaskSource::Manifest), "run.json");
        for part in [
            "\n## `model`\n",
            "`\"kind\": \"mlp\"`: A multi-layer perceptron.",
            "- `hidden`: Widths of the hidden layers",
            "- `dropout`:",
            "- `epochs`:",
            "Other keys:\n\n- ",
            "- `threads`: Number of compute threads.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("- ``") && !text.contains(": \n"), "{text}");
    }
}
