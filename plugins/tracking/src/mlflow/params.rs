//! A manifest as MLflow parameters: names and texts.

use serde_json::Value;

/// MLflow's limits for a parameter's name and value, in bytes.
const LONGEST_NAME: usize = 250;
const LONGEST_VALUE: usize = 500;

/// The leaves of a manifest, such as `train.epochs` and `hooks.0.hook`, with their values.
pub(crate) fn flat(manifest: &Value) -> Vec<(String, String)> {
    let mut all = Vec::new();
    add("", manifest, &mut all);
    all
}

fn add(path: &str, value: &Value, all: &mut Vec<(String, String)>) {
    let below = |name: &str| {
        let dot = if path.is_empty() { "" } else { "." };
        format!("{path}{dot}{name}")
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                add(&below(name), value, all);
            }
        }
        Value::Array(list) if list.iter().any(|item| item.is_object() || item.is_array()) => {
            for (index, value) in list.iter().enumerate() {
                add(&below(&index.to_string()), value, all);
            }
        }
        Value::Null => {}
        Value::String(text) => all.push((name(path), cut(text, LONGEST_VALUE).to_owned())),
        other => all.push((
            name(path),
            cut(&other.to_string(), LONGEST_VALUE).to_owned(),
        )),
    }
}

/// Replaces the characters that MLflow doesn't allow in a name.
pub(crate) fn name(text: &str) -> String {
    let is_taken = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '/');
    let plain = text.chars().map(|c| if is_taken(c) { c } else { '_' });
    cut(&plain.collect::<String>(), LONGEST_NAME).to_owned()
}

/// The beginning of a text, at most this many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leaves_become_parameters() {
        let manifest = json!({"name": "a", "train": {"epochs": 2, "none": null}, "plugins": ["x", "y"],
            "hooks": [{"hook": "csv"}], "empty": {}});
        let found = flat(&manifest);
        let expected = [
            ("empty", "{}"),
            ("hooks.0.hook", "csv"),
            ("name", "a"),
            ("plugins", "[\"x\",\"y\"]"),
            ("train.epochs", "2"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, expected);
        assert_eq!(name("a:b[0]"), "a_b_0_");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }
}
