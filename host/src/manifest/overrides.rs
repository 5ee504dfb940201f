//! Values set on the command line: `train.epochs=3`, `hooks[0].config.every=5`.

use serde_json::{Map, Value};

use super::Source;
use crate::diagnostic::Diagnostic;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Sets values, and notes in `source` where they came from.
pub(super) fn apply(
    document: &mut Value,
    source: &mut Source,
    overrides: &[String],
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for written in overrides {
        match set(document, written) {
            Ok(path) => source.set_override(&path, written),
            Err(message) => {
                problems.push(Diagnostic::new(format!("`--set {written}`: {message}")));
            }
        }
    }
    problems
}

/// Sets one value; returns its path.
fn set(document: &mut Value, written: &str) -> Result<String, String> {
    let (path, text) = written
        .split_once('=')
        .ok_or("it needs a path, `=` and a value, as `train.epochs=3`")?;
    let steps = steps(path)?;
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    let mut place = document;
    for step in &steps {
        place = match step {
            Step::Key(key) => member(place, key)?,
            Step::Index(index) => element(place, *index)?,
        };
    }
    *place = value;
    Ok(path.to_owned())
}

/// The member of an object, made where it is not there: the check of the whole manifest tells
/// unknown ones.
fn member<'a>(place: &'a mut Value, key: &str) -> Result<&'a mut Value, String> {
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    match place {
        Value::Object(members) => Ok(members.entry(key).or_insert(Value::Null)),
        // A hook that the manifest lists by its name alone.
        Value::String(hook) if key != "hook" => {
            let hook = Value::String(std::mem::take(hook));
            *place = Value::Object(Map::from_iter([("hook".to_owned(), hook)]));
            member(place, key)
        }
        other => Err(format!("there is no `{key}` in {other}")),
    }
}

fn element(place: &mut Value, index: usize) -> Result<&mut Value, String> {
    match place {
        Value::Array(elements) => {
            let count = elements.len();
            elements
                .get_mut(index)
                .ok_or_else(|| format!("there is no element {index}, the list has {count}"))
        }
        _ => Err(format!("there is no element {index}: this is no list")),
    }
}

fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, indices) = part.split_once('[').unwrap_or((part, ""));
        if key.is_empty() {
            return Err(format!("`{path}` is no path"));
        }
        steps.push(Step::Key(key.to_owned()));
        if part.contains('[') {
            let indices = indices
                .strip_suffix(']')
                .ok_or_else(|| format!("`{path}` is no path: a `]` is missing"))?;
            for index in indices.split("][") {
                let index = index
                    .parse()
                    .map_err(|_| format!("`{index}` in `{path}` is no number of an element"))?;
                steps.push(Step::Index(index));
            }
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(written: &str) -> Result<Value, String> {
        let mut document = json!({"train": {"epochs": 5}, "hooks": ["console", {"hook": "csv"}]});
        set(&mut document, written).map(|_| document)
    }

    #[test]
    fn values_are_set_where_the_path_leads() {
        assert_eq!(after("train.epochs=3").expect("set")["train"]["epochs"], 3);
        assert_eq!(after("name=digits").expect("set")["name"], "digits");
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
    fn paths_into_nothing_are_told() {
        for (written, words) in [
            ("train.epochs", "it needs a path"),
            ("hooks[7]=1", "there is no element 7, the list has 2"),
            ("train[0]=1", "this is no list"),
            ("train.epochs.more=1", "there is no `more` in 5"),
            ("hooks[x]=1", "`x` in `hooks[x]` is no number"),
            ("hooks[0=1", "a `]` is missing"),
            (".=1", "is no path"),
        ] {
            let message = after(written).expect_err(written);
            assert!(message.contains(words), "{message}");
        }
    }
}
