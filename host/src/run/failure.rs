//! What can end a run before its end.

use sconce_plugin_api::abi::ViewAbi;

use crate::dispatch::{HookFault, Moment};

/// An error that ended a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A hook whose policy is `fail` failed.
    #[error("{0}")]
    Hook(#[from] Box<HookFault>),
    /// Model, loss, metrics or optimizer failed.
    #[error("{doing} failed {moment}: {source}")]
    Task {
        /// What the task was doing.
        doing: &'static str,
        /// When.
        moment: String,
        /// The error.
        source: candle_core::Error,
    },
    /// The optimizer failed.
    #[error("the optimizer failed {moment}: {source}")]
    Optimizer {
        /// When.
        moment: String,
        /// The error.
        source: crate::optim::Error,
    },
    /// A batch could not be had.
    #[error("reading a batch failed {moment}: {source}")]
    Data {
        /// When.
        moment: String,
        /// The error.
        source: crate::data::Error,
    },
    /// The gradient audit of the first iteration found parameters that cannot learn.
    #[error("{0}")]
    Audit(String),
    /// With `train.check_finite`: a loss or a gradient is not finite.
    #[error("{what} {moment}: {place}")]
    NotFinite {
        /// What is not finite.
        what: String,
        /// When.
        moment: String,
        /// Where it began.
        place: String,
    },
    /// There is nothing to train on.
    #[error("the task has no training data")]
    NoTrainingData,
}

/// Whose error it is; the numbers cross the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Origin {
    /// Model, loss, metrics or optimizer.
    Task = 0,
    /// The data.
    Data = 1,
    /// A hook.
    Hook = 2,
}

impl RunError {
    /// Whose error it is.
    pub fn origin(&self) -> Origin {
        match self {
            RunError::Hook(_) => Origin::Hook,
            RunError::Data { .. } | RunError::NoTrainingData => Origin::Data,
            RunError::Task { .. }
            | RunError::Optimizer { .. }
            | RunError::Audit(_)
            | RunError::NotFinite { .. } => Origin::Task,
        }
    }

    /// The name of the hook that failed, if one did.
    pub fn hook(&self) -> Option<&str> {
        match self {
            RunError::Hook(fault) => Some(&fault.hook),
            _ => None,
        }
    }

    pub(super) fn task(doing: &'static str, view: &ViewAbi, source: candle_core::Error) -> Self {
        RunError::Task {
            doing,
            moment: moment(view),
            source,
        }
    }

    pub(super) fn not_finite(view: &ViewAbi, what: String, place: String) -> Self {
        RunError::NotFinite {
            what,
            moment: moment(view),
            place,
        }
    }

    pub(super) fn data(view: &ViewAbi, source: crate::data::Error) -> Self {
        RunError::Data {
            moment: moment(view),
            source,
        }
    }

    pub(super) fn optimizer(view: &ViewAbi, source: crate::optim::Error) -> Self {
        RunError::Optimizer {
            moment: moment(view),
            source,
        }
    }
}

/// When, as counted by the view: "in train, epoch 1, iteration 20".
pub(super) fn moment(view: &ViewAbi) -> String {
    match Moment::of(view) {
        Moment::Point {
            phase,
            epoch,
            iteration,
            ..
        } => format!("in {phase}, epoch {epoch}, iteration {iteration}"),
        other => other.to_string(),
    }
}
