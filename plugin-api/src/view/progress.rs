//! Progress of the run: counters, sizes, loss, learning rate, time.

use std::time::Duration;

use super::TaskView;
use crate::abi::ViewAbi;
use crate::ext::RunClient;

impl<'task> TaskView<'task> {
    /// Number of finished training epochs.
    ///
    /// It is 0 during the first epoch, and advances before `after_epoch(train)`: there, in the validation
    /// that follows and at `after_cycle` it includes the epoch just trained. An epoch that was cut short by a
    /// stop is not counted ([`is_whole`](TaskView::is_whole)).
    pub fn epoch(&self) -> u64 {
        self.abi.epoch
    }

    /// Number of training epochs that the run was configured for.
    pub fn epochs(&self) -> u64 {
        self.abi.epochs
    }

    /// Number of finished training batches in the whole run (micro-batches under gradient accumulation).
    ///
    /// Where several processes train together, it counts rounds, in which each rank processes a batch: use
    /// [`update`](TaskView::update) for what must not depend on the number of ranks.
    /// It advances before `after_iter(train)`, where it includes the batch just done.
    pub fn iteration(&self) -> u64 {
        self.abi.iteration
    }

    /// Number of finished optimizer steps in the whole run.
    ///
    /// It advances before `after_update`, where it includes the step just done.
    pub fn update(&self) -> u64 {
        self.abi.update
    }

    /// Number of finished batches in this pass over the phase's data.
    ///
    /// It advances before `after_iter`, where it includes the batch just done.
    pub fn batch(&self) -> u64 {
        self.abi.batch
    }

    /// Number of batches in this pass over the phase's data, on several ranks those of each; 0 outside a pass.
    pub fn batches(&self) -> u64 {
        self.abi.batches
    }

    /// Whether all batches of this pass over the phase's data are finished.
    ///
    /// At `after_epoch(train)` and `after_cycle` it is false if a stop has cut the epoch short.
    pub fn is_whole(&self) -> bool {
        self.abi.batch == self.abi.batches
    }

    /// Number of training samples processed in the whole run, by all ranks.
    pub fn samples(&self) -> u64 {
        self.abi.samples
    }

    /// Loss of the current batch, its mean over the samples; between batches, that of the pass's last batch.
    ///
    /// On a GPU the host waits until the loss has been computed, and gives the GPU no further work meanwhile: a hook
    /// that is called for each batch but needs the losses now and then asks for
    /// [`recent`](Losses::recent) ones ([`losses`](TaskView::losses)).
    ///
    /// `None` before the first batch, and if a hook has skipped the batch.
    pub fn loss(&self) -> Option<f64> {
        if self.abi.flags & ViewAbi::HAS_LOSS != 0 {
            return Some(self.abi.loss);
        }
        if self.abi.flags & ViewAbi::LOSS_WAITS == 0 {
            return None;
        }
        self.host.loss().ok()?.current()
    }

    /// What is known of losses without waiting for a GPU.
    pub fn losses(&self) -> Losses<'task> {
        Losses {
            view: TaskView { ..*self },
        }
    }

    /// The optimizer's learning rate: that of the parameter group `default`.
    pub fn learning_rate(&self) -> f64 {
        self.abi.learning_rate
    }

    /// Time since the run began, including the time before a resume.
    pub fn elapsed(&self) -> Duration {
        let seconds = self.host.run().map_or(0.0, RunClient::elapsed_seconds);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Estimated time until the end of training, from the pace so far (including validations).
    ///
    /// `None` before the first iteration is finished.
    pub fn remaining(&self) -> Option<Duration> {
        let seconds = self.host.run().ok()?.remaining_seconds();
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// What is known of a run's losses without waiting for a GPU; see [`TaskView::losses`].
pub struct Losses<'task> {
    view: TaskView<'task>,
}

impl Losses<'_> {
    /// Whether the current or last batch has a [`loss`](TaskView::loss), without waiting for it.
    pub fn is_known(&self) -> bool {
        self.view.abi.flags & (ViewAbi::HAS_LOSS | ViewAbi::LOSS_WAITS) != 0
    }

    /// Whether the batch's loss is still being computed on a GPU, so that [`loss`](TaskView::loss) would wait for it.
    pub fn is_awaited(&self) -> bool {
        self.view.abi.flags & ViewAbi::LOSS_WAITS != 0
    }

    /// The losses of the last training batches, at most `count`, the newest last: those of batches whose loss was
    /// [awaited](Losses::is_awaited). Waits for the last of them, and allocates. At most the last 1,024 are known.
    pub fn recent(&self, count: usize) -> Vec<f64> {
        let Ok(loss) = self.view.host.loss() else {
            return Vec::new();
        };
        let mut losses = vec![f64::NAN; count.min(1024)];
        let found = loss.recent(&mut losses);
        losses.truncate(found);
        losses
    }
}
