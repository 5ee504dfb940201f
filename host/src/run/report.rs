//! How a run ended.

use std::path::PathBuf;

use sconce_plugin_api::Phase;

use super::{Profile, RunError, Signal};
use crate::checkpoint::Weights;
use crate::dispatch::HookFault;

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// All epochs were trained.
    Completed,
    /// It was stopped.
    Stopped {
        /// Why.
        reason: String,
        /// The hook that asked for it; empty where somebody did by a [`Remote`](super::Remote).
        hook: String,
    },
    /// A signal ended it.
    Interrupted(Signal),
    /// An error ended it.
    Failed(RunError),
}

/// A training whose loss has grown out of all bounds: a learning rate that is too high, for the most part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// The first loss that was finite, if there was one.
    pub first: Option<f64>,
    /// The mean over the last training epoch.
    pub last: f64,
}

/// What there is to say of a run after its end.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// That its training has diverged, where it has.
    pub divergence: Option<Divergence>,
    /// Faults of hooks after the end: in `on_exception`, in `after_run` and when they were dropped.
    pub late_faults: Vec<HookFault>,
    /// The metrics of each phase that ran, at the end of its last pass.
    pub metrics: Vec<(Phase, Vec<(String, f64)>)>,
    /// Where the time of each phase that ran went, all its passes together.
    pub profiles: Vec<(Phase, Profile)>,
    /// The checkpoints that were saved, in the order of their first saving.
    pub checkpoints: Vec<PathBuf>,
    /// The last whole checkpoint, the one that the run went on from included.
    pub last_checkpoint: Option<PathBuf>,
    /// Training epochs finished.
    pub epochs: u64,
    /// Training iterations finished.
    pub iterations: u64,
    /// Updates finished.
    pub updates: u64,
    /// The averages that the last evaluation saw in the parameters' place, where they are others than the
    /// parameters.
    pub measured: Option<Weights>,
    /// Seconds from start to end.
    pub seconds: f64,
}

impl Report {
    /// A metric of a phase by its name.
    pub fn metric(&self, phase: Phase, name: &str) -> Option<f64> {
        let (_, metrics) = self.metrics.iter().find(|(of, _)| *of == phase)?;
        let (_, value) = metrics.iter().find(|(known, _)| known == name)?;
        Some(*value)
    }

    /// Whether nothing went wrong, neither in the run nor after it.
    pub fn is_success(&self) -> bool {
        !matches!(self.outcome, Outcome::Failed(_) | Outcome::Interrupted(_))
            && self.late_faults.is_empty()
    }
}
