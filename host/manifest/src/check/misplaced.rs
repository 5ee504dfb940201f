//! Suggests where keys belong that are in the wrong place or named as in another framework.

use serde_json::{Map, Value, json};

use super::problem::ManifestProblem;
use super::wording::did_you_mean;
use super::{coming_from, right_form};
use crate::json_path;
use sconce_base::nearest::{nearest, ours};

/// Keys by which other frameworks name the kind of an object.
const OTHER_TAGS: [&str; 5] = ["type", "kind", "name", "class", "class_name"];

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
        let place = location_of(problem, &key, value, document, schema);
        // A name of another framework is looked up where it can't be a typo.
        let named = || (!problem.is_slip).then(|| coming_from::hints(&key, None));
        let hint = place.or_else(|| named()?.into_iter().next());
        problem.hint = hint.or(problem.hint.take());
    }
    for problem in problems
        .iter_mut()
        .filter(|problem| problem.missing.is_some())
    {
        let value = value_at(document, &problem.path);
        if let Some(hint) = other_tag(problem.missing.as_deref(), value, problem.hint.as_deref()) {
            problem.hint = Some(hint);
        }
    }
}

/// Suggests the missing key for the value of one by which another framework names an object's kind.
fn other_tag(
    missing: Option<&str>,
    object: Option<&Value>,
    choices: Option<&str>,
) -> Option<String> {
    let missing = missing.filter(|missing| ["kind", "hook"].contains(missing))?;
    let object = object?.as_object()?;
    let mut others = OTHER_TAGS.into_iter().filter(|other| *other != missing);
    let name = others.find_map(|other| object.get(other)?.as_str())?;
    let counterpart = coming_from::hints(name, None).into_iter().next();
    let known: Vec<&str> = choices.unwrap_or_default().split('`').collect();
    let near = nearest(name, known.into_iter().filter(|word| *word != missing));
    match (missing, near, counterpart) {
        ("kind", Some(kind), _) => Some(format!("write `\"kind\": \"{kind}\"`")),
        ("hook", _, Some(counterpart)) => Some(counterpart),
        ("hook", _, None) => {
            let name = crate::diagnostic::shortened(&json!(name).to_string());
            Some(format!("write `\"hook\": {name}`"))
        }
        _ => None,
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
    document: &Value,
    schema: &Value,
) -> Option<String> {
    let parent = json_path::parent(&problem.path)?;
    if is_hook_entry(parent) {
        // A typo is more likely than a key of the hook's own configuration.
        if problem.is_slip {
            return None;
        }
        return Some(format!(
            "a key of the hook itself belongs under `config`: `\"config\": {{{}}}`",
            member_in_words(key, value)
        ));
    }
    let name = ours(key).unwrap_or(key);
    if problem.is_slip {
        return None;
    }
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let is_section = |section: &str| properties.contains_key(section);
    if !parent.is_empty() && !is_section(parent) {
        return None;
    }
    if !parent.is_empty() && is_section(name) {
        return Some(format!(
            "`{name}` is a key of the manifest itself, beside `{parent}`"
        ));
    }
    let mut sections: Vec<Section<'_>> = properties
        .iter()
        .filter(|(section, _)| section.as_str() != parent)
        .flat_map(|(section, schema)| Section::all(section, schema, document.get(section)))
        .filter(|section| section.member(name).is_some())
        .collect();
    // A key that several sections have belongs where its value fits.
    let takes = |section: &Section<'_>| {
        let member = section.member(name).unwrap_or(&Value::Null);
        value.is_some_and(|value| right_form::takes(member, value))
    };
    if let Some(fitting) = sections.iter().position(takes) {
        sections.swap(0, fitting);
    }
    let section = sections.first()?;
    Some(format!(
        "it belongs under `{}`: {}",
        section.name,
        shown(section, name, value)
    ))
}

/// A key of the document whose value is an object, or a list of objects: one form of it.
struct Section<'a> {
    name: &'a str,
    is_list: bool,
    properties: &'a Map<String, Value>,
}

impl<'a> Section<'a> {
    /// The forms of a key's value; only those of the same kind as the value that is there.
    fn all(name: &'a str, schema: &'a Value, there: Option<&Value>) -> Vec<Section<'a>> {
        let kind = there.and_then(|there| there.get("kind"));
        let mut sections = Vec::new();
        let mut open = vec![(schema, false)];
        while let Some((schema, is_list)) = open.pop() {
            for branches in ["anyOf", "oneOf"] {
                let branches = schema.get(branches).and_then(Value::as_array);
                open.extend(branches.into_iter().flatten().map(|form| (form, is_list)));
            }
            // A list in a list is not searched, nor `hooks`, whose entries have keys of every sort.
            let items = schema.get("items").filter(|_| !is_list && name != "hooks");
            open.extend(items.map(|items| (items, true)));
            let properties = schema.get("properties").and_then(Value::as_object);
            let of_kind = |properties: &&Map<String, Value>| {
                let constant = properties.get("kind").and_then(|kind| kind.get("const"));
                kind.is_none() || constant == kind
            };
            sections.extend(properties.filter(of_kind).map(|properties| Section {
                name,
                is_list,
                properties,
            }));
        }
        sections
    }

    /// The schema of a member.
    fn member(&self, name: &str) -> Option<&'a Value> {
        self.properties.get(name)
    }
}

/// Formats `"section": {"key": value}`, with brackets for a list.
fn shown(section: &Section<'_>, key: &str, value: Option<&Value>) -> String {
    let member = member_in_words(key, value);
    if section.is_list {
        format!("`\"{}\": [{{{member}}}]`", section.name)
    } else {
        format!("`\"{}\": {{{member}}}`", section.name)
    }
}

fn member_in_words(key: &str, value: Option<&Value>) -> String {
    let value = value.map_or_else(
        || "…".to_owned(),
        |value| crate::diagnostic::shortened(&value.to_string()),
    );
    let key = crate::diagnostic::shortened(&json!(key).to_string());
    format!("{key}: {value}")
}

/// Whether a path is that of an element of `hooks`.
fn is_hook_entry(path: &str) -> bool {
    let index = path
        .strip_prefix("hooks[")
        .and_then(|rest| rest.strip_suffix(']'));
    index.is_some_and(|index| index.parse::<usize>().is_ok())
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
