//! Formatting of JSON that is nested deeply: what fits on a line is on one.

use serde_json::Value;

use super::manifest_text::{on_one_line, ordered};

/// Maximum width of a line that holds a complete list or object.
const WIDTH: usize = 120;

/// Returns the value's text, without a final line break.
pub(in crate::cli) fn text(value: &Value) -> String {
    broken(value, 0, 0)
}

/// Formats a value whose lines begin at `indent`, after `before` characters of its first line.
fn broken(value: &Value, indent: usize, before: usize) -> String {
    let line = on_one_line(value);
    if indent + before + line.len() <= WIDTH {
        return line;
    }
    let (open, close, entries) = match value {
        Value::Array(values) => {
            let entries = values.iter().map(|value| broken(value, indent + 2, 0));
            ('[', ']', entries.collect::<Vec<_>>())
        }
        Value::Object(entries) => {
            let entry = |(key, value): (&str, &Value)| {
                let key = Value::from(key).to_string();
                format!("{key}: {}", broken(value, indent + 2, key.len() + 2))
            };
            ('{', '}', ordered(entries).into_iter().map(entry).collect())
        }
        _ => return line,
    };
    let (inner, outer) = (" ".repeat(indent + 2), " ".repeat(indent));
    let entries = entries.join(&format!(",\n{inner}"));
    format!("{open}\n{inner}{entries}\n{outer}{close}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_on_a_line_is_on_one() {
        let long = "x".repeat(70);
        let value = json!({"layers": [{"kind": "relu"}, {"a": long, "b": long}], "n": {}});
        let wanted = format!(
            "{{\n  \"layers\": [\n    {{ \"kind\": \"relu\" }},\n    {{\n      \"a\": \"{long}\",\n      \"b\": \"{long}\"\n    \
             }}\n  ],\n  \"n\": {{}}\n}}"
        );
        assert_eq!(text(&value), wanted);
        let again: Value = serde_json::from_str(&text(&value)).expect("JSON");
        assert_eq!(again, value);
    }
}
