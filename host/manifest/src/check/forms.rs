//! Values that may take one of several forms: picks the form that was meant, or lists the possible ones.

use sconce_schema::{ValidationError, ValidationErrorKind};
use serde_json::Value;

use super::problem::ManifestProblem;
use super::wording::{any_of, did_you_mean, in_words, key_of, missing_key, one_of, shortened};
use super::{example, right_form};
use crate::json_path;
use sconce_base::nearest::nearest;

/// Of the forms a value may take, returns the problems of the one that was meant. That is judged by its tag,
/// its type, or its keys.
pub(super) fn meant<'a>(
    branches: &'a [Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
) -> Option<&'a [ValidationError<'static>]> {
    let here = error.instance_path().as_str();
    let without = |is_other: fn(&ValidationError<'_>, &str) -> bool| {
        let of_this_type = branches.iter();
        of_this_type
            .filter(|branch| !branch.iter().any(|problem| is_other(problem, here)))
            .collect::<Vec<_>>()
    };
    let mut of_this_type = without(|problem, here| {
        is_other_form(problem, here) || is_none_of_its_forms(problem, here)
    });
    if of_this_type.is_empty() {
        of_this_type = without(is_other_form);
    }
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

/// Whether a problem shows that another form was meant. It does if a tag is wrong one level down, or the type
/// of the value itself.
fn is_other_form(problem: &ValidationError<'_>, here: &str) -> bool {
    let at = problem.instance_path().as_str();
    match problem.kind() {
        ValidationErrorKind::Constant { .. } => at == here || tag(at, here).is_some(),
        ValidationErrorKind::Type { .. } => at == here,
        _ => false,
    }
}

/// Whether a problem says that every nested form of this one expects another type.
fn is_none_of_its_forms(problem: &ValidationError<'_>, here: &str) -> bool {
    match problem.kind() {
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

/// The member of the value at `here` that the JSON pointer `at` refers to.
fn tag<'a>(at: &'a str, here: &str) -> Option<&'a str> {
    let rest = at.strip_prefix(here)?.strip_prefix('/')?;
    (!rest.contains('/')).then_some(rest)
}

/// The problem of a value that matches none of its possible forms.
pub(super) fn no_form(
    branches: &[Vec<ValidationError<'static>>],
    error: &ValidationError<'_>,
    schema: Option<&Value>,
    path: String,
) -> ManifestProblem {
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
        // The tag's value, or the value itself if it is one of several strings.
        let (path, found) = match key {
            Some(key) => (json_path::member(&path, key), error.instance().get(key)),
            None => (path, Some(&**error.instance())),
        };
        let (message, hint) = one_of(&Value::Array(tags), found.unwrap_or(&Value::Null));
        return ManifestProblem::new(path, message, hint);
    }
    if let Some(missing) = missing_tag(branches) {
        let values = schema.map(|schema| tags_of(schema, &missing));
        let values = values.filter(|values| !values.is_empty());
        return ManifestProblem {
            is_tag: true,
            hint: values.map(|values| any_of(&missing, &values)),
            ..missing_key(path, &missing)
        };
    }
    let found = error.instance();
    let known = forms(schema);
    let message = format!(
        "expected {}, found {}",
        forms_in_words(&known),
        shortened(found)
    );
    let hint = forms_hint(&known, schema, found).or_else(|| {
        let schema = serde_json::json!({"anyOf": schema?});
        let key = key_of(error);
        right_form::hint(found, &schema, key).or_else(|| example::hint(&schema, key))
    });
    ManifestProblem::new(path, message, hint)
}

/// A possible form of a value.
#[derive(Debug, PartialEq)]
enum ValueForm {
    /// One of these literal values.
    Values(Vec<String>),
    /// An object whose member `key` is `value`.
    Tagged { key: String, value: String },
    /// An object with at least these keys.
    Object(Vec<String>),
    /// A value of some type, described in words; also the fallback for everything else.
    Other(String),
}

/// The forms in an `anyOf` or `oneOf`, without `null`, which stands for an omitted key.
fn forms(schema: Option<&Value>) -> Vec<ValueForm> {
    let branches = schema.and_then(Value::as_array);
    branches.into_iter().flatten().filter_map(form).collect()
}

fn form(schema: &Value) -> Option<ValueForm> {
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    if let Some(value) = schema.get("const") {
        return Some(ValueForm::Values(vec![text(value)]));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(ValueForm::Values(values.iter().map(text).collect()));
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
        (_, Some((key, value))) => Some(ValueForm::Tagged { key, value }),
        (Some("object"), _) if !keys.is_empty() => Some(ValueForm::Object(keys)),
        (Some(kind), _) => Some(ValueForm::Other(in_words(kind).to_owned())),
        (None, _) => Some(ValueForm::Other("another form".to_owned())),
    }
}

/// Lists all forms: literal values first, and objects that differ only in their tag merged into one.
fn forms_in_words(forms: &[ValueForm]) -> String {
    let mut values = Vec::new();
    let mut words = Vec::new();
    for form in forms {
        let word = match form {
            ValueForm::Values(more) => {
                values.extend(more.iter().map(|value| format!("`{value}`")));
                continue;
            }
            ValueForm::Tagged { key, .. } => format!("an object with `{key}`"),
            ValueForm::Object(keys) => format!("an object with `{}`", keys.join("`, `")),
            ValueForm::Other(word) => word.clone(),
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

/// A suggestion for a mistyped string or key, or for a tag given without its object.
fn forms_hint(forms: &[ValueForm], schema: Option<&Value>, found: &Value) -> Option<String> {
    match found {
        Value::String(found) => {
            let tagged = forms.iter().filter_map(|form| match form {
                ValueForm::Tagged { key, value } => Some((key, value.as_str())),
                _ => None,
            });
            let values = forms.iter().flat_map(|form| match form {
                ValueForm::Values(values) => values.as_slice(),
                _ => &[],
            });
            let near = nearest(found, values.map(String::as_str)).map(did_you_mean);
            near.or_else(|| {
                let tag = nearest(found, tagged.clone().map(|(_, value)| value))?;
                let (key, value) = tagged.clone().find(|(_, value)| *value == tag)?;
                let others = others_needed(schema, key, value);
                let others: Vec<String> = (others.iter())
                    .map(|other| format!(", \"{other}\": …"))
                    .collect();
                let others = others.concat();
                Some(format!(
                    "did you mean `{{\"{key}\": \"{value}\"{others}}}`?"
                ))
            })
        }
        Value::Object(members) => {
            let keys = forms.iter().flat_map(|form| match form {
                ValueForm::Object(keys) => keys.as_slice(),
                _ => &[],
            });
            let keys: Vec<&str> = keys.map(String::as_str).collect();
            let near = |found: &String| nearest(found, keys.iter().copied());
            members.keys().find_map(near).map(did_you_mean)
        }
        _ => None,
    }
}

/// The values that a tag has in the forms.
fn tags_of<'a>(schema: &'a Value, tag: &str) -> Vec<&'a str> {
    let forms = schema.as_array().into_iter().flatten();
    forms
        .filter_map(|form| form.get("properties")?.get(tag)?.get("const")?.as_str())
        .collect()
}

/// The keys that a tagged form requires besides its tag.
fn others_needed<'a>(schema: Option<&'a Value>, key: &str, value: &str) -> Vec<&'a str> {
    let branches = schema.and_then(Value::as_array).into_iter().flatten();
    let is_meant = |branch: &&Value| {
        let tag = branch
            .get("properties")
            .and_then(|properties| properties.get(key)?.get("const"));
        tag.and_then(Value::as_str) == Some(value)
    };
    let required = branches
        .filter(is_meant)
        .filter_map(|branch| branch.get("required")?.as_array());
    let keys = required.flatten().filter_map(Value::as_str);
    keys.filter(|other| *other != key).collect()
}

/// The key that every form requires and the value lacks.
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
