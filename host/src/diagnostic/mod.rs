//! Messages for people: what failed, where, and what to do.
//!
//! Every part of the host that can refuse something the user wrote says so with a
//! [`Diagnostic`]; the command line renders them, all at once.

mod quote;
pub mod render;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use quote::shortened;

/// One problem, told to the person who can mend it.
///
/// The message is a lower-case fragment without a period; values stand in backticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What failed.
    pub message: String,
    /// Where in a text that the user wrote, if there.
    pub place: Option<Place>,
    /// Facts that explain it, a line each: `host: 1.2, plugin: 2.0`.
    pub notes: Vec<String>,
    /// What to do about it, a line each.
    pub hints: Vec<String>,
    /// Whether the run goes on all the same.
    pub is_warning: bool,
}

/// A place in a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, as the user wrote its path.
    pub file: PathBuf,
    /// The whole text of the file.
    pub text: Arc<str>,
    /// The path inside a JSON document, as `hooks[1].config.every`; empty for the document.
    pub json_path: String,
    /// Which bytes of the text are meant, if known.
    pub span: Option<Range<usize>>,
}

impl Diagnostic {
    /// A problem with neither place nor hint yet.
    pub fn new(message: impl Into<String>) -> Self {
        Diagnostic {
            message: message.into(),
            place: None,
            notes: Vec::new(),
            hints: Vec::new(),
            is_warning: false,
        }
    }

    /// Something that the user should know but need not mend.
    pub fn warning(message: impl Into<String>) -> Self {
        Diagnostic {
            is_warning: true,
            ..Diagnostic::new(message)
        }
    }

    /// Says where.
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Adds a fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}
