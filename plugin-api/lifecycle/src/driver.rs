//! What a host brings to the lifecycle.

use super::{EpochBatches, Leave, MicroBatch, Position, Ranked};
use sconce_plugin_api::{Phase, Point};

/// Result of a driver's method.
pub(super) type Driven<R, T = ()> = Result<T, Leave<<R as RunDriver>::Error>>;

/// Whether a stop has been requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopping {
    /// No.
    No,
    /// At the end of the epoch.
    AfterEpoch,
    /// After this iteration.
    Now,
}

/// A run, as the lifecycle drives it: its state, and the work between mount points. The order is the lifecycle's.
///
/// Methods that call hooks serve the hooks' requests before they return, and return [`Leave::RolledBack`] if one of
/// them was to roll back.
pub trait RunDriver {
    /// Error that ends the run.
    type Error;
    /// The batches of a pass.
    type Batches;
    /// A batch.
    type Batch;
    /// The model's outputs for a batch.
    type Outputs;
    /// The loss of a batch.
    type Loss;
    /// What must live during forward and backward pass of a training batch.
    type Recording;
    /// What hooks can change at `before_epoch`.
    type Snapshot;

    /// The position, which the lifecycle maintains.
    fn position(&mut self) -> &mut Position;

    /// This process among those that train together.
    fn ranked(&self) -> Ranked {
        Ranked::ALONE
    }

    /// Division of a phase's samples into batches; `None` without data.
    fn batches_of(&self, phase: Phase) -> Option<EpochBatches>;

    /// Whether training is preceded by a validation.
    fn validates_first(&self) -> bool;

    /// Whether a validation is due after this many finished epochs.
    fn validates_after(&self, epoch: u64) -> bool;

    /// Iterations between validations within epochs; `None`: they follow epochs alone.
    fn validation_interval(&self) -> Option<u64> {
        None
    }

    /// Runs a validation that is due in the middle of an epoch ([`validate`](super::validate)), without counting it towards
    /// the training pass.
    ///
    /// # Errors
    ///
    /// If it fails.
    fn validate_within(&mut self) -> Result<(), Leave<Self::Error>>;

    /// Whether a test follows the training.
    fn tests(&self) -> bool;

    /// Batches per update, of all ranks: those requested by a hook, and those planned.
    fn accumulation(&self) -> (Option<u64>, u64);

    /// Whether a stop has been requested.
    fn stopping(&self) -> Stopping;

    /// Calls the hooks of a mount point, and serves their requests.
    ///
    /// # Errors
    ///
    /// If a hook fails, or has rolled back.
    fn call(&mut self, point: Point) -> Result<(), Leave<Self::Error>>;

    /// Calls the hooks of `epoch_profile`, with the times of the pass that ends.
    ///
    /// # Errors
    ///
    /// As [`call`](RunDriver::call).
    fn call_profile(&mut self, phase: Phase) -> Result<(), Leave<Self::Error>>;

    /// Starts the training, before `before_loop`.
    ///
    /// # Errors
    ///
    /// If there is nothing to train on.
    fn begin_training(&mut self) -> Result<(), Leave<Self::Error>>;

    /// Restores the checkpoint of a resumed run, after `before_loop`.
    ///
    /// # Errors
    ///
    /// If it can't be restored, or a hook fails.
    fn resume(&mut self) -> Result<(), Leave<Self::Error>>;

    /// Completes work in the background, before `after_loop`.
    ///
    /// # Errors
    ///
    /// If a hook that learns its result fails.
    fn settle(&mut self) -> Result<(), Leave<Self::Error>>;

    /// Serves requests from outside, between iterations.
    ///
    /// # Errors
    ///
    /// [`Leave::Interrupted`], or if a request fails.
    fn serve_requests(&mut self) -> Result<(), Leave<Self::Error>>;

    /// Checks for an interruption; no other requests are served.
    ///
    /// # Errors
    ///
    /// [`Leave::Interrupted`], or if its checkpoint fails.
    fn check_interrupt(&mut self) -> Result<(), Leave<Self::Error>>;

    /// Resets what is collected during a pass over a phase's data: metrics, and in training the values for an epoch.
    fn reset_pass(&mut self, phase: Phase);

    /// Starts the clocks of a pass.
    fn begin_pass(&mut self);

    /// Shows the position to observers.
    fn show(&mut self) {}

    /// State that hooks can change at `before_epoch`.
    ///
    /// # Errors
    ///
    /// If it can't be copied.
    fn snapshot(&mut self) -> Result<Self::Snapshot, Leave<Self::Error>>;

    /// Restores that state.
    ///
    /// # Errors
    ///
    /// If it can't be copied.
    fn restore_snapshot(&mut self, snapshot: Self::Snapshot) -> Result<(), Leave<Self::Error>>;

    /// The batches of a pass, after the first `done`.
    ///
    /// # Errors
    ///
    /// If there is no data.
    fn open(&mut self, phase: Phase, done: u64) -> Result<Self::Batches, Leave<Self::Error>>;

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    fn next_batch(
        &mut self,
        batches: &mut Self::Batches,
    ) -> Result<Option<Self::Batch>, Leave<Self::Error>>;

    /// The batch of this rank in a round of the training; `None` at the end of the data. If it is not the one that was
    /// planned, since a hook has changed the batches per update, the pass is opened again here.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    fn next_batch_or_reopen(
        &mut self,
        batches: &mut Self::Batches,
        _batch: &MicroBatch,
    ) -> Result<Option<Self::Batch>, Leave<Self::Error>> {
        self.next_batch(batches)
    }

    /// Number of a batch's samples.
    fn size_of(&self, batch: &Self::Batch) -> u64;

    /// Makes a batch visible to hooks.
    fn show_batch(&mut self, batch: &Self::Batch);

    /// Drops what hooks saw of a batch, and the values that they kept for it.
    fn end_batch(&mut self);

    /// Whether a hook requested to skip this batch; asked once.
    fn take_skip_batch(&mut self) -> bool;

    /// Whether a hook requested to skip this update, on any rank; asked once, by all ranks.
    ///
    /// # Errors
    ///
    /// If ranks can't agree.
    fn take_skip_update(&mut self) -> Result<bool, Leave<Self::Error>>;

    /// Checks that training can go on with this batch.
    ///
    /// # Errors
    ///
    /// If the parameters are swapped for others.
    fn check_training_batch(&mut self) -> Result<(), Leave<Self::Error>>;

    /// Prepares forward and backward pass of a training batch.
    fn record(&mut self) -> Self::Recording;

    /// Computes the model's outputs, with the hooks at its modules, and makes them visible.
    ///
    /// # Errors
    ///
    /// If the model or a hook fails.
    fn forward(
        &mut self,
        batch: &Self::Batch,
        phase: Phase,
    ) -> Result<Self::Outputs, Leave<Self::Error>>;

    /// Computes loss and metrics, and makes them visible; the position gets the loss.
    ///
    /// # Errors
    ///
    /// If loss or metrics fail.
    fn measure(
        &mut self,
        batch: &Self::Batch,
        outputs: &Self::Outputs,
        phase: Phase,
    ) -> Result<Self::Loss, Leave<Self::Error>>;

    /// Computes the gradients of a batch, multiplied by `fraction`, with the hooks at the modules, and makes them
    /// visible. Where nothing can tell the difference, the driver may step each parameter here already.
    ///
    /// # Errors
    ///
    /// If the backward pass or a hook fails.
    fn backward(
        &mut self,
        batch: &Self::Batch,
        loss: Self::Loss,
        fraction: f64,
    ) -> Result<(), Leave<Self::Error>>;

    /// Adds the batch's gradients to those of its update, unless its round repeats it.
    ///
    /// # Errors
    ///
    /// If they can't be added.
    fn accumulate(&mut self) -> Result<(), Leave<Self::Error>>;

    /// Sums the accumulated gradients over the ranks and makes them visible; `false` if there are none.
    ///
    /// # Errors
    ///
    /// If they can't be summed.
    fn show_accumulated(&mut self) -> Result<bool, Leave<Self::Error>>;

    /// Steps the parameters by the visible gradients unless `is_skipped`, and drops the gradients. Returns whether
    /// the parameters were stepped.
    ///
    /// # Errors
    ///
    /// If the optimizer fails.
    fn step(&mut self, is_skipped: bool) -> Result<bool, Leave<Self::Error>>;

    /// After the position's counters have been advanced by an iteration: advances the run's clock.
    fn advance(&mut self);

    /// After the last batch of an evaluation: shares its results among the ranks.
    ///
    /// # Errors
    ///
    /// If they can't be shared.
    fn share_evaluated(&mut self) -> Result<(), Leave<Self::Error>> {
        Ok(())
    }

    /// When all batches of a pass are done, before `after_epoch`: its metrics are those of the weights in use.
    fn end_measuring(&mut self, _phase: Phase) {}

    /// At the end of a pass of an evaluation, before it is counted.
    fn note_evaluated(&mut self) {}

    /// Saves the checkpoints that were delayed until the end of an evaluation.
    ///
    /// # Errors
    ///
    /// If a hook fails.
    fn save_delayed(&mut self) -> Result<(), Leave<Self::Error>>;
}
