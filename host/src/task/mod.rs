//! What is trained: model, data, loss and metrics.

mod data_facts;
mod limited;
mod supervised;

use std::sync::Arc;

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;

pub use data_facts::DataFacts;
pub use limited::{DataLimits, Limited};
pub use supervised::{Error, Supervised};

use crate::data::{Batch, Dataset, Splits};
use crate::nn::{ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

/// The data of a phase, or none where there is none.
pub fn split_of(splits: &Splits, phase: Phase) -> Option<Arc<dyn Dataset>> {
    match phase {
        Phase::Train => Some(Arc::clone(&splits.train)),
        Phase::Val => splits.val.clone(),
        Phase::Test => splits.test.clone(),
        _ => None,
    }
}

/// A task that the loop can train.
///
/// The loop calls, for every batch: [`forward`](Task::forward), [`loss`](Task::loss),
/// [`measure`](Task::measure), and in training `backward` on the loss. Nothing here knows of hooks.
pub trait Task {
    /// The named parameters, which the optimizer steps and hooks see.
    fn parameters(&self) -> &Parameters;

    /// The data of a phase, or nothing where there is none.
    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>>;

    /// The names of the metrics beside `loss`, always the same.
    fn metrics(&self) -> &[String];

    /// The model's outputs for a batch. Random parts (dropout) are on in training alone.
    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// The loss: the mean over the batch's samples, a scalar with a gradient. It may read what hooks
    /// have published for it ([`Pass::published`]).
    fn loss(&mut self, batch: &Batch, outputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// What the loss of a batch counts in the mean over a pass: by default its samples. The sum of the
    /// classes' weights, say, where the loss is a weighted mean.
    fn loss_weight(&self, batch: &Batch) -> Result<f64> {
        Ok(batch.len() as f64)
    }

    /// Adds what a batch contributes to the sums behind the metrics: sums, so that batches of unequal
    /// sizes count right and a checkpoint can keep them.
    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()>;

    /// How many sums there are behind the metrics; by default one for each.
    fn sum_count(&self) -> usize {
        self.metrics().len()
    }

    /// The metrics, in the order of their names, from the sums over so many samples; by default the
    /// means.
    fn values(&self, sums: &[f64], samples: f64, values: &mut [f64]) {
        for (value, sum) in values.iter_mut().zip(sums) {
            *value = sum / samples;
        }
    }

    /// The model's named modules, in the order in which they run: those at which hooks can listen.
    fn modules(&self) -> Vec<ModuleInfo> {
        Vec::new()
    }

    /// What the model is made of, for `sconce summary`; none where the task can't say.
    fn summary(&self) -> Option<Summary> {
        None
    }
}
