//! Where the run stands: counters, sizes, loss, learning rate, time.

use std::time::Duration;

use super::TaskView;
use crate::abi::ViewAbi;

impl TaskView<'_> {
    /// How many training epochs are finished.
    ///
    /// During the first epoch this is 0. It advances before `after_epoch(train)`, so there, in the
    /// validation that follows and at `after_cycle` it counts the epoch just trained. An epoch that
    /// a stop has broken off is not finished and not counted ([`is_whole`](TaskView::is_whole)).
    pub fn epoch(&self) -> u64 {
        self.abi.epoch
    }

    /// How many training epochs were asked for.
    pub fn epochs(&self) -> u64 {
        self.abi.epochs
    }

    /// How many training batches are finished in the whole run (micro-batches under accumulation).
    ///
    /// It advances before `after_iter(train)`, which therefore counts the batch just done.
    pub fn iteration(&self) -> u64 {
        self.abi.iteration
    }

    /// How many optimizer steps are finished in the whole run.
    ///
    /// It advances before `after_update`, which therefore counts the step just done.
    pub fn update(&self) -> u64 {
        self.abi.update
    }

    /// How many batches are finished in this pass over the phase's data; counts the batch just
    /// done from `after_iter` on.
    pub fn batch(&self) -> u64 {
        self.abi.batch
    }

    /// How many batches this pass over the phase's data has; 0 outside one.
    pub fn batches(&self) -> u64 {
        self.abi.batches
    }

    /// Whether this pass over the phase's data has come to its end: at `after_epoch(train)` and
    /// `after_cycle` it is false where a stop has broken the epoch off.
    pub fn is_whole(&self) -> bool {
        self.abi.batch == self.abi.batches
    }

    /// How many samples the current batch has; 0 where there is none.
    pub fn batch_size(&self) -> u64 {
        self.abi.batch_size
    }

    /// How many training samples have been seen in the whole run.
    pub fn samples(&self) -> u64 {
        self.abi.samples
    }

    /// Whether the optimizer steps at the end of this batch: always, but under gradient
    /// accumulation only every n-th time and at the end of the epoch.
    pub fn is_update_due(&self) -> bool {
        self.abi.flags & ViewAbi::UPDATES != 0
    }

    /// The loss of the current batch (its mean over the samples), or of the last one of this pass
    /// between batches; nothing before the first, and nothing where a hook has skipped the batch.
    pub fn loss(&self) -> Option<f64> {
        (self.abi.flags & ViewAbi::HAS_LOSS != 0).then_some(self.abi.loss)
    }

    /// The optimizer's learning rate.
    pub fn learning_rate(&self) -> f64 {
        self.abi.learning_rate
    }

    /// The time since the run began; the time before a resume is counted in.
    pub fn elapsed(&self) -> Duration {
        self.tables.run.map_or(Duration::ZERO, |run| {
            // SAFETY: the context is the one that the host handed over with this view.
            let seconds = unsafe { (run.elapsed_seconds)(self.abi.context) };
            Duration::try_from_secs_f64(seconds).unwrap_or_default()
        })
    }

    /// The time until the training's end, estimated from the pace so far (validations included);
    /// nothing before the first iteration is over.
    pub fn remaining(&self) -> Option<Duration> {
        let run = self.tables.run?;
        // SAFETY: the context is the one that the host handed over with this view.
        let seconds = unsafe { (run.remaining_seconds)(self.abi.context) };
        Duration::try_from_secs_f64(seconds).ok()
    }
}
