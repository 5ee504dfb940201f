//! The file of a preprocessing.
//!
//! Its `format` counts up with each addition. `least_reader` is the oldest format whose reader understands the file
//! correctly: a reader of an older one refuses it. Within its promise, a key that a reader doesn't know is an error, so
//! that nothing that changes numbers is skipped. A file is not trusted: all of it is checked, and nothing in it sets a
//! size beyond its own length.

use std::io;

use serde::{Deserialize, Serialize};

use super::{Preprocessing, PreprocessingError, TrainingData, Transform};
use crate::error::printable::printable;
use crate::files::data_files::{DataFile, SplitRecord};

/// Name of the file.
pub const PREPROCESSING: &str = "preprocessing.json";

/// Name of the file of a tokenizer, if the model has one.
const TOKENIZER: &str = "tokenizer.json";

/// Newest format, which is written.
const FORMAT: u32 = 1;

/// Oldest format whose reader understands what is written now.
const LEAST_READER: u32 = 1;

/// Size in bytes above which the file is not indented: nobody reads that many numbers, and indentation doubles it.
const MOST_INDENTED: usize = 1 << 20;

const WRITTEN_BY: &str = concat!("sconce-data ", env!("CARGO_PKG_VERSION"));

/// What every format has, checked before the rest is looked at.
#[derive(Deserialize)]
struct FormatHeader {
    format: u32,
    least_reader: u32,
    written_by: String,
}

/// The complete file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<T> {
    format: u32,
    least_reader: u32,
    written_by: String,
    preprocessing: T,
    /// How the training's samples were divided, and the files that they were read from: not needed for predictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    split: Option<SplitRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    data: Vec<DataFile>,
}

impl Preprocessing {
    /// Returns the names and contents of the files to keep with a model.
    pub fn to_files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let document = Document {
            format: FORMAT,
            least_reader: LEAST_READER,
            written_by: WRITTEN_BY.to_owned(),
            preprocessing: &self.transform,
            split: self.source.split.clone(),
            data: self.source.files.clone(),
        };
        // Strings, numbers and lists, whose keys are texts, are always JSON.
        let mut bytes = serde_json::to_vec(&document).unwrap_or_default();
        if bytes.len() <= MOST_INDENTED {
            bytes = serde_json::to_vec_pretty(&document).unwrap_or_default();
        }
        bytes.push(b'\n');
        let mut files = vec![(PREPROCESSING, bytes)];
        if let Some(tokenizer) = self.tokenizer() {
            files.push((TOKENIZER, tokenizer.source().to_vec()));
        }
        files
    }

    /// Reads and checks files written by [`to_files`](Preprocessing::to_files); `read` returns the content of the file of
    /// a name.
    ///
    /// # Errors
    ///
    /// If a file can't be read, is newer than this build, or has anything invalid.
    pub fn from_files(
        read: impl Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Preprocessing, PreprocessingError> {
        let name = PREPROCESSING;
        let bytes = read(name).map_err(|source| PreprocessingError::Read { name, source })?;
        let header: FormatHeader = parse(&bytes)?;
        if header.least_reader > FORMAT {
            return Err(PreprocessingError::Newer {
                name,
                format: header.format,
                least_reader: header.least_reader,
                written_by: printable(&header.written_by),
                known: FORMAT,
            });
        }
        let document: Document<Transform> = parse(&bytes)?;
        let transform = with_tokenizer(document.preprocessing, read)?;
        Ok(Preprocessing {
            transform,
            source: TrainingData {
                split: document.split,
                files: document.data,
            },
        })
    }
}

/// Adds the tokenizer that a transform needs.
fn with_tokenizer(
    transform: Transform,
    read: impl Fn(&str) -> io::Result<Vec<u8>>,
) -> Result<Transform, PreprocessingError> {
    let name = TOKENIZER;
    let source = || read(name).map_err(|source| PreprocessingError::Read { name, source });
    let transform = match transform {
        Transform::Tokens(tokens) if tokens.lacks_tokenizer() => {
            tokens.with_tokenizer(source()?).map(Transform::Tokens)
        }
        Transform::Rows(rows) if rows.tokens().lacks_tokenizer() => {
            rows.with_tokenizer(source()?).map(Transform::Rows)
        }
        other => Ok(other),
    };
    transform.map_err(|problem| PreprocessingError::Invalid {
        name,
        path: String::new(),
        problem: printable(&problem),
    })
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, PreprocessingError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut deserializer);
    let invalid = |path: &str, problem: &serde_json::Error| PreprocessingError::Invalid {
        name: PREPROCESSING,
        path: printable(path),
        problem: printable(&problem.to_string()),
    };
    let parsed = parsed.map_err(|error| invalid(&error.path().to_string(), error.inner()))?;
    deserializer.end().map_err(|error| invalid("", &error))?;
    Ok(parsed)
}
