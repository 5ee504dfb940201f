//! Paths into a JSON document as people write them: `hooks[1].config.every`.
//!
//! A key that would be ambiguous is written in brackets and quotes, as in `config["a.b"]` or `config["0"]`,
//! so no two values have the same path.

use std::collections::BTreeMap;

use serde_json::Value;

/// Maximum number of steps in a path, more than the depth of any document that is accepted.
const MOST_STEPS: usize = 100;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathSegment {
    /// To a member of an object.
    Key(String),
    /// To an element of a list.
    Index(usize),
}

/// The path of an object's member.
pub fn member(path: &str, key: &str) -> String {
    if is_plain(key) {
        below(path, key)
    } else {
        format!("{path}[{}]", Value::from(key))
    }
}

/// The path of a list's element.
pub fn element(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// All values of a document that are neither objects nor lists with nested elements, by their paths.
pub fn leaves(document: &Value) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    collect("", document, &mut leaves);
    leaves
}

fn collect(path: &str, value: &Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, below) in members {
                collect(&member(path, key), below, leaves);
            }
        }
        Value::Array(elements) if elements.iter().any(|e| e.is_object() || e.is_array()) => {
            for (index, below) in elements.iter().enumerate() {
                collect(&element(path, index), below, leaves);
            }
        }
        leaf => {
            leaves.insert(path.to_owned(), leaf.clone());
        }
    }
}

/// Prepends `path` to `rest`, a path relative to the value at `path`.
pub fn below(path: &str, rest: &str) -> String {
    if path.is_empty() || rest.is_empty() || rest.starts_with('[') {
        format!("{path}{rest}")
    } else {
        format!("{path}.{rest}")
    }
}

/// The path of the enclosing value; `None` for the document itself.
pub(crate) fn parent(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    let end = match path.strip_suffix("\"]") {
        // After the last `["` that can't be part of a key: inside a key, quotes are escaped.
        Some(quoted) => quoted
            .rmatch_indices("[\"")
            .map(|(at, _)| at)
            .find(|&at| serde_json::from_str::<String>(&path[at + 1..path.len() - 1]).is_ok())
            .unwrap_or(0),
        None => path.rfind(['.', '[']).unwrap_or(0),
    };
    path.get(..end)
}

/// Whether `path` is `around` itself or the path of a value inside it.
pub(crate) fn is_inside(path: &str, around: &str) -> bool {
    let mut path = Some(path);
    while let Some(here) = path {
        if here == around {
            return true;
        }
        path = parent(here);
    }
    false
}

/// Converts a JSON pointer into `document` to a path: `/hooks/1/config` to `hooks[1].config`.
pub(crate) fn from_pointer(pointer: &str, document: &Value) -> String {
    let mut path = String::new();
    let mut here = Some(document);
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        let index = key
            .parse()
            .ok()
            .filter(|_| !matches!(here, Some(Value::Object(_))));
        (path, here) = match index {
            Some(index) => (
                element(&path, index),
                here.and_then(|value| value.get(index)),
            ),
            None => (member(&path, &key), here.and_then(|value| value.get(&key))),
        };
    }
    path
}

/// Splits a path into its steps.
///
/// # Errors
///
/// If it is not a valid path, with the reason.
pub(crate) fn steps(path: &str) -> Result<Vec<PathSegment>, String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() || steps.is_empty() {
        if steps.len() == MOST_STEPS {
            return Err(format!("the path has more than {MOST_STEPS} steps"));
        }
        let step;
        (step, rest) = match rest.strip_prefix('[') {
            Some(inside) => bracket(inside, path)?,
            None => key(rest, path, steps.is_empty())?,
        };
        steps.push(step);
    }
    Ok(steps)
}

/// Parses the step at the start of `rest`, a key without quotes.
fn key<'a>(rest: &'a str, path: &str, is_first: bool) -> Result<(PathSegment, &'a str), String> {
    let none = || format!("`{path}` is not a path");
    let rest = if is_first {
        rest
    } else {
        rest.strip_prefix('.').ok_or_else(none)?
    };
    let end = rest.find(['.', '[']).unwrap_or(rest.len());
    let (key, rest) = rest.split_at(end);
    if key.is_empty() {
        return Err(none());
    }
    Ok((PathSegment::Key(key.to_owned()), rest))
}

/// Parses the step after a `[`: a number or a quoted key.
fn bracket<'a>(inside: &'a str, path: &str) -> Result<(PathSegment, &'a str), String> {
    let open = || format!("`{path}` is not a path: a `]` is missing");
    if inside.starts_with('"') {
        let mut keys = serde_json::Deserializer::from_str(inside).into_iter::<String>();
        let key = keys.next().and_then(Result::ok);
        let key = key.ok_or_else(|| format!("`{path}` is not a path: a `\"` is missing"))?;
        let rest = inside.get(keys.byte_offset()..).unwrap_or_default();
        return Ok((
            PathSegment::Key(key),
            rest.strip_prefix(']').ok_or_else(open)?,
        ));
    }
    let (index, rest) = inside.split_once(']').ok_or_else(open)?;
    let index = index
        .parse()
        .map_err(|_| format!("`{index}` in `{path}` is not an element's index"))?;
    Ok((PathSegment::Index(index), rest))
}

/// Whether a key can be written in a path without quotes.
fn is_plain(key: &str) -> bool {
    let is_odd = |c: char| ".[]\"=".contains(c) || c.is_control();
    !key.is_empty() && !key.contains(is_odd) && !key.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_have_paths() {
        let manifest = serde_json::json!(
            {"train": {"epochs": 2}, "plugins": ["a"], "hooks": [{"hook": "csv"}]}
        );
        let paths: Vec<String> = leaves(&manifest).into_keys().collect();
        assert_eq!(paths, ["hooks[0].hook", "plugins", "train.epochs"]);
    }

    #[test]
    fn pointers_become_paths() {
        let document = json!({"hooks": [0, {"config": {"a/b": 1, "a.b": {"0": 2}}}]});
        for (pointer, path) in [
            ("", ""),
            ("/hooks/1/config/a~1b", "hooks[1].config.a/b"),
            ("/hooks/1/config/a.b/0", "hooks[1].config[\"a.b\"][\"0\"]"),
            ("/nowhere/7", "nowhere[7]"),
        ] {
            assert_eq!(from_pointer(pointer, &document), path);
        }
    }

    #[test]
    fn a_path_is_its_steps_and_no_other_ones() {
        let keys = [
            "a", "a.b", "", "0", "a[\"b\"]", "x\"].[\"", "\\", "\u{1b}", "ä b",
        ];
        for first in keys {
            for second in keys {
                let path = element(&member(&member("", first), second), 3);
                let expected = [
                    PathSegment::Key(first.to_owned()),
                    PathSegment::Key(second.to_owned()),
                    PathSegment::Index(3),
                ];
                assert_eq!(steps(&path).expect(&path), expected);
                let around = parent(&path).expect("a path around it");
                assert_eq!(around, member(&member("", first), second));
                assert_eq!(parent(around).expect("another"), member("", first));
                assert_eq!(parent(&member("", first)), Some(""));
            }
        }
        assert_eq!(parent(""), None);
    }

    #[test]
    fn what_is_no_path_is_reported() {
        for (path, words) in [
            ("", "is not a path"),
            (".", "is not a path"),
            ("a..b", "is not a path"),
            ("a[1]b", "is not a path"),
            ("a[0", "a `]` is missing"),
            ("a[\"b]", "a `\"` is missing"),
            ("a[x]", "`x` in `a[x]` is not an element's index"),
            (&"a.".repeat(1000), "more than 100 steps"),
        ] {
            let message = steps(path).expect_err(path);
            assert!(message.contains(words), "{message}");
        }
    }
}
