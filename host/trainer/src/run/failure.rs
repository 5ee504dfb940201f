//! Errors that end a run.

use sconce_lifecycle::Position;
use sconce_ops::device::{is_out_of_memory, says_out_of_memory};
use sconce_plugin_api::Phase;

use crate::dispatch::{HookFault, LifeEvent};
use crate::exit;
use crate::team::TeamError;

/// An error that ended a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A hook whose policy is `fail` failed.
    #[error("{0}")]
    Hook(#[from] Box<HookFault>),
    /// The model, the loss, a metric or the optimizer failed.
    #[error("{doing} failed {moment}: {source}")]
    Task {
        /// The operation that failed.
        doing: &'static str,
        /// Phase of the run.
        phase: Phase,
        /// Point in the run.
        moment: String,
        /// The error.
        source: candle_core::Error,
    },
    /// The optimizer failed.
    #[error("the optimizer failed {moment}: {source}")]
    Optimizer {
        /// Point in the run.
        moment: String,
        /// The error.
        source: crate::optim::OptimizerError,
    },
    /// A batch could not be loaded.
    #[error("reading a batch failed {moment}: {source}")]
    Data {
        /// Point in the run.
        moment: String,
        /// The error.
        source: crate::data::DataError,
    },
    /// The gradient audit of the first iteration found parameters that can't learn.
    #[error("{0}")]
    Audit(String),
    /// A loss or a gradient is not finite, with `train.check_finite`.
    #[error("{what} {moment}: {place}")]
    NotFinite {
        /// Description of the loss or gradient.
        what: String,
        /// Point in the run.
        moment: String,
        /// Where the first such value arose.
        place: String,
    },
    /// The run's output directory is gone, or another is in its place.
    #[error("{0}")]
    Vanished(String),
    /// There is no training data.
    #[error("the task has no training data")]
    NoTrainingData,
    /// The ranks of the run can't go on together.
    #[error("{0}")]
    Team(#[from] TeamError),
}

/// A reason to leave the loops of a run.
pub(in crate::run) type Leave = sconce_lifecycle::Leave<RunError>;

/// The origin of an error; the numbers are part of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorOrigin {
    /// Model, loss, metrics or optimizer.
    Task = 0,
    /// The data.
    Data = 1,
    /// A hook.
    Hook = 2,
}

impl RunError {
    /// The origin of the error.
    pub fn origin(&self) -> ErrorOrigin {
        match self {
            RunError::Hook(_) => ErrorOrigin::Hook,
            RunError::Data { .. } | RunError::NoTrainingData => ErrorOrigin::Data,
            RunError::Team(error) if error.code() == Some(exit::HOOK) => ErrorOrigin::Hook,
            RunError::Task { .. }
            | RunError::Optimizer { .. }
            | RunError::Audit(_)
            | RunError::NotFinite { .. }
            | RunError::Vanished(_)
            | RunError::Team(_) => ErrorOrigin::Task,
        }
    }

    /// The exit code of a run that ends with this error.
    pub fn code(&self) -> u8 {
        match self {
            RunError::Hook(_) => exit::HOOK,
            RunError::Team(error) => error.code().unwrap_or(exit::TRAINING),
            _ => exit::TRAINING,
        }
    }

    /// The phase in which the device's memory was exhausted, if that is the error.
    pub fn out_of_memory(&self) -> Option<Phase> {
        let (phase, is_exhausted) = match self {
            RunError::Task { phase, source, .. } => (*phase, is_out_of_memory(source)),
            RunError::Optimizer { source, .. } => {
                (Phase::Train, says_out_of_memory(&source.to_string()))
            }
            _ => return None,
        };
        is_exhausted.then_some(phase)
    }

    /// The name of the hook that failed, if one did.
    pub fn hook(&self) -> Option<&str> {
        match self {
            RunError::Hook(fault) => Some(&fault.hook),
            _ => None,
        }
    }

    pub(in crate::run) fn task(
        doing: &'static str,
        position: &Position,
        source: candle_core::Error,
    ) -> Self {
        RunError::Task {
            doing,
            phase: position.phase,
            moment: moment(position),
            source,
        }
    }

    pub(in crate::run) fn not_finite(position: &Position, what: String, place: String) -> Self {
        RunError::NotFinite {
            what,
            moment: moment(position),
            place,
        }
    }

    pub(in crate::run) fn data(position: &Position, source: crate::data::DataError) -> Self {
        RunError::Data {
            moment: moment(position),
            source,
        }
    }

    pub(in crate::run) fn optimizer(
        position: &Position,
        source: crate::optim::OptimizerError,
    ) -> Self {
        RunError::Optimizer {
            moment: moment(position),
            source,
        }
    }
}

/// The point in the run according to the view's counters: "in train, epoch 1, iteration 20".
pub(in crate::run) fn moment(position: &Position) -> String {
    match LifeEvent::at(None, position) {
        LifeEvent::Point {
            phase,
            epoch,
            iteration,
            ..
        } => format!("in {phase}, epoch {epoch}, iteration {iteration}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_memory_is_told_from_other_errors() {
        let position = Position::start(1);
        let failed = |text: &str| {
            let source = candle_core::Error::Msg(text.to_owned()).context("in module `fc1`");
            RunError::task("the forward pass", &position, source)
        };
        let exhausted = failed("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")");
        assert_eq!(exhausted.out_of_memory(), Some(position.phase));
        assert!(exhausted.to_string().contains("in module `fc1`"));
        assert_eq!(failed("another error").out_of_memory(), None);
        assert_eq!(RunError::NoTrainingData.out_of_memory(), None);
    }
}
