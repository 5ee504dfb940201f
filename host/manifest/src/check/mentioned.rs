//! Finds the key of a manifest section that an error message is about.

use serde_json::Value;

use crate::json_path;

/// The path of the value in a section of a document that a message mentions. It is found by the value's own
/// text, such as a file name, or else by its key in backticks. If there is none, the path of the section is
/// returned.
pub fn mentioned(document: &Value, section: &str, text: &str) -> String {
    let Some(part) = document.get(section) else {
        return section.to_owned();
    };
    let mut leaves = Vec::new();
    collect(part, section, &mut leaves);
    let by_text = leaves.iter().filter(|leaf| {
        let is_kind = leaf.key == "kind";
        !is_kind
            && leaf
                .text
                .as_ref()
                .is_some_and(|own| own.len() > 1 && text.contains(own.as_str()))
    });
    // Prefer quoted values to parts of other words, then values that are not file names, then longer ones.
    let best = by_text.max_by_key(|leaf| {
        let own = leaf.text.as_deref().unwrap_or_default();
        let is_quoted = text.contains(&format!("`{own}`"));
        (is_quoted, !own.contains(['.', '/']), own.len())
    });
    let by_key = || {
        leaves
            .iter()
            .find(|leaf| text.contains(&format!("`{}", leaf.key)) && leaf.is_named_in(text))
    };
    let found = best.or_else(by_key);
    found.map_or_else(|| section.to_owned(), |leaf| leaf.path.clone())
}

/// The path, within a hook's configuration, of the value that an error message is about: that whose key or text is the
/// first one in backticks.
pub fn first_named(config: &Value, message: &str) -> Option<String> {
    let name = message.split('`').nth(1)?;
    let mut leaves = Vec::new();
    collect(config, "", &mut leaves);
    let is_it = |leaf: &&Leaf| leaf.key == name || leaf.text.as_deref() == Some(name);
    let mut found = leaves.iter().filter(is_it);
    // Of two that are alike, the message may be about either.
    let only = found.next().filter(|_| found.next().is_none());
    only.map(|leaf| leaf.path.clone())
}

/// A member of the section, at any depth.
struct Leaf {
    path: String,
    key: String,
    /// The value, if it is a string.
    text: Option<String>,
}

impl Leaf {
    /// Whether a message contains the key in backticks: `key` or `key[1]`.
    fn is_named_in(&self, text: &str) -> bool {
        ["`", "["]
            .iter()
            .any(|end| text.contains(&format!("`{}{end}", self.key)))
    }
}

fn collect(value: &Value, path: &str, leaves: &mut Vec<Leaf>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = json_path::member(path, key);
                leaves.push(Leaf {
                    key: key.clone(),
                    text: value.as_str().map(str::to_owned),
                    path: path.clone(),
                });
                collect(value, &path, leaves);
            }
        }
        Value::Array(elements) => {
            for (index, value) in elements.iter().enumerate() {
                let path = json_path::element(path, index);
                if let Some(text) = value.as_str() {
                    leaves.push(Leaf {
                        key: String::new(),
                        text: Some(text.to_owned()),
                        path: path.clone(),
                    });
                }
                collect(value, &path, leaves);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_name_in_backticks_is_the_subject() {
        let config =
            json!({"tag": "{val_acc}", "best": [{"monitor": "loss", "keep": 0}], "last": "loss"});
        for (message, path) in [
            (
                "the tag `{val_acc}` has `{val_acc}`; there are `{epoch}`",
                Some("tag"),
            ),
            ("`keep` must be at least 1, found 0", Some("best[0].keep")),
            ("say by `rule` what is better of `loss`", None),
            // It is there twice.
            ("no metric `loss`", None),
            ("can't open the file", None),
        ] {
            assert_eq!(first_named(&config, message).as_deref(), path, "{message}");
        }
    }
}
