//! Somebody who watches a run from outside of it, as the live view does.

use sconce_plugin_api::Phase;
use sconce_plugin_api::abi::ViewAbi;

use super::{Profile, Trainer};
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

impl<'run> Trainer<'run> {
    /// A run that somebody watches.
    pub fn watched_by(mut self, observer: &'run dyn Observer) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl Trainer<'_> {
    /// Shows the observer where the run is.
    #[inline]
    pub(super) fn show(&self) {
        let Some(observer) = self.observer else {
            return;
        };
        let now = self.now();
        if observer.sees(&now) {
            let pass = Profile::of(&self.times, self.hooks.hooks(), self.hooks.times());
            observer.sees_times(now.phase, &pass);
        }
    }

    /// Shows the observer a pass that is over.
    pub(super) fn show_end(&self, phase: Phase, pass: &Profile) {
        if let Some(observer) = self.observer {
            let board = self.shared.metrics.borrow();
            observer.sees_end(&self.now(), board.of(phase), pass);
        }
    }

    fn now(&self) -> Now {
        let view = &self.view;
        Now {
            phase: Phase::from_number(view.phase).unwrap_or(Phase::Train),
            epoch: view.epoch,
            epochs: view.epochs,
            batch: view.batch,
            batches: view.batches,
            iteration: view.iteration,
            samples: view.samples,
            loss: (view.flags & ViewAbi::HAS_LOSS != 0).then_some(view.loss),
            learning_rate: self.shared.learning_rate.get(),
            elapsed: self.shared.clock.elapsed_seconds(),
            remaining: self.shared.clock.remaining_seconds(),
        }
    }
}
