//! An observer of a run, such as the live view.

use sconce_lifecycle::Position;
use sconce_plugin_api::Phase;

use crate::bridge::BridgeState;
use crate::metric_board::PhaseMetrics;
use crate::run::Profile;

/// Observes a run. It is called on the training thread between iterations and must not change anything; time
/// spent here delays the run.
pub trait Observer {
    /// Called when a pass over a phase's data has begun, or an iteration of it is finished. Returns whether
    /// the timings of the pass so far are wanted.
    fn sees(&self, now: &Now) -> bool;

    /// Receives the timings of the pass so far, if they were wanted.
    fn sees_times(&self, phase: Phase, pass: &Profile);

    /// Receives the metrics and timings of a finished pass.
    fn sees_end(&self, now: &Now, metrics: &PhaseMetrics, pass: &Profile);
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// Phase of the pass in progress.
    pub phase: Phase,
    /// Number of training epochs finished.
    pub epoch: u64,
    /// Total number of training epochs.
    pub epochs: u64,
    /// Number of batches of the pass finished.
    pub batch: u64,
    /// Total number of batches in the pass.
    pub batches: u64,
    /// Number of training iterations finished.
    pub iteration: u64,
    /// Number of training samples seen.
    pub samples: u64,
    /// Loss of the last batch.
    pub loss: Option<f64>,
    /// Learning rate of the default parameter group.
    pub learning_rate: f64,
    /// Seconds since the start of the run.
    pub elapsed: f64,
    /// Estimated seconds until the end of training, at the pace so far.
    pub remaining: Option<f64>,
}

impl Now {
    /// The progress at this position.
    pub(in crate::run) fn at(position: &Position, shared: &BridgeState<'_>) -> Now {
        Now {
            phase: position.phase,
            epoch: position.epoch,
            epochs: position.epochs,
            batch: position.pass.batch,
            batches: position.pass.batches,
            iteration: position.iteration,
            samples: position.samples,
            loss: position.pass.loss,
            learning_rate: shared.optimizer.learning_rate.get(),
            elapsed: shared.clock.elapsed_seconds(),
            remaining: shared.clock.remaining_seconds(),
        }
    }
}
