//! The results of a run.

use std::path::PathBuf;
use std::time::Instant;

use sconce_plugin_api::Phase;

use crate::bridge::{BridgeState, StopRequest};
use crate::checkpoint::{HistoryRecord, Weights};
use crate::dispatch::{Dispatcher, HookFault};
use crate::run::{FinalMetrics, Profile, RunError, RunTimes, StopSignal};

/// The way in which a run ended.
#[derive(Debug)]
pub enum RunOutcome {
    /// All epochs were trained.
    Completed,
    /// A hook or a request from outside stopped it.
    Stopped {
        /// The reason given.
        reason: String,
        /// Name of the hook that asked for it; empty for a request by a [`Remote`](crate::run::Remote).
        hook: String,
    },
    /// A signal ended it.
    Interrupted(StopSignal),
    /// An error ended it.
    Failed(RunError),
}

/// A training whose loss has grown out of bounds, usually because the learning rate is too high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// The first finite loss, if there was one.
    pub first: Option<f64>,
    /// Mean loss over the last training epoch.
    pub last: f64,
}

/// Results of a finished run.
#[derive(Debug)]
pub struct RunReport {
    /// The way in which it ended.
    pub outcome: RunOutcome,
    /// Set if training has diverged.
    pub divergence: Option<Divergence>,
    /// Faults of hooks after training: in `on_exception`, in `after_run`, or when they were dropped.
    pub late_faults: Vec<HookFault>,
    /// Metrics of the weights that are kept, or those measured last if none are.
    pub metrics: FinalMetrics,
    /// Timings of each phase that ran, summed over its passes.
    pub profiles: Vec<(Phase, Profile)>,
    /// Where all of the time went.
    pub times: RunTimes,
    /// Checkpoints saved, in the order in which they were first saved.
    pub checkpoints: Vec<PathBuf>,
    /// The last full checkpoint, including the one the run resumed from.
    pub last_checkpoint: Option<PathBuf>,
    /// A later one, of a failed run, from which a run resumes with other results: an error had interrupted an iteration, an
    /// evaluation or a call of hooks.
    pub inexact_checkpoint: Option<PathBuf>,
    /// Number of training epochs finished.
    pub epochs: u64,
    /// Number of training iterations finished.
    pub iterations: u64,
    /// Number of updates finished.
    pub updates: u64,
    /// The averages that replaced the parameters in the last evaluation, if they differ from the parameters.
    pub measured: Option<Weights>,
    /// Values computed from the training data that the loss depends on, by name.
    pub learnt: serde_json::Map<String, serde_json::Value>,
    /// What has happened to the hooks.
    pub history: Vec<HistoryRecord>,
    /// Seconds from start to end.
    pub seconds: f64,
}

impl RunOutcome {
    /// That of a run with this result, which a signal has interrupted or a request stopped.
    pub(in crate::run) fn of(
        result: Result<(), RunError>,
        interrupted_by: Option<StopSignal>,
        stop: Option<StopRequest>,
    ) -> RunOutcome {
        match (result, interrupted_by, stop) {
            (Err(error), _, _) => RunOutcome::Failed(error),
            (Ok(()), Some(signal), _) => RunOutcome::Interrupted(signal),
            (Ok(()), None, Some(stop)) => RunOutcome::Stopped {
                reason: stop.reason,
                hook: stop.hook,
            },
            (Ok(()), None, None) => RunOutcome::Completed,
        }
    }

    /// Its number in [`OutcomeAbi`](sconce_plugin_api::abi::OutcomeAbi), and its reason; none for a completed run.
    pub(in crate::run) fn kind_and_reason(&self) -> (u32, String) {
        match self {
            RunOutcome::Completed => (0, String::new()),
            RunOutcome::Stopped { reason, .. } => (1, reason.clone()),
            RunOutcome::Failed(error) => (2, error.to_string()),
            RunOutcome::Interrupted(signal) => (3, signal.name().to_owned()),
        }
    }
}

impl RunReport {
    /// The value of a phase's metric, of the weights that are kept.
    pub fn metric(&self, phase: Phase, name: &str) -> Option<f64> {
        let (_, metrics) = self.metrics.metrics.iter().find(|(of, _)| *of == phase)?;
        let (_, value) = metrics.iter().find(|(known, _)| known == name)?;
        Some(*value)
    }

    /// Whether the run ended because a hook's process had.
    pub fn has_lost_a_hook(&self) -> bool {
        matches!(&self.outcome, RunOutcome::Failed(RunError::Hook(fault)) if fault.error.has_ended())
    }

    /// Drops the run's hooks, in reverse order, and notes their faults.
    pub fn close_hooks(&mut self, hooks: Dispatcher, shared: &BridgeState<'_>) {
        let begin = Instant::now();
        self.late_faults.extend(hooks.close(shared));
        self.times.end.hooks = begin.elapsed().as_secs_f64();
    }

    /// Whether the run ended without an error or a signal, and without faults afterwards.
    pub fn is_success(&self) -> bool {
        !matches!(
            self.outcome,
            RunOutcome::Failed(_) | RunOutcome::Interrupted(_)
        ) && self.late_faults.is_empty()
    }
}
