//! Values set individually: `train.epochs=3`, `hooks[0].config.every=5`.

use serde_json::{Map, Value};

use super::overlay::Assignment;
use crate::JsonSource;
use crate::check::wording;
use crate::diagnostic::Diagnostic;
use crate::json::origin::AssignmentOrigin;
use crate::json_path::{self, PathSegment};

/// Applies assignments, and records in `source` where the values came from. Invalid ones change nothing.
pub(super) fn apply(
    document: &mut Value,
    source: &mut JsonSource,
    assignments: &[Assignment],
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for Assignment { origin, text } in assignments {
        match set(document, text) {
            Ok(set) => source.set_override(set.path, origin, text, set.value_at),
            Err(message) => {
                let written = crate::diagnostic::shortened(text);
                let written = match origin {
                    AssignmentOrigin::CommandLine => format!("--set {written}"),
                    AssignmentOrigin::Environment(name) => format!("{name}={written}"),
                };
                problems.push(Diagnostic::new(format!("`{written}`: {message}")));
            }
        }
    }
    problems
}

/// The effect of one assignment.
#[derive(Debug)]
struct Set {
    /// The path of the value that came from the command line. It is the one written, or that of the outermost
    /// object created for it.
    path: String,
    /// Byte offset of the value in the assignment's text.
    value_at: usize,
}

/// Applies one assignment.
fn set(document: &mut Value, written: &str) -> Result<Set, String> {
    let at = split(written).filter(|at| *at > 0);
    let at = at.ok_or("it needs a path, `=` and a value, as `train.epochs=3`")?;
    let (path, text) = (&written[..at], &written[at + 1..]);
    let steps = json_path::steps(path)?;
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    possible(document, &steps)?;
    let mut place = document;
    let mut here = String::new();
    let mut made = None;
    for (depth, step) in steps.iter().enumerate() {
        if is_hook(&steps, depth) {
            lengthen(place);
        }
        let is_new;
        (place, here, is_new) = match step {
            PathSegment::Key(key) => {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                let members = place.as_object_mut().ok_or("this is not an object")?;
                let is_new = !members.contains_key(key);
                let member = members.entry(key).or_insert(Value::Null);
                (member, json_path::member(&here, key), is_new)
            }
            PathSegment::Index(index) => {
                let element = place.get_mut(index).ok_or("there is no such element")?;
                (element, json_path::element(&here, *index), false)
            }
        };
        if is_new && made.is_none() {
            made = Some(here.clone());
        }
    }
    *place = value;
    Ok(Set {
        path: made.unwrap_or(here),
        value_at: at + 1,
    })
}

/// Byte offset of the `=` between path and value: the first one outside a quoted key.
fn split(written: &str) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    written.find(|c| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            _ => return c == '=' && !is_quoted,
        }
        false
    })
}

/// Checks that a path exists. Members may be missing, since the check of the manifest reports unknown ones,
/// but list elements must exist.
fn possible(document: &Value, steps: &[PathSegment]) -> Result<(), String> {
    let mut place = Some(document);
    for (depth, step) in steps.iter().enumerate() {
        place = match (step, place) {
            (PathSegment::Key(key), Some(Value::Object(members))) => members.get(key),
            (PathSegment::Key(_), None | Some(Value::Null)) => None,
            (PathSegment::Key(_), Some(Value::String(_))) if is_hook(steps, depth) => None,
            (PathSegment::Key(key), Some(other)) => {
                let other = wording::shortened(other);
                return Err(format!("there is no `{key}` in {other}"));
            }
            (PathSegment::Index(index), Some(Value::Array(elements))) => {
                let element = elements.get(*index).ok_or_else(|| {
                    let count = elements.len();
                    format!("there is no element {index}, the list has {count}")
                })?;
                Some(element)
            }
            (PathSegment::Index(index), Some(other)) if !other.is_null() => {
                return Err(format!("there is no element {index}: this is not a list"));
            }
            (PathSegment::Index(index), _) => {
                return Err(format!("there is no element {index}: there is no list"));
            }
        };
    }
    Ok(())
}

/// Whether the steps before `depth` lead to an entry of `hooks`, and the next one into it.
fn is_hook(steps: &[PathSegment], depth: usize) -> bool {
    match steps {
        [
            PathSegment::Key(hooks),
            PathSegment::Index(_),
            PathSegment::Key(_),
            ..,
        ] => depth == 2 && hooks == "hooks",
        _ => false,
    }
}

/// Turns a hook entry that is just a name into its object form.
fn lengthen(entry: &mut Value) {
    if let Value::String(hook) = entry {
        let hook = Value::String(std::mem::take(hook));
        *entry = Value::Object(Map::from_iter([("hook".to_owned(), hook)]));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(written: &str) -> Result<Value, String> {
        let mut document = json!({
            "name": "digits",
            "plugins": ["dir"],
            "train": {"epochs": 5},
            "hooks": ["console", {"hook": "csv"}]
        });
        set(&mut document, written).map(|_| document)
    }

    #[test]
    fn values_are_set_where_the_path_leads() {
        assert_eq!(after("train.epochs=3").expect("set")["train"]["epochs"], 3);
        assert_eq!(after("name=d").expect("set")["name"], "d");
        assert_eq!(
            after("hooks[1].config.every=5").expect("set")["hooks"][1]["config"]["every"],
            5
        );
        let named = after("hooks[0].priority=LOW").expect("set");
        assert_eq!(
            named["hooks"][0],
            json!({"hook": "console", "priority": "LOW"})
        );
        assert_eq!(
            after("plugins=[\"a\"]").expect("set")["plugins"],
            json!(["a"])
        );
        assert_eq!(after("name=a=b").expect("set")["name"], "a=b");
    }

    #[test]
    fn only_entries_of_hooks_are_names_of_objects() {
        assert_eq!(
            after("hooks[0].hook=csv").expect("set")["hooks"][0],
            json!({"hook": "csv"})
        );
        for (written, words) in [
            ("name.more=1", "there is no `more` in \"digits\""),
            ("plugins[0].hook=1", "there is no `hook` in \"dir\""),
            ("hooks[1].hook.more=1", "there is no `more` in \"csv\""),
        ] {
            let message = after(written).expect_err(written);
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn what_is_made_for_a_value_comes_from_the_command_line_too() {
        let mut document = json!({"train": {}, "hooks": ["csv"]});
        for (written, path) in [
            ("train.epochs=3", "train.epochs"),
            ("model.layers.first=1", "model"),
            ("hooks[0].config.every=5", "hooks[0].config"),
            ("hooks[0].config[\"a=b\"]=5", "hooks[0].config[\"a=b\"]"),
        ] {
            let set = set(&mut document, written).expect(written);
            assert_eq!(set.path, path);
            assert_eq!(&written[set.value_at - 1..set.value_at], "=");
        }
        assert_eq!(document["hooks"][0]["config"]["a=b"], 5);
    }

    #[test]
    fn what_cannot_be_set_changes_nothing() {
        let before = json!({"train": {}, "hooks": ["csv"]});
        for written in ["a.b[3]=1", "train.list[0]=1", "hooks[0].config.list[0]=1"] {
            let mut document = before.clone();
            set(&mut document, written).expect_err(written);
            assert_eq!(document, before, "{written}");
        }
    }

    #[test]
    fn paths_into_nothing_are_reported() {
        for (written, words) in [
            ("train.epochs", "it needs a path"),
            ("hooks[7]=1", "there is no element 7, the list has 2"),
            ("train[0]=1", "this is not a list"),
            ("train.epochs.more=1", "there is no `more` in 5"),
            ("hooks[x]=1", "`x` in `hooks[x]` is not an element's index"),
            ("hooks[0=1", "a `]` is missing"),
            (".=1", "is not a path"),
            ("nowhere[3]=1", "there is no element 3: there is no list"),
        ] {
            let message = after(written).expect_err(written);
            assert!(message.contains(words), "{message}");
        }
    }
}
