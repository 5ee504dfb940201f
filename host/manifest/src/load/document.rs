//! Small JSON files of the user's other than manifests: read with a limit, checked by their schemas, and reported with
//! the places of their problems.

use std::io::{self, Read};
use std::path::Path;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::told;
use crate::diagnostic::Diagnostic;
use crate::json::syntax;
use crate::{JsonSource, schema_check};

/// Reads a file of UTF-8 text that has at most `largest` bytes.
///
/// # Errors
///
/// If it can't be read, is not a regular file, is larger, or is not UTF-8.
pub fn read_text(path: &Path, largest: u64) -> io::Result<String> {
    // Checked before opening: opening a pipe without a writer would block.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(largest + 1).read_to_string(&mut text)?;
    if text.len() as u64 > largest {
        let message = format!("it has more than {largest} bytes, the limit");
        return Err(io::Error::other(message));
    }
    Ok(text)
}

/// Parses the text of a file, and returns it with the places of its values.
///
/// # Errors
///
/// The first syntax error, or all problems under the schema, with their places.
pub fn parse<T: DeserializeOwned + JsonSchema>(
    path: &Path,
    text: &str,
) -> Result<(T, JsonSource), Vec<Diagnostic>> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let span = syntax::span(text, &error);
        let message = error.to_string();
        let message = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(message, _)| message);
        let problem = format!("`{}` is not valid JSON: {message}", path.display());
        let place = JsonSource::unparsed(path, text).span_location("", span);
        vec![
            Diagnostic::new(problem)
                .at(place)
                .hint("mend the file there"),
        ]
    })?;
    let source = JsonSource::new(path, text);
    let mut problems = source.doubled_keys();
    let schema = schemars::schema_for!(T).to_value();
    let found = schema_check::check(&value, &schema).into_iter();
    problems.extend(found.map(|problem| told(problem, &source)));
    if !problems.is_empty() {
        return Err(problems);
    }
    let content = T::deserialize(value)
        .map_err(|error| vec![Diagnostic::new(error.to_string()).at(source.location(""))])?;
    Ok((content, source))
}
