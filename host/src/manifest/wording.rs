//! How problems are worded.

use sconce_schema::ValidationError;
use serde_json::Value;

use super::problem::ManifestProblem;
use crate::nearest::nearest;

/// The key of the value that an error is about; `None` for an element of a list.
pub(super) fn key_of<'a>(error: &'a ValidationError<'_>) -> Option<&'a str> {
    let (_, key) = error.instance_path().as_str().rsplit_once('/')?;
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_plain.then_some(key)
}

/// The problem of a missing key.
pub(super) fn missing_key(path: String, key: &str) -> ManifestProblem {
    ManifestProblem {
        missing: Some(key.to_owned()),
        ..ManifestProblem::new(path, format!("the key `{key}` is missing"), None)
    }
}

pub(super) fn one_of(options: &Value, found: &Value) -> (String, Option<String>) {
    let names: Vec<&str> = options
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let options = options.as_array().into_iter().flatten();
    let quoted: Vec<String> = options
        .map(|option| option.as_str().map_or(option.to_string(), str::to_owned))
        .map(|option| format!("`{option}`"))
        .collect();
    let message = format!(
        "expected one of {}, found {}",
        quoted.join(", "),
        shortened(found)
    );
    let near = found
        .as_str()
        .and_then(|found| nearest(found, names.iter().copied()));
    (message, near.map(did_you_mean))
}

pub(super) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// The name of a type as used in messages.
pub(super) fn in_words(name: &str) -> &str {
    match name {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "boolean" => "true or false",
        "object" => "an object",
        "array" => "a list",
        name => name,
    }
}

/// A value in one line of about sixty characters.
pub(super) fn shortened(value: &Value) -> String {
    crate::diagnostic::shortened(&value.to_string())
}
