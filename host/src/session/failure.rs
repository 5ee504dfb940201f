//! Why there is no run: problems for people, and the exit code for scripts.

use crate::diagnostic::Diagnostic;
use crate::{data, exit, parameters};

/// Problems that keep a run from starting.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The exit code: the first problem's.
    pub code: u8,
    /// All problems.
    pub diagnostics: Vec<Diagnostic>,
}

impl Failure {
    /// No problem yet.
    pub(super) fn none() -> Failure {
        Failure {
            code: exit::DONE,
            diagnostics: Vec::new(),
        }
    }

    /// The manifest, the data or the command line is wrong.
    pub fn usage(diagnostics: Vec<Diagnostic>) -> Failure {
        Failure {
            code: exit::USAGE,
            diagnostics,
        }
    }

    /// A plugin is refused.
    pub fn plugin(diagnostics: Vec<Diagnostic>) -> Failure {
        Failure {
            code: exit::PLUGIN,
            diagnostics,
        }
    }

    /// What a command has made can't be written.
    pub fn results(diagnostics: Vec<Diagnostic>) -> Failure {
        Failure {
            code: exit::TRAINING,
            diagnostics,
        }
    }

    /// The task can't be made.
    pub fn task(error: impl std::fmt::Display) -> Failure {
        Failure::usage(vec![Diagnostic::new(format!(
            "the task can't be made: {error}"
        ))])
    }

    /// Both failures' problems; the first one's code.
    pub(super) fn and(mut self, other: Failure) -> Failure {
        if self.code == exit::DONE {
            self.code = other.code;
        }
        self.diagnostics.extend(other.diagnostics);
        self
    }
}

impl From<candle_core::Error> for Failure {
    fn from(error: candle_core::Error) -> Failure {
        Failure::task(error)
    }
}

impl From<parameters::Error> for Failure {
    fn from(error: parameters::Error) -> Failure {
        Failure::task(error)
    }
}

impl From<data::Error> for Failure {
    fn from(error: data::Error) -> Failure {
        Failure::task(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::task(format!("its configuration in `task`: {error}"))
    }
}
