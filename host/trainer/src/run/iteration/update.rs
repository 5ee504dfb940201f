//! An update of the parameters, whose gradients are accumulated over batches.
//!
//! **Rule**: an update has the gradient of one batch with all its samples, whatever the loss counts. A loss is a mean over a
//! batch, Σ wᵢ ℓᵢ / Σ wᵢ. If all samples weigh the same, a batch of n of the update's N samples contributes n / N of its
//! gradient. If they don't (class weights, ignored targets), the divisor Σ wᵢ of the update is known only after its last
//! batch: a batch of weight w contributes w / N, and the sum is divided by the mean weight of a sample, Σ w / Σ n.

use sconce_lifecycle::Position;

use crate::gradients::{GradientTree, Gradients};
use crate::run::sums::loss_weight::LossWeight;
use crate::task::Task;

/// The update in progress, or the last one.
#[derive(Debug, Default)]
pub(in crate::run) struct Update {
    /// Gradients of its micro-batches so far.
    pub(in crate::run) accumulated: GradientTree,
    /// Weight of the accumulated micro-batches, if it varies; on several ranks of those before this process resumed.
    pub(in crate::run) weight: LossWeight,
    /// Weight of the last batch.
    pub(in crate::run) of_batch: LossWeight,
    /// Whether the gradients have been audited, which happens in the first iteration.
    pub(in crate::run) is_audited: bool,
    /// Whether the parameters were stepped during the backward pass of this update's batch.
    pub(in crate::run) is_stepped: bool,
}

impl Update {
    /// Whether its batches are weighted by what their losses count: it is known only after its last one.
    pub(in crate::run) fn is_weighed(task: &dyn Task, position: &Position) -> bool {
        let batches = &position.update_batches;
        task.has_varying_weight() && batches.end.saturating_sub(batches.start) > 1
    }

    /// The factor of the last batch's loss, before it is divided by the mean: its fraction of the update's samples, or of
    /// their weight.
    pub(in crate::run) fn factor(&self, fraction: f64, is_weighed: bool) -> f64 {
        if is_weighed {
            self.of_batch.factor(fraction)
        } else {
            fraction
        }
    }

    /// Adds the gradients of the last batch, which has this index in the update.
    pub(in crate::run) fn add(
        &mut self,
        index: u64,
        gradients: Gradients,
        is_weighed: bool,
    ) -> candle_core::Result<()> {
        if is_weighed {
            self.weight.add(self.of_batch);
        }
        self.accumulated.add(index, gradients)
    }

    /// Drops what has been accumulated.
    pub(in crate::run) fn reset(&mut self) {
        self.accumulated = GradientTree::default();
        self.weight = LossWeight::default();
    }
}
