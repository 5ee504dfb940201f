//! Somebody who watches a run from outside of it, as the live view does.

use sconce_plugin_api::Phase;

use super::Profile;
use crate::metric_board::PhaseMetrics;

/// Watches a run. It is called on the training's thread between iterations and changes nothing: what
/// takes long here, the run takes longer.
pub trait Observer {
    /// A pass over a phase's data has begun, or an iteration of it is finished. Whether the times of
    /// the pass so far are wanted.
    fn sees(&self, now: &Now) -> bool;

    /// The times of the pass so far, after they were wanted.
    fn sees_times(&self, phase: Phase, pass: &Profile);

    /// A pass is over: its metrics and times.
    fn sees_end(&self, now: &Now, metrics: &PhaseMetrics, pass: &Profile);
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// The phase of the pass under way.
    pub phase: Phase,
    /// Training epochs finished, and how many there are.
    pub epoch: u64,
    /// See [`epoch`](Now::epoch).
    pub epochs: u64,
    /// Batches of the pass finished, and how many there are.
    pub batch: u64,
    /// See [`batch`](Now::batch).
    pub batches: u64,
    /// Training iterations finished.
    pub iteration: u64,
    /// Training samples seen.
    pub samples: u64,
    /// The loss of the last batch.
    pub loss: Option<f64>,
    /// The learning rate of the default group.
    pub learning_rate: f64,
    /// Seconds since the run's start.
    pub elapsed: f64,
    /// Seconds until the training's end, at the pace so far.
    pub remaining: Option<f64>,
}
