//! From a file to a manifest, or to everything that is wrong with it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::schema_check::{self, Problem};
use super::{HookEntry, Manifest, Source, TaskSource, json_schema, overrides};
use crate::diagnostic::Diagnostic;

/// No manifest is longer; whatever is was not meant as one.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Reads and checks a manifest; `overrides` are the values of `--set`.
///
/// # Errors
///
/// All problems at once: of the JSON's syntax the first, of its contents all.
pub fn load(
    path: &Path,
    overrides: &[String],
    tasks: TaskSource,
) -> Result<Manifest, Vec<Diagnostic>> {
    let text = read(path).map_err(|problem| vec![problem])?;
    let mut document = parse(path, &text).map_err(|problem| vec![problem])?;
    let mut source = Source::new(path, &text);
    let mut problems: Vec<Diagnostic> = source
        .doubled()
        .map(|place| Diagnostic::new("the key comes twice in this object").at(place))
        .collect();
    problems.extend(overrides::apply(&mut document, &mut source, overrides));
    let found = schema_check::check(&document, &json_schema(tasks));
    problems.extend(found.into_iter().map(|problem| told(problem, &source)));
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut manifest = deserialize(document, &source).map_err(|problem| vec![problem])?;
    manifest.source = source;
    complete(&mut manifest, path)?;
    Ok(manifest)
}

fn read(path: &Path) -> Result<String, Diagnostic> {
    let failed = |reason: String| {
        let mut problem = Diagnostic::new(format!(
            "can't read the manifest `{}`: {reason}",
            path.display()
        ));
        if let Ok(absolute) = std::path::absolute(path)
            && absolute != path
        {
            problem = problem.note(format!("file: {}", absolute.display()));
        }
        problem
    };
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if size.is_dir() {
        return Err(failed("it is a directory".to_owned()));
    }
    if size.len() > LONGEST {
        return Err(failed(format!(
            "it has {} bytes, the limit is {LONGEST}",
            size.len()
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(failed(
            "it begins with a byte order mark; save it without one".to_owned(),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        failed(format!("it is not UTF-8: byte {at} is wrong"))
    })
}

fn parse(path: &Path, text: &str) -> Result<Value, Diagnostic> {
    if text.trim().is_empty() {
        let message = format!("the manifest `{}` is empty", path.display());
        return Err(Diagnostic::new(message).hint("`{}` is the least that JSON can be"));
    }
    serde_json::from_str(text).map_err(|error| {
        let source = Source::unparsed(path, text);
        let start = offset(text, error.line(), error.column());
        let end = text[start..]
            .chars()
            .next()
            .map_or(start, |c| start + c.len_utf8());
        let message = error.to_string();
        // The place says line and column.
        let message = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(message, _)| message);
        let problem = Diagnostic::new(format!("the manifest is no valid JSON: {message}"))
            .at(source.span_place("", start..end));
        match message {
            "trailing comma" => problem.hint("JSON has no comma behind the last element"),
            "key must be a string" => problem.hint("keys stand in double quotes"),
            _ => problem,
        }
    })
}

/// The byte at a line and column of `serde_json`, both from 1, columns in bytes.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let wanted = (start + column.saturating_sub(1)).min(text.len());
    (0..=wanted)
        .rev()
        .find(|&offset| text.is_char_boundary(offset))
        .unwrap_or(0)
}

/// A problem with its place in the text, or on the command line.
fn told(problem: Problem, source: &Source) -> Diagnostic {
    let place = if problem.is_key {
        source.key_place(&problem.path)
    } else {
        source.place(&problem.path)
    };
    let mut diagnostic = Diagnostic::new(problem.message).at(place);
    if let Some(written) = source.override_of(&problem.path) {
        diagnostic = diagnostic.note(format!("set on the command line: `--set {written}`"));
    }
    match problem.hint {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    }
}

/// What the schema lets through, the types do too; should they not, the message says where.
fn deserialize(document: Value, source: &Source) -> Result<Manifest, Diagnostic> {
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(document, &mut track);
    Manifest::deserialize(tracked).map_err(|error| {
        let path = track.path().to_string();
        let path = if path == "." { "" } else { path.as_str() };
        Diagnostic::new(error.to_string()).at(source.place(path))
    })
}

/// Fills in what depends on the file's name and on all hooks.
fn complete(manifest: &mut Manifest, path: &Path) -> Result<(), Vec<Diagnostic>> {
    let parent = path.parent().unwrap_or(Path::new(""));
    parent.clone_into(&mut manifest.base);
    if manifest.name.is_empty() {
        let stem = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        manifest.name = stem.unwrap_or_else(|| "run".to_owned());
    }
    if manifest.output.as_os_str().is_empty() {
        manifest.output = Path::new("runs").join(&manifest.name);
    }
    // Everything is relative to the manifest's directory.
    manifest.output = parent.join(&manifest.output);
    for directory in &mut manifest.plugins {
        *directory = parent.join(&*directory);
    }
    if let Some(weights) = &mut manifest.weights {
        weights.file = parent.join(&weights.file);
    }
    for hook in &mut manifest.hooks {
        hook.library = hook.library.take().map(|library| parent.join(library));
    }
    let wrong_filter = |(index, hook): (usize, &HookEntry)| {
        let place = manifest.source.place(&format!("hooks[{index}].every"));
        hook.every()
            .err()
            .map(|message| Diagnostic::new(message).at(place))
    };
    let wrong: Vec<Diagnostic> = manifest
        .hooks
        .iter()
        .enumerate()
        .filter_map(wrong_filter)
        .collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    name_hooks(manifest)
}

/// Gives every hook entry its name: the written ones first, so that they stay as they are.
fn name_hooks(manifest: &mut Manifest) -> Result<(), Vec<Diagnostic>> {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for (index, hook) in manifest.hooks.iter().enumerate() {
        if hook.name.is_empty() {
            continue;
        }
        match taken.get(&hook.name) {
            Some(first) => problems.push(
                Diagnostic::new(format!("two hooks are called `{}`", hook.name))
                    .at(manifest.source.place(&format!("hooks[{index}].name")))
                    .note(format!("the other one: hooks[{first}]")),
            ),
            None => {
                taken.insert(hook.name.clone(), index);
            }
        }
    }
    for (index, hook) in manifest.hooks.iter_mut().enumerate() {
        if !hook.name.is_empty() {
            continue;
        }
        let kind = hook.hook.rsplit('/').next().unwrap_or_default().to_owned();
        let mut name = kind.clone();
        let mut number = 1;
        while taken.contains_key(&name) {
            number += 1;
            name = format!("{kind}-{number}");
        }
        taken.insert(name.clone(), index);
        hook.name = name;
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}
