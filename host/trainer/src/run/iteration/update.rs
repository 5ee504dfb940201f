//! An update of the parameters, whose gradients are accumulated over batches.
//!
//! **Rule**: an update has the gradient of one batch with all its samples, whatever the loss counts. A loss is a mean over a
//! batch, Σ wᵢ ℓᵢ / Σ wᵢ. If all samples weigh the same, a batch of n of the update's N samples contributes n / N of its
//! gradient. If they don't (class weights, ignored targets), the divisor Σ wᵢ of the update is known only after its last
//! batch: a batch of weight w contributes w / N, and the sum is divided by the mean weight of a sample, Σ w / Σ n.

use crate::checkpoint::{AccumulatedWeight, CheckpointHeader};
use crate::gradients::{GradientTree, Gradients};
use crate::task::Task;
use sconce_base::exact::Exact;

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
    /// Drops what has been accumulated.
    pub(in crate::run) fn reset(&mut self) {
        self.accumulated = GradientTree::default();
        self.weight = LossWeight::default();
    }
}

/// Weight of the losses of some batches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::run) struct LossWeight {
    /// Sum of the samples' weights.
    pub(in crate::run) weight: f64,
    /// Number of samples.
    pub(in crate::run) samples: f64,
}

impl LossWeight {
    /// Adds a batch. The order of batches decides the last bits.
    pub(in crate::run) fn add(&mut self, batch: LossWeight) {
        self.weight += batch.weight;
        self.samples += batch.samples;
    }

    /// The weight of an unfinished update, for a checkpoint; `None` if nothing was added.
    pub(in crate::run) fn for_checkpoint(self) -> Option<AccumulatedWeight> {
        (self.samples > 0.0).then_some(AccumulatedWeight {
            weight: Exact(self.weight),
            samples: Exact(self.samples),
        })
    }

    /// The weight of the update that a checkpoint interrupts.
    pub(in crate::run) fn of_checkpoint(header: &CheckpointHeader) -> LossWeight {
        let accumulated = header.accumulated_weight;
        accumulated.map_or_else(LossWeight::default, |accumulated| LossWeight {
            weight: accumulated.weight.0,
            samples: accumulated.samples.0,
        })
    }

    /// Weight of a sample relative to one that counts once.
    fn per_sample(self) -> f64 {
        if self.samples > 0.0 {
            self.weight / self.samples
        } else {
            0.0
        }
    }

    /// The factor of a batch's loss, if the batch is this fraction of its update's samples.
    pub(in crate::run) fn factor(self, fraction: f64) -> f64 {
        fraction * self.per_sample()
    }

    /// Divides the sum of an update's gradients by the mean weight of its samples; if nothing counted, they are 0 already.
    pub(in crate::run) fn normalise(self, gradients: &mut Gradients) -> candle_core::Result<()> {
        let mean = self.per_sample();
        if mean > 0.0 {
            gradients.scale(1.0 / mean)?;
        }
        Ok(())
    }
}

/// Whether the weight of an update of these batches is known only after its last one.
pub(in crate::run) fn is_weighed(task: &dyn Task, batches: &std::ops::Range<u64>) -> bool {
    task.has_varying_weight() && batches.end.saturating_sub(batches.start) > 1
}
