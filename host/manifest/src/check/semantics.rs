//! Checks of a manifest that a schema can't express; reported together with the schema's problems.

use std::collections::{BTreeMap, BTreeSet};

use sconce_plugin_api::ext::check_path;
use serde_json::Value;

use super::problem::ManifestProblem;
use crate::entry::hook_entry::ONE_UNIT;
use crate::json_path;

/// The units of `every`; an entry has exactly one.
const UNITS: [&str; 3] = ["iterations", "updates", "epochs"];

/// Maximum length in bytes of the name of a run or a hook. Directories are named after it, and file systems
/// allow at most 255.
const LONGEST_NAME: usize = 200;

/// Problems with names and hooks of a document, except in parts that already failed the schema check.
pub(crate) fn check(document: &Value, found: &[ManifestProblem]) -> Vec<ManifestProblem> {
    let hooks = document.get("hooks").and_then(Value::as_array);
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut problems = wrong_paths(document);
    problems.extend(too_long(document.get("name"), "name", "the run's name"));
    let found: BTreeSet<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
    for (index, hook) in hooks.into_iter().flatten().enumerate() {
        let path = json_path::element("hooks", index);
        let every = json_path::member(&path, "every");
        if has_wrong_filter(hook)
            && !found.contains(every.as_str())
            && !found
                .range(every.as_str()..)
                .take_while(|path| path.starts_with(&every))
                .any(|path| json_path::is_inside(path, &every))
        {
            problems.push(wrong(every, ONE_UNIT.to_owned()));
        }
        problems.extend(wrong_modules(hook, &path));
        problems.extend(too_long(
            hook.get("name"),
            &json_path::member(&path, "name"),
            "the name of the hook's entry",
        ));
        let name = hook.get("name").and_then(Value::as_str);
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            continue;
        };
        if let Some(first) = names.get(name) {
            let shown = crate::diagnostic::shortened(name);
            problems.push(ManifestProblem {
                hint: Some(format!(
                    "hooks[{first}] has this name too: give one of them another"
                )),
                ..wrong(
                    json_path::member(&path, "name"),
                    format!("two hooks are called `{shown}`"),
                )
            });
        } else {
            names.insert(name, index);
        }
    }
    problems
}

fn too_long(name: Option<&Value>, path: &str, what: &str) -> Option<ManifestProblem> {
    let length = name?.as_str()?.len();
    (length > LONGEST_NAME).then(|| {
        let message = format!("{what} has {length} bytes, at most {LONGEST_NAME} are possible");
        wrong(path.to_owned(), message)
    })
}

/// The keys of `data` whose strings are paths, at any depth.
const PATHS_OF_DATA: [&str; 6] = ["directory", "file", "images", "inputs", "labels", "targets"];

/// Paths with something that a shell would expand.
fn wrong_paths(document: &Value) -> Vec<ManifestProblem> {
    let mut paths = Vec::new();
    let mut add = |path: &str, value: Option<&Value>| {
        if let Some(Value::String(text)) = value {
            paths.push((path.to_owned(), text.clone()));
        }
    };
    add("output", document.get("output"));
    add("weights", document.get("weights"));
    add("weights.file", document.pointer("/weights/file"));
    for list in ["plugins", "hooks"] {
        let elements = document.get(list).and_then(Value::as_array);
        for (index, element) in elements.into_iter().flatten().enumerate() {
            let path = json_path::element(list, index);
            match list {
                "plugins" => add(&path, Some(element)),
                _ => add(&json_path::member(&path, "library"), element.get("library")),
            }
        }
    }
    let mut open: Vec<(String, &Value)> = Vec::new();
    open.extend(document.get("data").map(|data| ("data".to_owned(), data)));
    while let Some((path, value)) = open.pop() {
        for (key, value) in value.as_object().into_iter().flatten() {
            let path = json_path::member(&path, key);
            if PATHS_OF_DATA.contains(&key.as_str()) {
                add(&path, Some(value));
            }
            open.push((path, value));
        }
    }
    let problem = |(path, text): (String, String)| Some(wrong(path, check_path(&text).err()?));
    paths.into_iter().filter_map(problem).collect()
}

/// Whether an `every` has no unit, or more than one.
fn has_wrong_filter(hook: &Value) -> bool {
    let Some(every) = hook.get("every").and_then(Value::as_object) else {
        return false;
    };
    let is_said = |unit: &&&str| every.get(**unit).is_some_and(|count| !count.is_null());
    UNITS.iter().filter(is_said).count() != 1
}

/// Invalid module patterns.
fn wrong_modules(hook: &Value, path: &str) -> Option<ManifestProblem> {
    let modules = hook.get("modules")?.as_array()?;
    let patterns = modules.iter().map(|name| name.as_str().map(str::to_owned));
    let patterns: Option<Vec<String>> = patterns.collect();
    let message = sconce_base::patterns::Patterns::new(&patterns?).err()?;
    Some(wrong(json_path::member(path, "modules"), message))
}

fn wrong(path: String, message: String) -> ManifestProblem {
    ManifestProblem::new(path, message, None)
}
