//! Tasks: model, data, loss and metrics.

mod data_facts;
mod metric_list;
mod other_data;
mod supervised;
mod task_model;
mod view_mean;

use std::sync::Arc;

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;

pub use data_facts::DataFacts;
pub use other_data::{DataLimits, OtherData};
pub use sconce_hooks::bridge::DeferredMetrics;
pub use supervised::{Supervised, SupervisedError};
pub use task_model::TaskModel;
pub use view_mean::mean_of_views;

use crate::data::{Batch, DataFile, Dataset, Preprocessing, Splits};
use crate::nn::{ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

/// Returns the data of a phase, if there is any.
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
/// For every batch the loop calls [`forward`](Task::forward), [`loss`](Task::loss),
/// [`measure`](Task::measure), and in training `backward` on the loss. A task knows nothing of
/// hooks.
pub trait Task {
    /// Named parameters, which the optimizer updates and hooks see.
    fn parameters(&self) -> &Parameters;

    /// Returns the data of a phase, if there is any.
    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>>;

    /// Returns what was learnt from the training data, for other data; none if the task's data are not given by a
    /// [`Splits`].
    fn preprocessing(&self) -> Option<Arc<Preprocessing>> {
        None
    }

    /// Files that the task has read itself, beside the manifest's data, each with the hash of what was read
    /// ([`DataFile::of`], [`DataFile::new`]): a run whose files have changed since a checkpoint was saved isn't resumed from
    /// it unnoticed. By default none.
    fn files(&self) -> Vec<DataFile> {
        Vec::new()
    }

    /// Names of the metrics other than `loss`; they never change.
    fn metrics(&self) -> &[String];

    /// Returns the model's outputs for a batch. Random parts (dropout) are active only in training.
    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// Returns the loss: the mean over the batch's samples, a scalar with a gradient. It may use
    /// values that hooks have published for it ([`Pass::published`]).
    fn loss(&mut self, batch: &Batch, outputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// Weight of a batch's loss in the mean over a pass and over an update; by default the number of samples. For a
    /// loss that is a weighted mean, for example, the sum of the class weights; then
    /// [`has_varying_weight`](Task::has_varying_weight) is true.
    fn loss_weight(&self, batch: &Batch) -> Result<f64> {
        Ok(batch.len() as f64)
    }

    /// Whether [`loss_weight`](Task::loss_weight) is not proportional to the number of samples, so that a sample counts
    /// more in one batch than in another. The gradients of an update are then weighted by it.
    fn has_varying_weight(&self) -> bool {
        false
    }

    /// Adds a batch's contribution to the sums from which the metrics are computed: sums, so that
    /// batches of unequal size are weighted correctly and a checkpoint can store them.
    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()>;

    /// Adds a batch's sums to those of the batches before it; by default each to its own.
    fn merge(&self, sums: &mut [f64], batch: &[f64]) {
        for (sum, batch) in sums.iter_mut().zip(batch) {
            *sum += batch;
        }
    }

    /// Number of sums from which the metrics are computed; by default one per metric.
    fn sum_count(&self) -> usize {
        self.metrics().len()
    }

    /// Computes the metrics, in the order of their names, from the sums over `samples` samples; by
    /// default the means.
    fn values(&self, sums: &[f64], samples: f64, values: &mut [f64]) {
        for (value, sum) in values.iter_mut().zip(sums) {
            *value = sum / samples;
        }
    }

    /// How the metrics are computed when a batch's results are read from a device later; `None`: each batch's are
    /// computed at once, for which the loop waits for the device in each.
    fn deferred_metrics(&self) -> Option<Arc<dyn DeferredMetrics>> {
        None
    }

    /// Values computed from the training data that the loss depends on, by name, for the log and `run.json`.
    fn learnt(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }

    /// The model's named modules in execution order, at which hooks can be called.
    fn modules(&self) -> Vec<ModuleInfo> {
        Vec::new()
    }

    /// The model, for writing text and for passes that hooks ask for; none if the task has another way from inputs to outputs.
    fn model(&self) -> Option<TaskModel> {
        None
    }

    /// Summary of the model's layers, for `sconce summary`; `None` if the task can't provide one.
    fn summary(&self) -> Option<Summary> {
        None
    }
}
