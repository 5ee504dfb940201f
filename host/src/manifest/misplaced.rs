//! Suggests where keys belong that are in the wrong place or named as in another framework.

use serde_json::{Value, json};

use super::json_path;
use super::problem::ManifestProblem;
use super::wording::did_you_mean;
use crate::nearest::{nearest, ours};

/// The sections of a manifest that are searched for a misplaced key.
const SECTIONS: [&str; 4] = ["train", "optimizer", "limits", ""];

/// Combines related problems of a document. A missing key and an unknown one meant for it become one problem,
/// and a key that belongs to another section gets a hint naming it.
pub(super) fn improve(problems: &mut Vec<ManifestProblem>, document: &Value, schema: &Value) {
    join_missing(problems, document);
    for problem in problems
        .iter_mut()
        .filter(|problem| problem.unknown.is_some())
    {
        let key = problem.unknown.clone().unwrap_or_default();
        let value = value_at(document, &problem.path);
        if let Some(hint) = location_of(problem, &key, value, schema) {
            problem.hint = Some(hint);
        }
    }
}

/// Joins a missing key with an unknown one of a similar name. Without such a name, it joins the only unknown
/// key with the only missing one.
fn join_missing(problems: &mut Vec<ManifestProblem>, document: &Value) {
    let mut joined = Vec::new();
    for (index, missing) in problems.iter().enumerate() {
        let Some(key) = &missing.missing else {
            continue;
        };
        let here = |other: &&ManifestProblem| {
            other.unknown.is_some() && json_path::parent(&other.path) == Some(missing.path.as_str())
        };
        let unknown: Vec<&str> = (problems.iter().filter(here))
            .filter_map(|problem| problem.unknown.as_deref())
            .collect();
        let meant = unknown
            .iter()
            .copied()
            .find(|unknown| nearest(unknown, [key.as_str()]).is_some());
        let all_missing = problems.iter();
        let all_missing = all_missing
            .filter(|p| p.missing.is_some() && p.path == missing.path)
            .count();
        let meant = meant.or(match unknown.as_slice() {
            [only] if all_missing == 1 => Some(*only),
            _ => None,
        });
        if let Some(meant) = meant {
            joined.push((index, json_path::member(&missing.path, meant), key.clone()));
            continue;
        }
        // Without its tag, the rest of the object could not be checked.
        let members = value_at(document, &missing.path).and_then(Value::as_object);
        let keys = members.into_iter().flatten().map(|(key, _)| key.as_str());
        if missing.is_tag
            && let Some(meant) = nearest(key, keys)
        {
            joined.push((index, json_path::member(&missing.path, meant), key.clone()));
        }
    }
    for (_, path, key) in &joined {
        if let Some(problem) = problems
            .iter_mut()
            .find(|p| p.unknown.is_some() && p.path == *path)
        {
            // If the names are not similar, the hint also names the missing key: the unknown one may simply
            // be superfluous.
            problem.hint = Some(
                match nearest(
                    problem.unknown.as_deref().unwrap_or_default(),
                    [key.as_str()],
                ) {
                    Some(_) => did_you_mean(key),
                    None => format!("the key `{key}` is missing; {}", did_you_mean(key)),
                },
            );
            // No other section is suggested for it.
            problem.unknown = None;
        }
    }
    for (index, path, key) in joined.into_iter().rev() {
        let is_known = problems
            .iter()
            .any(|problem| problem.is_key && problem.path == path);
        let Some(problem) = problems.get_mut(index) else {
            continue;
        };
        if is_known {
            problems.remove(index);
        } else {
            problem.path = path;
            problem.is_key = true;
            problem.hint = Some(format!("is this key meant? then it is called `{key}`"));
        }
    }
}

/// Where an unknown key belongs, as a hint.
fn location_of(
    problem: &ManifestProblem,
    key: &str,
    value: Option<&Value>,
    schema: &Value,
) -> Option<String> {
    let parent = json_path::parent(&problem.path)?;
    if is_hook_entry(parent) {
        // A typo is more likely than a key of the hook's own configuration.
        if problem.is_slip {
            return None;
        }
        return Some(format!(
            "a key of the hook itself belongs under `config`: {}",
            shown("config", key, value)
        ));
    }
    let name = ours(key).unwrap_or(key);
    let is_section = parent.is_empty() || SECTIONS.contains(&parent);
    if !is_section || problem.is_slip {
        return None;
    }
    let section = SECTIONS
        .into_iter()
        .filter(|section| *section != parent)
        .find(|section| keys_of(schema, section).contains(&name))?;
    Some(match section {
        "" => format!("`{name}` is a key of the manifest itself, beside `{parent}`"),
        section => format!(
            "it belongs under `{section}`: {}",
            shown(section, name, value)
        ),
    })
}

/// Formats `"section": {"key": value}`.
fn shown(section: &str, key: &str, value: Option<&Value>) -> String {
    let value = value.map_or_else(
        || "…".to_owned(),
        |value| crate::diagnostic::shortened(&value.to_string()),
    );
    let key = crate::diagnostic::shortened(&json!(key).to_string());
    format!("`\"{section}\": {{{key}: {value}}}`")
}

/// Whether a path is that of an element of `hooks`.
fn is_hook_entry(path: &str) -> bool {
    let index = path
        .strip_prefix("hooks[")
        .and_then(|rest| rest.strip_suffix(']'));
    index.is_some_and(|index| index.parse::<usize>().is_ok())
}

/// The keys of a section, over all its kinds.
fn keys_of<'a>(schema: &'a Value, section: &str) -> Vec<&'a str> {
    let properties = schema.get("properties");
    let part = match section {
        "" => return keys(properties).collect(),
        section => properties.and_then(|properties| properties.get(section)),
    };
    let kinds = part.and_then(|part| part.get("oneOf").or_else(|| part.get("anyOf")));
    let kinds = kinds.and_then(Value::as_array).into_iter().flatten();
    let of_kinds = kinds.flat_map(|kind| keys(kind.get("properties")));
    let own = keys(part.and_then(|part| part.get("properties")));
    own.chain(of_kinds).filter(|key| *key != "kind").collect()
}

fn keys(properties: Option<&Value>) -> impl Iterator<Item = &str> {
    let keys = properties.and_then(Value::as_object).into_iter().flatten();
    keys.map(|(key, _)| key.as_str())
}

/// The value at a path.
fn value_at<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    if path.is_empty() {
        return Some(document);
    }
    let steps = json_path::steps(path).ok()?;
    steps.iter().try_fold(document, |value, step| match step {
        json_path::PathSegment::Key(key) => value.get(key),
        json_path::PathSegment::Index(index) => value.get(index),
    })
}
