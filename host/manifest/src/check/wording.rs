//! How problems are worded.

use sconce_schema::ValidationError;
use serde_json::Value;

use super::problem::ManifestProblem;
use sconce_base::nearest::nearest;

/// The key of the value that an error is about; `None` for an element of a list.
pub(crate) fn key_of<'a>(error: &'a ValidationError<'_>) -> Option<&'a str> {
    let (_, key) = error.instance_path().as_str().rsplit_once('/')?;
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_plain.then_some(key)
}

/// The problem of a missing key.
pub(crate) fn missing_key(path: String, key: &str) -> ManifestProblem {
    ManifestProblem {
        missing: Some(key.to_owned()),
        ..ManifestProblem::new(path, format!("the key `{key}` is missing"), None)
    }
}

/// The texts that a schema lists, as an enumeration or as one of several constants.
pub(crate) fn choices(schema: &Value) -> Vec<&str> {
    let branches = ["anyOf", "oneOf"].into_iter();
    let branches = branches.filter_map(|key| schema.get(key)?.as_array());
    let of_branches = branches.flatten().flat_map(choices);
    let listed = schema.get("enum").and_then(Value::as_array);
    let listed = listed.into_iter().flatten().chain(schema.get("const"));
    of_branches
        .chain(listed.filter_map(Value::as_str))
        .collect()
}

/// Lists the values that a key may have.
pub(crate) fn any_of(key: &str, choices: &[&str]) -> String {
    match choices {
        [only] => format!("write `\"{key}\": \"{only}\"`"),
        _ => format!("`{key}` is one of `{}`", choices.join("`, `")),
    }
}

/// The first sentence of a schema's description.
pub(crate) fn about(schema: &Value) -> Option<String> {
    let text = schema.get("description")?.as_str()?;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = words.find(". ").map_or(words.len(), |end| end + 1);
    words
        .get(..end)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

pub(crate) fn one_of(options: &Value, found: &Value) -> (String, Option<String>) {
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
    // A number too may be another framework's term: `16` for a precision.
    let text = found
        .as_str()
        .map_or_else(|| found.to_string(), str::to_owned);
    let near = nearest(&text, names);
    (message, near.map(did_you_mean))
}

pub(crate) fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// The name of a type as used in messages.
pub(crate) fn in_words(name: &str) -> &str {
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
pub(crate) fn shortened(value: &Value) -> String {
    crate::diagnostic::shortened(&value.to_string())
}
