//! A JSON value against a JSON Schema, with all problems in words for people.
//!
//! The same for the manifest and for the configurations of hooks, whose schemas come from their
//! plugins.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use super::{json_path, whole_number};
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
    let validator = jsonschema::options()
        .with_keyword(whole_number::KEYWORD, |parent, format, _| {
            whole_number::keyword(parent, format)
        })
        .build(schema);
    let Ok(validator) = validator else {
        return Vec::new();
    };
    let mut told = Told {
        value,
        schema,
        problems: Vec::new(),
    };
    for error in validator.iter_errors(value) {
        told.explain(&error);
    }
    told.problems
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
        formats(&error, format, value, &mut paths);
    }
    paths
}

fn formats(error: &ValidationError<'_>, wanted: &str, value: &Value, paths: &mut Vec<ValuePath>) {
    match error.kind() {
        ValidationErrorKind::Format { format } if format == wanted => {
            let pointer = error.instance_path().as_str().to_owned();
            let pretty = json_path::from_pointer(&pointer, value);
            let path = ValuePath { pointer, pretty };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        // An optional or one-of-several field: the branch that its value is meant for.
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            for error in context.iter().flatten() {
                formats(error, wanted, value, paths);
            }
        }
        _ => {}
    }
}

/// The problems of a value, as they are found.
struct Told<'a> {
    value: &'a Value,
    schema: &'a Value,
    problems: Vec<Problem>,
}

impl Told<'_> {
    fn explain(&mut self, error: &ValidationError<'_>) {
        let path = json_path::from_pointer(error.instance_path().as_str(), self.value);
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = known_keys(error, self.schema);
                let unknown = unexpected.iter().map(|key| unknown_key(&path, key, &known));
                self.problems.extend(unknown);
            }
            // Where the schema knows no key at all.
            ValidationErrorKind::FalseSchema
                if error
                    .schema_path()
                    .as_str()
                    .ends_with("/additionalProperties") =>
            {
                let members = self.value.pointer(error.instance_path().as_str());
                let keys = members.and_then(Value::as_object).into_iter().flatten();
                let unknown = keys.map(|(key, _)| unknown_key(&path, key, &[]));
                self.problems.extend(unknown);
            }
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context } => {
                if let Some(branch) = meant(context, error) {
                    for problem in branch {
                        self.explain(problem);
                    }
                } else {
                    let forms = self.schema.pointer(error.schema_path().as_str());
                    self.problems.push(no_form(context, error, forms, path));
                }
            }
            _ => self.problems.push(plain(error, path)),
        }
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
        ValidationErrorKind::MaxItems { limit } => {
            (format!("has at most {limit} elements, found {found}"), None)
        }
        ValidationErrorKind::UniqueItems => (format!("has an element twice, found {found}"), None),
        ValidationErrorKind::Custom { message, .. } => (message.clone(), None),
        _ => (crate::diagnostic::shortened(&error.to_string()), None),
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
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
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
        .or_else(|| (!list.is_empty()).then(|| format!("known here: {}", list.join(", "))))
        .or_else(|| known.is_empty().then(|| "no key is known here".to_owned()));
    Problem {
        path: json_path::member(path, key),
        is_key: true,
        message: format!("unknown key `{}`", crate::diagnostic::shortened(key)),
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

/// Of several forms that a value may have, the problems of the one that was meant: by its tag, by
/// its type, or by the keys that it has.
fn meant<'a>(
    branches: &'a [Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
) -> Option<&'a [ValidationError<'static>]> {
    let here = error.instance_path().as_str();
    let of_this_type: Vec<&Vec<ValidationError<'static>>> = branches
        .iter()
        .filter(|branch| !branch.iter().any(|problem| is_other_form(problem, here)))
        .collect();
    if let [branch] = of_this_type.as_slice() {
        return Some(branch.as_slice());
    }
    let has_its_keys = |branch: &&&Vec<ValidationError<'static>>| {
        !branch.iter().any(|problem| {
            let is_key = matches!(
                problem.kind(),
                ValidationErrorKind::Required { .. }
                    | ValidationErrorKind::AdditionalProperties { .. }
            );
            is_key && problem.instance_path().as_str() == here
        })
    };
    let mut with_its_keys = of_this_type.iter().filter(has_its_keys);
    match (with_its_keys.next(), with_its_keys.next()) {
        (Some(branch), None) => Some(branch.as_slice()),
        _ => None,
    }
}

/// Whether a problem says that another form was meant: a wrong tag one level down, or a wrong type
/// of the value itself.
fn is_other_form(problem: &ValidationError<'_>, here: &str) -> bool {
    let at = problem.instance_path().as_str();
    match problem.kind() {
        ValidationErrorKind::Constant { .. } => at == here || tag(at, here).is_some(),
        ValidationErrorKind::Type { .. } => at == here,
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
    schema: Option<&Value>,
    path: String,
) -> Problem {
    let here = error.instance_path().as_str();
    let mut tags: Vec<Value> = Vec::new();
    let mut key = None;
    for problem in branches.iter().flatten() {
        if let ValidationErrorKind::Constant { expected_value } = problem.kind() {
            key = tag(problem.instance_path().as_str(), here).or(key);
            tags.push((**expected_value).clone());
        }
    }
    if !tags.is_empty() {
        // The tag's value, or the value itself where it is one of several texts.
        let (path, found) = match key {
            Some(key) => (json_path::member(&path, key), error.instance().get(key)),
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
    let forms = forms(schema);
    let found = error.instance();
    Problem {
        path,
        is_key: false,
        message: format!(
            "expected {}, found {}",
            forms_in_words(&forms),
            shortened(found)
        ),
        hint: forms_hint(&forms, found),
    }
}

/// A form that a value may have.
#[derive(Debug, PartialEq)]
enum Form {
    /// One of these values.
    Values(Vec<String>),
    /// An object whose member `key` is `value`.
    Tagged { key: String, value: String },
    /// An object with these keys, at the least.
    Object(Vec<String>),
    /// A value of a type, or anything else.
    Other(String),
}

/// The forms of an `anyOf` or `oneOf`; without `null`, which is what a key has that is left out.
fn forms(schema: Option<&Value>) -> Vec<Form> {
    let branches = schema.and_then(Value::as_array);
    branches.into_iter().flatten().filter_map(form).collect()
}

fn form(schema: &Value) -> Option<Form> {
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    if let Some(value) = schema.get("const") {
        return Some(Form::Values(vec![text(value)]));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(Form::Values(values.iter().map(text).collect()));
    }
    let required = schema.get("required").and_then(Value::as_array);
    let keys: Vec<String> = required.into_iter().flatten().map(text).collect();
    let tag = keys.iter().find_map(|key| {
        let value = schema.get("properties")?.get(key)?.get("const")?;
        Some((key.clone(), text(value)))
    });
    let kind = schema.get("type").and_then(Value::as_str);
    match (kind, tag) {
        (Some("null"), _) => None,
        (_, Some((key, value))) => Some(Form::Tagged { key, value }),
        (Some("object"), _) if !keys.is_empty() => Some(Form::Object(keys)),
        (Some(kind), _) => Some(Form::Other(in_words(kind).to_owned())),
        (None, _) => Some(Form::Other("another form".to_owned())),
    }
}

/// All forms: single values first, and objects that differ in a tag alone once.
fn forms_in_words(forms: &[Form]) -> String {
    let mut values = Vec::new();
    let mut words = Vec::new();
    for form in forms {
        let word = match form {
            Form::Values(more) => {
                values.extend(more.iter().map(|value| format!("`{value}`")));
                continue;
            }
            Form::Tagged { key, .. } => format!("an object with `{key}`"),
            Form::Object(keys) => format!("an object with `{}`", keys.join("`, `")),
            Form::Other(word) => word.clone(),
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    match values.as_slice() {
        [] => {}
        [value] => words.insert(0, value.clone()),
        _ => words.insert(0, format!("one of {}", values.join(", "))),
    }
    if words.is_empty() {
        words.push("another form".to_owned());
    }
    words.join(" or ")
}

/// What was meant by a mistyped text or key, or by a tag without its object.
fn forms_hint(forms: &[Form], found: &Value) -> Option<String> {
    match found {
        Value::String(found) => {
            let tagged = forms.iter().filter_map(|form| match form {
                Form::Tagged { key, value } => Some((key, value.as_str())),
                _ => None,
            });
            let values = forms.iter().flat_map(|form| match form {
                Form::Values(values) => values.as_slice(),
                _ => &[],
            });
            let near = nearest(found, values.map(String::as_str)).map(did_you_mean);
            near.or_else(|| {
                let tag = nearest(found, tagged.clone().map(|(_, value)| value))?;
                let (key, value) = tagged.clone().find(|(_, value)| *value == tag)?;
                Some(format!("did you mean `{{\"{key}\": \"{value}\"}}`?"))
            })
        }
        Value::Object(members) => {
            let keys = forms.iter().flat_map(|form| match form {
                Form::Object(keys) => keys.as_slice(),
                _ => &[],
            });
            let keys: Vec<&str> = keys.map(String::as_str).collect();
            let near = |found: &String| nearest(found, keys.iter().copied());
            members.keys().find_map(near).map(did_you_mean)
        }
        _ => None,
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
    let names: Vec<String> = match kind {
        TypeKind::Single(kind) => vec![kind.to_string()],
        TypeKind::Multiple(set) => set.iter().map(|kind| kind.to_string()).collect(),
    };
    // What may be null may be left out as well.
    let or_null = names.len() > 1;
    let names: Vec<&str> = names
        .iter()
        .filter(|name| !(or_null && *name == "null"))
        .map(|name| in_words(name))
        .collect();
    names.join(" or ")
}

/// The name of a type in words for people.
fn in_words(name: &str) -> &str {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(value: &Value, schema: &Value) -> Vec<String> {
        let problems = check(value, schema).into_iter();
        problems
            .map(|problem| match problem.hint {
                Some(hint) => format!("{}: {}; {hint}", problem.path, problem.message),
                None => format!("{}: {}", problem.path, problem.message),
            })
            .collect()
    }

    #[derive(schemars::JsonSchema)]
    #[schemars(rename_all = "kebab-case")]
    #[expect(dead_code, reason = "only the schema is wanted")]
    enum Stop {
        Never,
        After { epochs: u64 },
        AtLoss(f64),
    }

    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only the schema is wanted")]
    struct Config {
        stop: Option<Stop>,
        small: Option<u8>,
        count: Option<u64>,
        #[schemars(range(max = 9))]
        digit: Option<u64>,
        level: Option<i32>,
    }

    #[test]
    fn a_value_of_none_of_several_forms_is_told_with_all_of_them() {
        let schema = schemars::schema_for!(Config).to_value();
        for (stop, expected) in [
            (
                json!(3),
                "stop: expected `never` or an object with `after` or an object with `at-loss`, \
                 found 3",
            ),
            (
                json!({"aftr": {"epochs": 3}}),
                "stop: expected `never` or an object with `after` or an object with `at-loss`, \
                 found {\"aftr\":{\"epochs\":3}}; did you mean `after`?",
            ),
            (
                json!({"after": {"epochs": "x"}}),
                "stop.after.epochs: expected a whole number, found \"x\"",
            ),
        ] {
            assert_eq!(messages(&json!({"stop": stop}), &schema), [expected]);
        }
        let layers = json!({"anyOf": [
            {"type": "object", "properties": {"kind": {"const": "relu"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "tanh"}}, "required": ["kind", "a"]}
        ]});
        assert_eq!(
            messages(&json!("rellu"), &layers),
            [
                ": expected an object with `kind`, found \"rellu\"; did you mean `{\"kind\": \"relu\"}`?"
            ]
        );
        for right in [json!("never"), json!({"at-loss": 1}), json!(null)] {
            assert!(messages(&json!({"stop": right}), &schema).is_empty());
        }
    }

    #[test]
    fn whole_numbers_are_those_that_the_types_hold() {
        let schema = schemars::schema_for!(Config).to_value();
        for (value, expected) in [
            (
                json!({"count": 3.0}),
                "count: expected a whole number, found 3.0; write `3`",
            ),
            (
                json!({"count": 3.5}),
                "count: expected a whole number, found 3.5",
            ),
            (
                json!({"count": 18_446_744_073_709_551_616.0}),
                "count: must be at most 18446744073709551615, found 1.8446744073709552e+19",
            ),
            (json!({"count": -1}), "count: must be at least 0, found -1"),
            (
                json!({"small": 256}),
                "small: must be at most 255, found 256",
            ),
            (
                json!({"digit": 1e30}),
                "digit: must be at most 9, found 1e+30",
            ),
            (
                json!({"level": 2_147_483_648_u64}),
                "level: must be at most 2147483647, found 2147483648",
            ),
            (
                json!({"level": -1e300}),
                "level: must be at least -2147483648, found -1e+300",
            ),
        ] {
            assert_eq!(messages(&value, &schema), [expected]);
        }
        assert!(messages(&json!({"count": u64::MAX, "small": 255}), &schema).is_empty());
    }

    #[test]
    fn keys_are_told_short_and_in_one_line() {
        let schema = json!({"type": "object", "additionalProperties": false});
        let long = "k".repeat(100_000);
        let value = json!({"a\u{1b}\nb": 1, long: 2});
        let found = check(&value, &schema);
        assert_eq!(found[0].message, "unknown key `a\\u{1b}\\nb`");
        assert_eq!(
            found[1].message,
            format!("unknown key `{}…`", "k".repeat(60))
        );
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
    fn a_schema_that_is_none_finds_nothing() {
        assert!(check(&json!(1), &json!({"type": "nonsense"})).is_empty());
    }
}
