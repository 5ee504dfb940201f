//! A JSON value against a JSON Schema, with all problems in words for people.
//!
//! The same for the manifest and for the configurations of hooks, whose schemas come from their
//! plugins.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::nearest::nearest;

/// Something wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path of the value inside the one that was checked, as `train.epochs`; for an unknown
    /// key, the path of that key.
    pub path: String,
    /// Whether the key is meant rather than its value.
    pub is_key: bool,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// All problems of `value` against `schema`; none where the schema itself is no valid one.
pub fn check(value: &Value, schema: &Value) -> Vec<Problem> {
    let Ok(validator) = jsonschema::validator_for(schema) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for error in validator.iter_errors(value) {
        explain(&error, schema, &mut problems);
    }
    problems
}

/// The place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePath {
    /// As a JSON pointer.
    pub pointer: String,
    /// As people write it.
    pub pretty: String,
}

/// The texts in `value` whose `format` in `schema` is this one.
pub fn of_format(value: &Value, schema: &Value, format: &'static str) -> Vec<ValuePath> {
    // A format that no text has: so every text of the format is found.
    let validator = jsonschema::options()
        .with_format(format, |_: &str| false)
        .should_validate_formats(true)
        .build(schema);
    let Ok(validator) = validator else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for error in validator.iter_errors(value) {
        formats(&error, format, &mut paths);
    }
    paths
}

fn formats(error: &ValidationError<'_>, wanted: &str, paths: &mut Vec<ValuePath>) {
    match error.kind() {
        ValidationErrorKind::Format { format } if format == wanted => {
            let pointer = error.instance_path().as_str().to_owned();
            let pretty = pretty(&pointer);
            let path = ValuePath { pointer, pretty };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        // An optional or one-of-several field: the branch that its value is meant for.
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            for error in context.iter().flatten() {
                formats(error, wanted, paths);
            }
        }
        _ => {}
    }
}

fn explain(error: &ValidationError<'_>, schema: &Value, problems: &mut Vec<Problem>) {
    let path = pretty(error.instance_path().as_str());
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = known_keys(error, schema);
            problems.extend(unexpected.iter().map(|key| unknown_key(&path, key, &known)));
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            choose(context, error, schema, problems);
        }
        _ => problems.push(plain(error, path)),
    }
}

fn plain(error: &ValidationError<'_>, path: String) -> Problem {
    let found = shortened(error.instance());
    let (message, hint) = match error.kind() {
        ValidationErrorKind::Type { kind } => {
            (format!("expected {}, found {found}", types(kind)), None)
        }
        ValidationErrorKind::Required { property } => {
            let property = property.as_str().unwrap_or_default();
            (format!("the key `{property}` is missing"), None)
        }
        ValidationErrorKind::Enum { options } => one_of(options, error.instance()),
        ValidationErrorKind::Constant { expected_value } => {
            (format!("expected {expected_value}, found {found}"), None)
        }
        ValidationErrorKind::Minimum { limit } => {
            (format!("must be at least {limit}, found {found}"), None)
        }
        ValidationErrorKind::Maximum { limit } => {
            (format!("must be at most {limit}, found {found}"), None)
        }
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            (format!("must be above {limit}, found {found}"), None)
        }
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            (format!("must be below {limit}, found {found}"), None)
        }
        ValidationErrorKind::MinLength { limit: 1 } => ("must not be empty".to_owned(), None),
        ValidationErrorKind::MinItems { limit } => (
            format!("needs at least {limit} elements, found {found}"),
            None,
        ),
        ValidationErrorKind::Pattern { pattern } => {
            (format!("{found} does not have the form `{pattern}`"), None)
        }
        _ => (error.to_string(), None),
    };
    Problem {
        path,
        is_key: false,
        message,
        hint,
    }
}

fn one_of(options: &Value, found: &Value) -> (String, Option<String>) {
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

fn did_you_mean(name: &str) -> String {
    format!("did you mean `{name}`?")
}

fn unknown_key(path: &str, key: &str, known: &[String]) -> Problem {
    let near = nearest(key, known.iter().map(String::as_str));
    let list: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
    let hint = near
        .map(did_you_mean)
        .or_else(|| (!list.is_empty()).then(|| format!("known here: {}", list.join(", "))));
    Problem {
        path: super::source::join(path, key),
        is_key: true,
        message: format!("unknown key `{key}`"),
        hint,
    }
}

/// The keys that the schema knows at the place of an unknown one.
fn known_keys(error: &ValidationError<'_>, schema: &Value) -> Vec<String> {
    let pointer = error.schema_path().as_str();
    let parent = pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties = schema
        .pointer(parent)
        .and_then(|schema| schema.get("properties"));
    let keys = properties.and_then(Value::as_object);
    keys.map(|keys| keys.keys().cloned().collect())
        .unwrap_or_default()
}

/// Of several forms that a value may have, tells the problems of the one that was meant: by its
/// tag, or by its type.
fn choose(
    branches: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
    schema: &Value,
    problems: &mut Vec<Problem>,
) {
    let here = error.instance_path().as_str();
    let is_meant = |branch: &&Vec<ValidationError<'static>>| {
        !branch.iter().any(|problem| is_other_form(problem, here))
    };
    let mut meant = branches.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(branch), None) => {
            for problem in branch {
                explain(problem, schema, problems);
            }
        }
        _ => problems.push(no_form(branches, error, here)),
    }
}

/// Whether a problem says that another form was meant: a wrong tag one level down, or a wrong type
/// of the value itself, be it for each of several forms within this one.
fn is_other_form(problem: &ValidationError<'_>, here: &str) -> bool {
    let at = problem.instance_path().as_str();
    match problem.kind() {
        ValidationErrorKind::Constant { .. } => at == here || tag(at, here).is_some(),
        ValidationErrorKind::Type { .. } => at == here,
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            let is_type = |problem: &ValidationError<'_>| {
                matches!(problem.kind(), ValidationErrorKind::Type { .. })
                    && is_other_form(problem, here)
            };
            context.iter().all(|branch| branch.iter().any(is_type))
        }
        _ => false,
    }
}

/// The member of the value at `here` that the pointer `at` leads to.
fn tag<'a>(at: &'a str, here: &str) -> Option<&'a str> {
    let rest = at.strip_prefix(here)?.strip_prefix('/')?;
    (!rest.contains('/')).then_some(rest)
}

/// A value that has none of its possible forms.
fn no_form(
    branches: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
    here: &str,
) -> Problem {
    let mut tags: Vec<Value> = Vec::new();
    let mut key = None;
    let mut expected: Vec<String> = Vec::new();
    for problem in branches.iter().flatten() {
        match problem.kind() {
            ValidationErrorKind::Constant { expected_value } => {
                key = tag(problem.instance_path().as_str(), here).or(key);
                tags.push((**expected_value).clone());
            }
            ValidationErrorKind::Type { kind } if problem.instance_path().as_str() == here => {
                expected.push(types(kind));
            }
            _ => {}
        }
    }
    let path = pretty(here);
    if !tags.is_empty() {
        // The tag's value, or the value itself where it is one of several texts.
        let (path, found) = match key {
            Some(key) => (super::source::join(&path, key), error.instance().get(key)),
            None => (path, Some(&**error.instance())),
        };
        let (message, hint) = one_of(&Value::Array(tags), found.unwrap_or(&Value::Null));
        return Problem {
            path,
            is_key: false,
            message,
            hint,
        };
    }
    if let Some(missing) = missing_tag(branches) {
        return Problem {
            path,
            is_key: false,
            message: format!("the key `{missing}` is missing"),
            hint: None,
        };
    }
    expected.dedup();
    let found = shortened(error.instance());
    Problem {
        path,
        is_key: false,
        message: format!("expected {}, found {found}", expected.join(" or ")),
        hint: None,
    }
}

/// The key that every form needs and the value lacks.
fn missing_tag(branches: &[Vec<ValidationError<'static>>]) -> Option<String> {
    let missing = |branch: &Vec<ValidationError<'static>>| -> Vec<String> {
        branch
            .iter()
            .filter_map(|problem| match problem.kind() {
                ValidationErrorKind::Required { property } => property.as_str().map(str::to_owned),
                _ => None,
            })
            .collect()
    };
    let first = missing(branches.first()?);
    first
        .into_iter()
        .find(|key| branches.iter().all(|branch| missing(branch).contains(key)))
}

fn types(kind: &TypeKind) -> String {
    let text = match kind {
        TypeKind::Single(kind) => kind.to_string(),
        TypeKind::Multiple(set) => {
            let names: Vec<String> = set.iter().map(|kind| kind.to_string()).collect();
            names.join(" or ")
        }
    };
    text.replace("integer", "a whole number")
        .replace("number or null", "number")
        .replace("string", "a text")
        .replace("boolean", "true or false")
        .replace("object", "an object")
        .replace("array", "a list")
        .replace(" or null", "")
}

/// A value in at most 60 characters.
fn shortened(value: &Value) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= LONGEST {
        return text;
    }
    let head: String = text.chars().take(LONGEST).collect();
    format!("{head}…")
}

/// From a JSON pointer to a path that people write: `/hooks/1/config` to `hooks[1].config`.
fn pretty(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if !path.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            path = format!("{path}[{part}]");
        } else {
            path = super::source::join(&path, &part);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_become_paths() {
        assert_eq!(pretty(""), "");
        assert_eq!(pretty("/hooks/1/config/a~1b"), "hooks[1].config.a/b");
    }

    #[test]
    fn texts_of_a_format_are_found_wherever_they_stand() {
        let metric = json!({"type": "string", "format": "metric"});
        let schema = json!({
            "type": "object",
            "properties": {
                "monitor": metric,
                "more": {"type": "array", "items": {"$ref": "#/$defs/one"}},
                "maybe": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/one"}]},
                "name": {"type": "string"}
            },
            "$defs": {"one": metric}
        });
        let value = json!({"monitor": "a", "more": ["b", "c"], "maybe": "d", "name": "e"});
        let found: Vec<String> = of_format(&value, &schema, "metric")
            .into_iter()
            .map(|path| path.pretty)
            .collect();
        assert_eq!(found.len(), 4, "{found:?}");
        for path in ["monitor", "more[0]", "more[1]", "maybe"] {
            assert!(found.contains(&path.to_owned()), "{found:?}");
        }
    }

    #[test]
    fn of_texts_and_an_object_the_one_is_told_that_was_meant() {
        let texts = json!({"oneOf": [
            {"type": "string", "const": "computed"},
            {"type": "string", "const": "none"}
        ]});
        let object = json!({
            "type": "object",
            "properties": {"mean": {}},
            "additionalProperties": false
        });
        let schema = json!({"anyOf": [texts, object]});
        for (value, expected) in [
            (json!({"maen": 1}), "unknown key `maen`"),
            (
                json!("computd"),
                "expected one of `computed`, `none`, found \"computd\"",
            ),
        ] {
            let found = check(&value, &schema);
            let [problem] = &found[..] else {
                panic!("one problem of {value}, not {}", found.len())
            };
            assert_eq!(problem.message, expected);
        }
        let numbers = check(&json!(20), &json!({"enum": [10, 100]}));
        assert_eq!(numbers[0].message, "expected one of `10`, `100`, found 20");
    }

    #[test]
    fn a_schema_that_is_none_finds_nothing() {
        assert!(check(&json!(1), &json!({"type": "nonsense"})).is_empty());
    }
}
