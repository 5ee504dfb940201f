//! Errors of a file of preprocessing, with their messages.

use std::io;

/// A file of preprocessing that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PreprocessingError {
    /// The file can't be read.
    #[error("can't read `{name}`: {source}")]
    Read {
        /// Name of the file.
        name: &'static str,
        /// Error of the reader.
        source: io::Error,
    },
    /// The file's format is newer than this build can read.
    #[error(
        "`{name}` was written by {written_by} in format {format}, which readers of format {least_reader} and later \
         understand; this build reads up to format {known}: use a newer build"
    )]
    Newer {
        /// Name of the file.
        name: &'static str,
        /// Format of the file.
        format: u32,
        /// Oldest format whose reader understands the file.
        least_reader: u32,
        /// Program that wrote the file.
        written_by: String,
        /// Newest format that this build reads.
        known: u32,
    },
    /// The file isn't valid JSON, or something in it is invalid.
    #[error(
        "`{name}` is damaged or was edited{}: {problem}; take the file that was written with the model",
        at(path)
    )]
    Invalid {
        /// Name of the file.
        name: &'static str,
        /// JSON path of the invalid value; empty if the file is not valid JSON.
        path: String,
        /// What is wrong, with line and column.
        problem: String,
    },
}

fn at(path: &str) -> String {
    if path.is_empty() || path == "." {
        return String::new();
    }
    format!(" at `{path}`")
}
