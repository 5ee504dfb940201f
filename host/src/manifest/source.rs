//! The manifest's text, and where in it each value stands.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::diagnostic::Place;

/// A JSON text with the places of its values.
#[derive(Clone, Debug, Default)]
pub struct Source {
    file: PathBuf,
    text: Arc<str>,
    /// The bytes of each value by its path, as `hooks[1].config`.
    values: BTreeMap<String, Range<usize>>,
    /// The bytes of each key by its value's path.
    keys: BTreeMap<String, Range<usize>>,
    /// The paths of keys that an object has twice.
    doubled: Vec<(String, Range<usize>)>,
    /// The paths that were set on the command line, with what was written there.
    overridden: BTreeMap<String, String>,
}

impl Source {
    /// Finds the values of a text that is valid JSON.
    pub(super) fn new(file: &Path, text: &str) -> Source {
        let mut source = Source::unparsed(file, text);
        let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
        if let Some(value) = parsed.ok().and_then(|parsed| parsed.value) {
            source.visit(String::new(), &value);
        }
        source
    }

    /// A text of which nothing is known.
    pub(super) fn unparsed(file: &Path, text: &str) -> Source {
        Source {
            file: file.to_owned(),
            text: Arc::from(text),
            ..Source::default()
        }
    }

    /// The place of the value at `json_path`; of the nearest value around it that the text has.
    pub fn place(&self, json_path: &str) -> Place {
        self.at(json_path, Self::around(&self.values, json_path))
    }

    /// The place of the key in front of the value at `json_path`.
    pub fn key_place(&self, json_path: &str) -> Place {
        let key = self.keys.get(json_path).cloned();
        let span = key.or_else(|| Self::around(&self.values, json_path));
        self.at(json_path, span)
    }

    /// The place of some bytes.
    pub(super) fn span_place(&self, json_path: &str, span: Range<usize>) -> Place {
        self.at(json_path, Some(span))
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The paths of keys that an object has twice, with the second one's place.
    pub(super) fn doubled(&self) -> impl Iterator<Item = Place> {
        self.doubled
            .iter()
            .map(|(path, span)| self.at(path, Some(span.clone())))
    }

    /// Notes that the value at `json_path` came from the command line.
    pub(super) fn set_override(&mut self, json_path: &str, written: &str) {
        self.overridden
            .insert(json_path.to_owned(), written.to_owned());
    }

    /// What was written on the command line for the value at `json_path` or around it.
    pub fn override_of(&self, json_path: &str) -> Option<&str> {
        let mut path = json_path;
        loop {
            if let Some(written) = self.overridden.get(path) {
                return Some(written);
            }
            path = parent(path)?;
        }
    }

    fn at(&self, json_path: &str, span: Option<Range<usize>>) -> Place {
        Place {
            file: self.file.clone(),
            text: Arc::clone(&self.text),
            json_path: json_path.to_owned(),
            span,
        }
    }

    fn around(spans: &BTreeMap<String, Range<usize>>, json_path: &str) -> Option<Range<usize>> {
        let mut path = json_path;
        loop {
            if let Some(span) = spans.get(path) {
                return Some(span.clone());
            }
            path = parent(path)?;
        }
    }

    fn visit(&mut self, path: String, value: &ast::Value<'_>) {
        match value {
            ast::Value::Object(object) => {
                for property in &object.properties {
                    let path = join(&path, property.name.as_str());
                    let key = match &property.name {
                        ast::ObjectPropName::String(name) => name.range,
                        ast::ObjectPropName::Word(name) => name.range,
                    };
                    if self.keys.insert(path.clone(), key.start..key.end).is_some() {
                        self.doubled.push((path.clone(), key.start..key.end));
                    }
                    self.visit(path, &property.value);
                }
            }
            ast::Value::Array(array) => {
                for (index, element) in array.elements.iter().enumerate() {
                    self.visit(format!("{path}[{index}]"), element);
                }
            }
            _ => {}
        }
        let range = range_of(value);
        self.values.insert(path, range);
    }
}

fn range_of(value: &ast::Value<'_>) -> Range<usize> {
    use jsonc_parser::common::Ranged;
    let range = value.range();
    range.start..range.end
}

/// The path of a member.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The path around a path.
fn parent(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    let end = path.rfind(['.', '[']).unwrap_or(0);
    path.get(..end)
}
