//! Reasons why a run can't start: problems for people, and an exit code for scripts.

use sconce_hooks::planning::UnusableHooks;

use crate::diagnostic::Diagnostic;
use crate::{data, exit, parameters};

/// Problems that prevent a run from starting.
#[derive(Clone, Debug)]
pub struct StartFailure {
    /// The exit code of the first problem.
    pub code: u8,
    /// All problems.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether all ranks of the run know of them.
    pub is_of_all_ranks: bool,
    /// Whether the first is one of the data, not of the manifest.
    pub is_of_data: bool,
}

impl StartFailure {
    /// A failure without problems yet.
    pub(crate) fn none() -> StartFailure {
        StartFailure {
            code: exit::DONE,
            diagnostics: Vec::new(),
            is_of_all_ranks: false,
            is_of_data: false,
        }
    }

    /// Problems with the manifest, the data or the command line.
    pub fn usage(diagnostics: Vec<Diagnostic>) -> StartFailure {
        StartFailure {
            code: exit::USAGE,
            diagnostics,
            is_of_all_ranks: false,
            is_of_data: false,
        }
    }

    /// Problems with the data.
    pub fn data(diagnostics: Vec<Diagnostic>) -> StartFailure {
        StartFailure {
            is_of_data: true,
            ..StartFailure::usage(diagnostics)
        }
    }

    /// Problems with plugins.
    pub fn plugin(diagnostics: Vec<Diagnostic>) -> StartFailure {
        StartFailure {
            code: exit::PLUGIN,
            diagnostics,
            is_of_all_ranks: false,
            is_of_data: false,
        }
    }

    /// Problems with writing a command's results.
    pub fn results(diagnostics: Vec<Diagnostic>) -> StartFailure {
        StartFailure {
            code: exit::TRAINING,
            diagnostics,
            is_of_all_ranks: false,
            is_of_data: false,
        }
    }

    /// The task can't be created.
    pub fn task(error: impl std::fmt::Display) -> StartFailure {
        StartFailure::usage(vec![Diagnostic::new(format!(
            "the task can't be made: {error}"
        ))])
    }

    /// Combines the problems of two failures, with the first one's exit code.
    pub(crate) fn and(mut self, other: StartFailure) -> StartFailure {
        if self.code == exit::DONE {
            self.code = other.code;
            self.is_of_data = other.is_of_data;
        }
        self.diagnostics.extend(other.diagnostics);
        self
    }
}

impl From<UnusableHooks> for StartFailure {
    fn from(unusable: UnusableHooks) -> StartFailure {
        if unusable.is_usage {
            StartFailure::usage(unusable.diagnostics)
        } else {
            StartFailure::plugin(unusable.diagnostics)
        }
    }
}

impl From<candle_core::Error> for StartFailure {
    fn from(error: candle_core::Error) -> StartFailure {
        StartFailure::task(error)
    }
}

impl From<parameters::ParametersError> for StartFailure {
    fn from(error: parameters::ParametersError) -> StartFailure {
        StartFailure::task(error)
    }
}

impl From<data::DataError> for StartFailure {
    fn from(error: data::DataError) -> StartFailure {
        StartFailure {
            is_of_data: true,
            ..StartFailure::task(error)
        }
    }
}

impl From<serde_json::Error> for StartFailure {
    fn from(error: serde_json::Error) -> StartFailure {
        StartFailure::task(format!("its configuration in `task`: {error}"))
    }
}
