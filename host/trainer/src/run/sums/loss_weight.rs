//! Weight of the losses of some batches, by which their gradients count in an update.

use sconce_base::exact::Exact;

use crate::checkpoint::{AccumulatedWeight, CheckpointHeader};
use crate::gradients::Gradients;

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
