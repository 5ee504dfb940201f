//! Why a scripted run failed.

use std::fmt;

use super::place::CallPosition;
use super::seen::Seen;

/// Failure of the hook, at its creation or in a call.
///
/// Displayed as a host would report it; the run ends as with `"on_error": "fail"`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failed {
    /// Where in the run; `None` at the hook's creation.
    pub at: Option<CallPosition>,
    /// The hook's error message.
    pub message: String,
    /// Location in the hook's source, such as `src/lib.rs:12:5`; empty if it is not known.
    pub source_location: String,
    /// Whether the hook panicked.
    pub is_panic: bool,
    /// What the hook did until then, including `on_exception` and `after_run`.
    pub seen: Box<Seen>,
}

impl Failed {
    pub(super) fn new(at: Option<CallPosition>, message: impl fmt::Display) -> Failed {
        Failed {
            at,
            message: message.to_string(),
            source_location: String::new(),
            is_panic: false,
            seen: Box::default(),
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_panic { "panicked" } else { "failed" };
        match self.at {
            Some(at) => write!(f, "the hook {what} at {at}: {}", self.message)?,
            None => write!(f, "the hook could not be created: {}", self.message)?,
        }
        if !self.source_location.is_empty() {
            write!(f, " ({})", self.source_location)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failed {}
