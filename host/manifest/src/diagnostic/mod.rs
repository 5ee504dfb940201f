//! Diagnostics: messages that say what failed, where, and what to do.
//!
//! Every part of the host that can reject user input does so with a [`Diagnostic`]; the command
//! line renders them all at once.

mod quote;
pub mod render;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub use quote::shortened;

/// One problem, addressed to the person who can fix it.
///
/// The message is a lower-case fragment without a period; values are in backticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What failed.
    pub message: String,
    /// Location in a text that the user wrote, if it is in one.
    pub place: Option<TextLocation>,
    /// Facts that explain it, one per line: `host: 1.2, plugin: 2.0`.
    pub notes: Vec<String>,
    /// What to do about it, one step per line.
    pub hints: Vec<String>,
    /// Whether it is only a warning, so that the command continues.
    pub is_warning: bool,
}

/// A location in a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLocation {
    /// The file, as the user wrote its path.
    pub file: PathBuf,
    /// Full text of the file.
    pub text: Arc<str>,
    /// Path inside a JSON document, such as `hooks[1].config.every`; empty for the document itself.
    pub json_path: String,
    /// Byte range that the problem refers to, if known.
    pub span: Option<Range<usize>>,
}

impl Diagnostic {
    /// Returns an error without a location or hints.
    pub fn new(message: impl Into<String>) -> Self {
        Diagnostic {
            message: message.into(),
            place: None,
            notes: Vec::new(),
            hints: Vec::new(),
            is_warning: false,
        }
    }

    /// Returns a warning: something that the user should know but need not fix.
    pub fn warning(message: impl Into<String>) -> Self {
        Diagnostic {
            is_warning: true,
            ..Diagnostic::new(message)
        }
    }

    /// Returns the same as a warning.
    pub fn into_warning(self) -> Self {
        Diagnostic {
            is_warning: true,
            ..self
        }
    }

    /// Sets the location.
    pub fn at(mut self, place: TextLocation) -> Self {
        self.place = Some(place);
        self
    }

    /// Adds a fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}
