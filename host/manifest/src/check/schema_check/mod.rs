//! Checks a JSON value against a JSON Schema and describes all problems in words.
//!
//! Used for the manifest and for the configurations of hooks, whose schemas come from their plugins.

use sconce_schema::{CompiledSchema, TypeKind, ValidationError, ValidationErrorKind};
use serde_json::Value;

use super::forms::{meant, no_form};
use super::problem::ManifestProblem;
use super::wording::{
    about, any_of, choices, did_you_mean, in_words, key_of, missing_key, one_of, shortened,
};
use super::{coming_from, example, misplaced, right_form, whole_number};
use crate::json_path;
use sconce_base::nearest::{nearest, ours};

/// Number of problems beyond which no more hints are computed, since each takes time.
const MOST_HINTS: usize = 200;

/// All problems of `value` under `schema`; none if the schema itself is invalid.
pub fn check(value: &Value, schema: &Value) -> Vec<ManifestProblem> {
    Checker::new(schema).check(value)
}

/// A compiled schema, for checking many values.
#[derive(Debug)]
pub struct Checker {
    schema: Value,
    /// `None` if the schema is invalid: then all values pass.
    compiled: Option<CompiledSchema>,
}

impl Checker {
    /// Compiles a schema.
    pub fn new(schema: &Value) -> Checker {
        let compiled =
            CompiledSchema::with_keyword(schema, whole_number::KEYWORD, whole_number::keyword);
        Checker {
            schema: schema.clone(),
            compiled: compiled.ok(),
        }
    }

    /// All problems of a value.
    pub fn check(&self, value: &Value) -> Vec<ManifestProblem> {
        let mut told = ProblemCollector {
            value,
            schema: &self.schema,
            problems: Vec::new(),
        };
        for error in self.compiled.iter().flat_map(|schema| schema.errors(value)) {
            told.explain(&error);
        }
        if told.problems.len() < MOST_HINTS {
            misplaced::improve(&mut told.problems, value, &self.schema);
        }
        told.problems
    }
}

/// The path of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePath {
    /// As a JSON pointer.
    pub pointer: String,
    /// In the form used in messages, such as `hooks[1].config`.
    pub pretty: String,
}

/// Paths of the strings in `value` whose schema has this `format`.
pub fn of_format(value: &Value, schema: &Value, format: &str) -> Vec<ValuePath> {
    let Ok(schema) = CompiledSchema::rejecting_format(schema, format) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for error in schema.errors(value) {
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
        // An optional or multi-form field: look into all branches.
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            for error in context.iter().flatten() {
                formats(error, wanted, value, paths);
            }
        }
        _ => {}
    }
}

/// Collects the problems of a value as they are found.
struct ProblemCollector<'a> {
    value: &'a Value,
    schema: &'a Value,
    problems: Vec<ManifestProblem>,
}

impl ProblemCollector<'_> {
    fn explain(&mut self, error: &ValidationError<'_>) {
        let path = json_path::from_pointer(error.instance_path().as_str(), self.value);
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = known_keys(error, self.schema);
                let unknown = unexpected.iter().map(|key| unknown_key(&path, key, &known));
                self.problems.extend(unknown);
            }
            // A schema that allows no keys at all.
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
                    self.problems.push(ManifestProblem {
                        about: schema_of(error, self.schema).and_then(about),
                        ..no_form(context, error, forms, path)
                    });
                }
            }
            _ => {
                let schema = schema_of(error, self.schema).unwrap_or(&Value::Null);
                let mut problem = plain(error, path, schema);
                if problem.hint.is_none() && self.problems.len() < MOST_HINTS {
                    problem.hint = right_form(error, schema);
                }
                self.problems.push(problem);
            }
        }
    }
}

/// The schema one of whose keywords found the error.
fn schema_of<'a>(error: &ValidationError<'_>, schema: &'a Value) -> Option<&'a Value> {
    let pointer = error.schema_path().as_str();
    schema.pointer(pointer.rsplit_once('/').map_or("", |(parent, _)| parent))
}

/// A suggestion for writing a value that has the wrong type; for an object or a list, at least an example.
fn right_form(error: &ValidationError<'_>, schema: &Value) -> Option<String> {
    let ValidationErrorKind::Type { kind } = error.kind() else {
        return None;
    };
    let key = key_of(error);
    let is_nested = |name: &str| name == "object" || name == "array";
    right_form::hint(error.instance(), schema, key).or_else(|| {
        let nested = type_names(kind).iter().any(|name| is_nested(name));
        nested.then(|| example::hint(schema, key)).flatten()
    })
}

/// The problem of a key that an object lacks.
fn missing(path: String, key: &str, object: &Value) -> ManifestProblem {
    let schema = object
        .get("properties")
        .and_then(|properties| properties.get(key));
    let schema = schema.unwrap_or(&Value::Null);
    let choices = choices(schema);
    let hint = if choices.is_empty() {
        example::hint(schema, Some(key))
    } else {
        Some(any_of(key, &choices))
    };
    ManifestProblem {
        hint,
        about: about(schema),
        ..missing_key(path, key)
    }
}

/// The problem of a text that has not the form of the schema's pattern. The schema's examples say which forms there are.
fn other_pattern(path: String, pattern: &str, schema: &Value, found: &Value) -> ManifestProblem {
    let examples = schema.get("examples").and_then(Value::as_array);
    let examples: Vec<&str> = (examples.into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    let shown = shortened(found);
    let message = match examples.as_slice() {
        [] => format!("{shown} does not have the form `{pattern}`"),
        [only] => format!("expected a text such as `{only}`, found {shown}"),
        [first @ .., last] => format!(
            "expected `{}` or `{last}`, found {shown}",
            first.join("`, `")
        ),
    };
    let near = nearest(found.as_str().unwrap_or_default(), examples);
    ManifestProblem {
        about: about(schema),
        ..ManifestProblem::new(path, message, near.map(did_you_mean))
    }
}

fn plain(error: &ValidationError<'_>, path: String, schema: &Value) -> ManifestProblem {
    let found = shortened(error.instance());
    let (message, hint) = match error.kind() {
        ValidationErrorKind::Type { kind } => {
            let message = format!("expected {}, found {found}", types(kind));
            return ManifestProblem {
                about: about(schema),
                ..ManifestProblem::new(path, message, None)
            };
        }
        ValidationErrorKind::Required { property } => {
            return missing(path, property.as_str().unwrap_or_default(), schema);
        }
        ValidationErrorKind::Enum { options } => one_of(options, error.instance()),
        ValidationErrorKind::Constant { expected_value } => {
            (format!("expected {expected_value}, found {found}"), None)
        }
        ValidationErrorKind::Minimum { limit } => (
            format!("must be at least {}, found {found}", bound(limit)),
            None,
        ),
        ValidationErrorKind::Maximum { limit } => (
            format!("must be at most {}, found {found}", bound(limit)),
            percent(limit, error.instance()),
        ),
        ValidationErrorKind::ExclusiveMinimum { limit } => (
            format!("must be above {}, found {found}", bound(limit)),
            None,
        ),
        ValidationErrorKind::ExclusiveMaximum { limit } => (
            format!("must be below {}, found {found}", bound(limit)),
            percent(limit, error.instance()),
        ),
        ValidationErrorKind::MinLength { limit: 1 } => ("must not be empty".to_owned(), None),
        ValidationErrorKind::MinItems { limit } => (
            format!("needs at least {limit} elements, found {found}"),
            None,
        ),
        ValidationErrorKind::Pattern { pattern } => {
            return other_pattern(path, pattern, schema, error.instance());
        }
        ValidationErrorKind::MaxItems { limit } => {
            let count = error.instance().as_array().map_or(0, Vec::len);
            (format!("has at most {limit} elements, found {count}"), None)
        }
        ValidationErrorKind::UniqueItems => (format!("has an element twice, found {found}"), None),
        ValidationErrorKind::Custom { message, .. } => (message.clone(), None),
        _ => (crate::diagnostic::shortened(&error.to_string()), None),
    };
    ManifestProblem::new(path, message, hint)
}

/// Formats a limit without the decimal point that a schema writes for numbers that need not be integers.
fn bound(limit: &Value) -> String {
    let text = limit.to_string();
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Suggests a fraction for a percentage given where at most 1 is allowed.
fn percent(limit: &Value, found: &Value) -> Option<String> {
    let found = found
        .as_f64()
        .filter(|found| *found > 1.0 && *found <= 100.0)?;
    let is_fraction = limit.as_f64() == Some(1.0);
    is_fraction.then(|| {
        format!(
            "a fraction of 1 is wanted: {found} % are `{}`",
            found / 100.0
        )
    })
}

fn unknown_key(path: &str, key: &str, known: &[String]) -> ManifestProblem {
    let near = nearest(key, known.iter().map(String::as_str));
    let list: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
    let hint = near
        .map(did_you_mean)
        .or_else(|| (!list.is_empty()).then(|| format!("known here: {}", list.join(", "))))
        .or_else(|| known.is_empty().then(|| "no key is known here".to_owned()));
    let message = format!("unknown key `{}`", crate::diagnostic::shortened(key));
    ManifestProblem {
        is_key: true,
        unknown: Some(key.to_owned()),
        is_slip: near.is_some_and(|near| is_slip(key, near)),
        ..ManifestProblem::new(json_path::member(path, key), message, hint)
    }
}

/// Whether a key looks like a typo of `near`, or is another framework's term for it.
fn is_slip(key: &str, near: &str) -> bool {
    let (key, near) = (key.to_lowercase(), near.to_lowercase());
    // `betas` is what PyTorch calls two keys, not a typo of `beta1`.
    let is_name = || !coming_from::hints(&key, None).is_empty();
    ours(&key) == Some(near.as_str())
        || (strsim::damerau_levenshtein(&key, &near) <= 2 && !is_name())
}

/// The keys that the schema allows next to an unknown one.
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

fn types(kind: &TypeKind) -> String {
    let names = type_names(kind);
    let names: Vec<&str> = names.iter().map(|name| in_words(name)).collect();
    names.join(" or ")
}

/// The names of the types, without `null` beside another: a value that may be null may also be omitted.
fn type_names(kind: &TypeKind) -> Vec<String> {
    let names: Vec<String> = match kind {
        TypeKind::Single(kind) => vec![kind.to_string()],
        TypeKind::Multiple(set) => set.iter().map(|kind| kind.to_string()).collect(),
    };
    let is_only = names.len() == 1;
    let all = names.into_iter();
    all.filter(|name| is_only || name != "null").collect()
}

#[cfg(test)]
mod tests;
