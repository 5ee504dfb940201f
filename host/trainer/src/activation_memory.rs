//! Memory that a model's activations take in a training step, found by running a few samples.

use std::cell::RefCell;

use sconce_plugin_api::Phase;

use crate::nn::{Pass, StatisticsLog, ops};
use crate::task::Task;

/// Number of samples with which the model is run: batch norms want more than one.
const SAMPLES: u32 = 2;

/// Memory that activations take in a training step, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActivationMemory {
    /// Kept from the forward pass for the backward pass.
    pub kept: usize,
    /// Of the largest block that is recomputed in the backward pass.
    pub recomputed: usize,
    /// What the largest convolution would need for itself on a GPU, in `f32`; not an activation.
    pub convolution: usize,
}

impl ActivationMemory {
    /// Runs a few samples and scales what they keep to a batch; none if they can't be run, or if nothing is recorded, as
    /// of a model of candle's own operations.
    pub fn measure(task: &mut dyn Task, batch: usize) -> Option<ActivationMemory> {
        let data = task.data(Phase::Train)?;
        let indices: Vec<u32> = (0..SAMPLES.min(data.len() as u32)).collect();
        let samples = data.gather(&indices, 0).ok()?;
        let _recording = ops::record();
        let statistics = RefCell::new(StatisticsLog::default());
        // As where no hook reads the outputs.
        let mut pass = Pass::training().collecting(&statistics).for_loss();
        ops::largest_convolution();
        let outputs = task.forward(&samples, &mut pass).ok()?;
        // A loss that hooks give keeps no more than the outputs.
        let loss = task.loss(&samples, &outputs, &mut pass);
        let loss = loss.or_else(|_| outputs.sum_all()).ok()?;
        let kept = ops::recorded_bytes();
        ops::largest_recomputed();
        ops::backward(&loss, 1.0).ok()?;
        let scaled = |bytes: usize| bytes / indices.len().max(1) * batch;
        (kept > 0).then(|| ActivationMemory {
            kept: scaled(kept),
            recomputed: scaled(ops::largest_recomputed()),
            convolution: scaled(ops::largest_convolution()),
        })
    }

    /// Of activations in bytes, at the end of the forward pass and while the largest block is recomputed.
    pub fn total(self) -> usize {
        self.kept + self.recomputed
    }
}
