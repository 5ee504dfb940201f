//! The manifest on the page: without secrets, and syntax-coloured.

use std::fmt::Write;

use serde_json::Value;

use crate::html::escape;

/// Parts of keys whose values are secret.
const SECRET: [&str; 8] = [
    "password",
    "passwd",
    "token",
    "secret",
    "credential",
    "api_key",
    "apikey",
    "authorization",
];

/// Shown in place of a secret.
const HIDDEN: &str = "(not shown)";

/// Removes the values of keys that name a secret, and user names and passwords in URLs.
pub(crate) fn without_secrets(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let entries = entries.into_iter().map(|(key, value)| {
                let name = key.to_ascii_lowercase().replace('-', "_");
                let is_secret = SECRET.iter().any(|word| name.contains(word));
                let value = if is_secret && (value.is_string() || value.is_object()) {
                    Value::String(HIDDEN.to_owned())
                } else {
                    without_secrets(value)
                };
                (key, value)
            });
            Value::Object(entries.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_secrets).collect()),
        Value::String(text) => Value::String(without_user(text)),
        other => other,
    }
}

/// Turns `https://user:password@host/` into `https://host/`.
fn without_user(text: String) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text;
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}{behind}"),
        None => text,
    }
}

/// Formats the value as indented JSON, with its parts in `span` elements.
pub(crate) fn coloured(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, &mut text);
    text
}

fn write(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            text.push_str("{\n");
            for (index, (key, value)) in entries.iter().enumerate() {
                let key = escape(&Value::from(key.as_str()).to_string());
                let _ = write!(text, "{}<i>{key}</i>: ", indent(depth + 1));
                write(value, depth + 1, text);
                text.push_str(if index + 1 < entries.len() {
                    ",\n"
                } else {
                    "\n"
                });
            }
            let _ = write!(text, "{}}}", indent(depth));
        }
        // Lists without objects or lists in them go on one line.
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            text.push_str("[\n");
            for (index, item) in items.iter().enumerate() {
                text.push_str(&indent(depth + 1));
                write(item, depth + 1, text);
                text.push_str(if index + 1 < items.len() { ",\n" } else { "\n" });
            }
            let _ = write!(text, "{}]", indent(depth));
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                write(item, depth, text);
            }
            text.push(']');
        }
        Value::String(_) => {
            let _ = write!(text, "<b>{}</b>", escape(&value.to_string()));
        }
        other => {
            let _ = write!(text, "<u>{}</u>", escape(&other.to_string()));
        }
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_left_out_wherever_they_stand() {
        let manifest = json!({
            "seed": 1,
            "hooks": [{"hook": "webhook", "config": {
                "url": "https://me:hush@example.org/x?y=1",
                "api-key": "hush",
                "headers": {"Authorization": "Bearer hush"},
                "tokens_per_second": 3
            }}]
        });
        let text = without_secrets(manifest).to_string();
        assert!(!text.contains("hush"), "{text}");
        for kept in [
            "https://example.org/x?y=1",
            "\"tokens_per_second\":3",
            "\"seed\":1",
        ] {
            assert!(text.contains(kept), "{text}");
        }
        assert_eq!(without_user("a@b".to_owned()), "a@b");
    }

    #[test]
    fn the_coloured_text_is_the_same_json() {
        let value =
            json!({"a": [1, 2.5, null], "b": {"c": "<&>\""}, "d": [], "e": {}, "f": [{"g": true}]});
        let mut text = coloured(&value);
        for (mark, plain) in [
            ("<i>", ""),
            ("</i>", ""),
            ("<b>", ""),
            ("</b>", ""),
            ("<u>", ""),
            ("</u>", ""),
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&amp;", "&"),
        ] {
            text = text.replace(mark, plain);
        }
        assert_eq!(
            serde_json::from_str::<Value>(&text).ok(),
            Some(value),
            "{text}"
        );
    }
}
