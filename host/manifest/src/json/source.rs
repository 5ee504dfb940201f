//! The manifest's text, and the position of each value in it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::json_path;
use super::origin::AssignmentOrigin;
use crate::diagnostic::{Diagnostic, TextLocation};

/// File name shown for values set on the command line.
const COMMAND_LINE: &str = "command line";

/// File name shown for values set in the environment.
const ENVIRONMENT: &str = "environment";

/// Maximum length of a key in bytes. Values under a longer key are given the position of the enclosing value.
/// No known key is this long, and every path repeats its keys.
const LONGEST_KEY: usize = 1000;

/// A JSON text with the positions of its values.
#[derive(Clone, Debug, Default)]
pub struct JsonSource {
    file: PathBuf,
    text: Arc<str>,
    /// The byte range of each value by its path, such as `hooks[1].config`; see [`json_path`].
    values: BTreeMap<String, Range<usize>>,
    /// The byte range of each key, by its value's path.
    keys: BTreeMap<String, Range<usize>>,
    /// Duplicate keys, with both positions.
    doubled: Vec<Doubled>,
    /// Paths of values set elsewhere, with the text that set them.
    overridden: BTreeMap<String, AssignedText>,
}

/// A key that occurs twice in an object.
#[derive(Clone, Debug)]
struct Doubled {
    path: String,
    first: Range<usize>,
    second: Range<usize>,
}

/// Text from the command line, the environment, or an overlay file.
#[derive(Clone, Debug)]
struct AssignedText {
    /// The file, or a name that stands for the command line or the environment.
    file: PathBuf,
    text: Arc<str>,
    /// The byte range of the path.
    path: Range<usize>,
    /// The byte range of the value.
    value: Range<usize>,
}

impl JsonSource {
    /// Records the positions of all values in a text that is valid JSON.
    pub(crate) fn new(file: &Path, text: &str) -> JsonSource {
        let mut source = JsonSource::unparsed(file, text);
        let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
        if let Some(value) = parsed.ok().and_then(|parsed| parsed.value) {
            source.visit(String::new(), &value);
        }
        source
    }

    /// A source without any positions.
    pub(crate) fn unparsed(file: &Path, text: &str) -> JsonSource {
        JsonSource {
            file: file.to_owned(),
            text: Arc::from(text),
            ..JsonSource::default()
        }
    }

    /// The place of the value at `json_path`: on the command line if it was set there, else in the file. If
    /// there is no such value, the nearest enclosing one is used.
    pub fn location(&self, json_path: &str) -> TextLocation {
        if let Some(written) = self.written(json_path) {
            return written.place(json_path, &written.value);
        }
        self.at(json_path, Self::around(&self.values, json_path))
    }

    /// The place of the key before the value at `json_path`.
    pub fn key_location(&self, json_path: &str) -> TextLocation {
        if let Some(written) = self.written(json_path) {
            return written.place(json_path, &written.path);
        }
        let key = self.keys.get(json_path).cloned();
        let span = key.or_else(|| Self::around(&self.values, json_path));
        self.at(json_path, span)
    }

    /// The place of a byte range.
    pub(crate) fn span_location(&self, json_path: &str, span: Range<usize>) -> TextLocation {
        self.at(json_path, Some(span))
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Duplicate keys: the place of the second occurrence, and the line of the first.
    pub(crate) fn doubled(&self) -> impl Iterator<Item = (TextLocation, usize)> {
        let newlines = self.text.match_indices('\n').map(|(place, _)| place);
        let newlines: Vec<usize> = if self.doubled.is_empty() {
            Vec::new()
        } else {
            newlines.collect()
        };
        self.doubled.iter().map(move |doubled| {
            let line = newlines.partition_point(|place| *place < doubled.first.start) + 1;
            (self.at(&doubled.path, Some(doubled.second.clone())), line)
        })
    }

    /// Duplicate keys of objects, as diagnostics.
    pub(crate) fn doubled_keys(&self) -> Vec<Diagnostic> {
        self.doubled()
            .map(|(place, line)| {
                Diagnostic::new("the key comes twice in this object")
                    .at(place)
                    .note(format!("the first one is in line {line}"))
            })
            .collect()
    }

    /// Records that the value at `json_path` came from another file.
    pub(crate) fn take_over(&mut self, json_path: &str, other: &JsonSource) {
        self.overridden
            .retain(|path, _| path != json_path && !json_path::is_inside(path, json_path));
        for (path, span) in &other.values {
            if path == json_path || json_path::is_inside(path, json_path) {
                let written = AssignedText {
                    file: other.file.clone(),
                    text: Arc::clone(&other.text),
                    path: other.keys.get(path).unwrap_or(span).clone(),
                    value: span.clone(),
                };
                self.overridden.insert(path.clone(), written);
            }
        }
    }

    /// Records that the value at `json_path` was set on the command line or in the environment. There it
    /// starts at byte `value_at` of `text`, after a path and `=`.
    pub(crate) fn set_override(
        &mut self,
        json_path: String,
        origin: &AssignmentOrigin,
        text: &str,
        value_at: usize,
    ) {
        // A later assignment replaces earlier ones inside its value.
        self.overridden
            .retain(|path, _| !json_path::is_inside(path, &json_path));
        let (file, option) = match origin {
            AssignmentOrigin::CommandLine => (COMMAND_LINE, "--set ".to_owned()),
            AssignmentOrigin::Environment(name) => (ENVIRONMENT, format!("{name}=")),
        };
        let written = AssignedText {
            file: PathBuf::from(file),
            text: Arc::from(format!("{option}{text}")),
            path: option.len()..option.len() + value_at.saturating_sub(1),
            value: option.len() + value_at..option.len() + text.len(),
        };
        self.overridden.insert(json_path, written);
    }

    /// The text that set the value at `json_path`, or an enclosing one, outside the file.
    fn written(&self, json_path: &str) -> Option<&AssignedText> {
        let mut path = json_path;
        loop {
            if let Some(written) = self.overridden.get(path) {
                return Some(written);
            }
            path = json_path::parent(path)?;
        }
    }

    fn at(&self, json_path: &str, span: Option<Range<usize>>) -> TextLocation {
        TextLocation {
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
            path = json_path::parent(path)?;
        }
    }

    fn visit(&mut self, path: String, value: &ast::Value<'_>) {
        match value {
            ast::Value::Object(object) => {
                for property in &object.properties {
                    let path = json_path::member(&path, property.name.as_str());
                    let key = match &property.name {
                        ast::ObjectPropName::String(name) => name.range,
                        ast::ObjectPropName::Word(name) => name.range,
                    };
                    let second = key.start..key.end;
                    if let Some(first) = self.keys.insert(path.clone(), second.clone()) {
                        self.doubled.push(Doubled {
                            path: path.clone(),
                            first,
                            second,
                        });
                    }
                    if property.name.as_str().len() <= LONGEST_KEY {
                        self.visit(path, &property.value);
                    }
                }
            }
            ast::Value::Array(array) => {
                for (index, element) in array.elements.iter().enumerate() {
                    self.visit(json_path::element(&path, index), element);
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

impl AssignedText {
    fn place(&self, json_path: &str, span: &Range<usize>) -> TextLocation {
        TextLocation {
            file: self.file.clone(),
            text: Arc::clone(&self.text),
            json_path: json_path.to_owned(),
            span: Some(span.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_dots_and_digits_are_places_of_their_own() {
        let text = r#"{"a.b": 1, "a": {"b": 2, "0": 3}, "l": [4]}"#;
        let source = JsonSource::new(Path::new("run.json"), text);
        assert_eq!(source.doubled().count(), 0);
        for (path, value) in [
            ("[\"a.b\"]", "1"),
            ("a.b", "2"),
            ("a[\"0\"]", "3"),
            ("l[0]", "4"),
            ("l[0].more", "4"),
        ] {
            let span = source.location(path).span.expect("a span");
            assert_eq!(&text[span], value, "{path}");
        }
    }

    #[test]
    fn a_key_that_comes_twice_is_found_however_it_is_written() {
        let text = "{\"a\": {\"x\": 1,\n\"\\u0078\": 2}}";
        let source = JsonSource::new(Path::new("run.json"), text);
        let doubled: Vec<(TextLocation, usize)> = source.doubled().collect();
        assert_eq!(doubled.len(), 1);
        assert_eq!((doubled[0].0.json_path.as_str(), doubled[0].1), ("a.x", 1));
    }

    #[test]
    fn what_was_set_on_the_command_line_has_its_place_there() {
        let mut source = JsonSource::new(Path::new("run.json"), r#"{"a": {"b": 2}}"#);
        source.set_override("a.b".to_owned(), &AssignmentOrigin::CommandLine, "a.b=7", 4);
        let excerpt = |place: TextLocation| place.text[place.span.expect("a span")].to_owned();
        assert_eq!(excerpt(source.location("a.b.c")), "7");
        assert_eq!(excerpt(source.key_location("a.b")), "a.b");
        assert_eq!(excerpt(source.location("a")), "{\"b\": 2}");
        source.set_override("a".to_owned(), &AssignmentOrigin::CommandLine, "a={}", 2);
        assert_eq!(excerpt(source.location("a.b")), "{}");
    }
}
