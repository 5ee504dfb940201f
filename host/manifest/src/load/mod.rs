//! Loads a manifest from a file, or reports everything that is wrong with it.
//!
//! **Parts**
//! - `read`: the text of a file. `overlay`: layers over it, of other files (by `read`) and of assignments (`overrides`).
//! - `document`: other files of the user's, which have no layers.
//!
//! **Flow.** `read` the file → parse it → merge its layers → set the assignments → complete entries that are scripts → check it
//! against the schema and by `semantics` → give it its type. Problems are reported together, each in its place.

pub mod document;
pub(super) mod overlay;
mod overrides;
mod read;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::check::semantics;
use super::entry::script;
use super::json::syntax;
use super::problem::ManifestProblem;
use super::{HookEntry, JsonSource, Overlay, json_path, schema_check};
use crate::diagnostic::Diagnostic;

/// Maximum number of problems reported at once.
const MOST_REPORTED: usize = 50;

/// Reads a manifest with its overlay applied, and checks it against its JSON Schema; returns it with the positions of its values.
///
/// # Errors
///
/// For invalid JSON, the first syntax error; otherwise all problems at once.
pub fn load<T: DeserializeOwned>(
    path: &Path,
    overlay: &Overlay,
    schema: &Value,
) -> Result<(T, JsonSource), Vec<Diagnostic>> {
    let text = match &overlay.text {
        Some(text) => text.clone(),
        None => read::text(path).map_err(|problem| vec![problem])?,
    };
    let mut document = syntax::parse(path, &text).map_err(|problem| vec![problem])?;
    let mut source = JsonSource::new(path, &text);
    let mut problems = source.doubled_keys();
    for layer in &overlay.layers {
        let laid = overlay::lay(&mut document, &mut source, layer);
        problems.extend(laid.map_err(|problem| vec![problem])?);
    }
    let assignments = &overlay.assignments;
    problems.extend(overrides::apply(&mut document, &mut source, assignments));
    let found = schema_check::check(&document, schema);
    let more = semantics::check(&document, &found);
    let found = found.into_iter().chain(more);
    problems.extend(found.map(|problem| told(problem, &source)));
    if !problems.is_empty() {
        return Err(ordered(problems, path));
    }
    let manifest = deserialize(document, &source).map_err(|problem| vec![problem])?;
    Ok((manifest, source))
}

/// Sorts problems by their position in the file, and truncates a long list. Those from the command line come
/// last.
fn ordered(mut problems: Vec<Diagnostic>, path: &Path) -> Vec<Diagnostic> {
    problems.sort_by_key(|problem| {
        let place = problem.place.as_ref()?;
        Some((place.file != path, place.span.as_ref()?.start))
    });
    let more = problems.len().saturating_sub(MOST_REPORTED);
    if more > 0 {
        problems.truncate(MOST_REPORTED);
        problems.push(Diagnostic::new(format!("there are {more} more problems")));
    }
    problems
}

/// Turns a problem into a diagnostic with its place in the text or on the command line.
pub(super) fn told(problem: ManifestProblem, source: &JsonSource) -> Diagnostic {
    let place = if problem.is_key {
        source.key_location(&problem.path)
    } else {
        source.location(&problem.path)
    };
    explained(
        Diagnostic::new(problem.message).at(place),
        problem.about,
        problem.hint,
    )
}

/// Adds what is expected to a diagnostic, and what to do.
pub fn explained(
    diagnostic: Diagnostic,
    about: Option<String>,
    hint: Option<String>,
) -> Diagnostic {
    let diagnostic = match about {
        Some(about) => diagnostic.note(format!("expected there: {about}")),
        None => diagnostic,
    };
    match hint {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    }
}

/// Deserializes a document that has passed the schema check; a remaining error names the path.
fn deserialize<T: DeserializeOwned>(document: Value, source: &JsonSource) -> Result<T, Diagnostic> {
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(document, &mut track);
    T::deserialize(tracked).map_err(|error| {
        let mut path = String::new();
        for segment in &track.path() {
            path = match segment {
                Segment::Seq { index } => json_path::element(&path, *index),
                Segment::Map { key } => json_path::member(&path, key),
                Segment::Enum { .. } | Segment::Unknown => path,
            };
        }
        Diagnostic::new(error.to_string()).at(source.location(&path))
    })
}

/// Fills in what depends on all hooks and on the manifest's directory: paths start there.
pub fn complete_hooks(hooks: &mut [HookEntry], directory: &Path) {
    for hook in &mut *hooks {
        hook.library = hook.library.take().map(|library| directory.join(library));
        script::complete(hook, directory);
    }
    name_hooks(hooks);
}

/// Gives every hook entry a unique name: names written in the manifest are kept as they are.
fn name_hooks(hooks: &mut [HookEntry]) {
    let mut taken: BTreeSet<String> = hooks.iter().map(|hook| hook.name.clone()).collect();
    // The last number given out for each hook; numbers below it stay taken.
    let mut numbers: HashMap<String, u64> = HashMap::new();
    for (index, hook) in hooks.iter_mut().enumerate() {
        hook.index = index;
        if !hook.name.is_empty() {
            continue;
        }
        let kind = script::stem(hook)
            .unwrap_or_else(|| hook.hook.rsplit('/').next().unwrap_or_default())
            .to_owned();
        let mut name = kind.clone();
        let number = numbers.entry(kind.clone()).or_insert(1);
        if *number > 1 {
            name = format!("{kind}-{number}");
        }
        while taken.contains(&name) {
            *number += 1;
            name = format!("{kind}-{number}");
        }
        taken.insert(name.clone());
        hook.name = name;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(written: &str) -> HookEntry {
        serde_json::from_str(written).expect("an entry")
    }

    #[test]
    fn names_are_numbered_past_those_that_are_taken() {
        let mut hooks: Vec<HookEntry> = [
            "\"a\"",
            "{\"hook\": \"b\", \"name\": \"a-2\"}",
            "\"p/a\"",
            "\"b\"",
            "\"a\"",
            "{\"hook\": \"c\", \"name\": \"a-5\"}",
            "\"a\"",
            "\"b\"",
        ]
        .map(entry)
        .to_vec();
        name_hooks(&mut hooks);
        let names: Vec<&str> = hooks.iter().map(|hook| hook.name.as_str()).collect();
        let expected = ["a", "a-2", "a-3", "b", "a-4", "a-5", "a-6", "b-2"];
        assert_eq!(names, expected);
    }

    #[test]
    fn so_many_hooks_that_none_may_try_all_numbers() {
        // With numbers counted from 2 for each entry, this would try 10^10 names.
        let mut hooks = vec![entry("\"console\""); 200_000];
        name_hooks(&mut hooks);
        let last = hooks.last().map(|hook| hook.name.as_str());
        assert_eq!(last, Some("console-200000"));
    }
}
