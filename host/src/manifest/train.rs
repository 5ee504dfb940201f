//! How long and in which steps to train.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::Preparation;
use crate::task::DataLimits;

/// How long and in which steps to train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Passes over the training data.
    pub epochs: u64,
    /// Samples per training batch.
    #[serde(default = "default_batch_size")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub batch_size: usize,
    /// Samples per batch in validation and test. Default: as in training.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub eval_batch_size: Option<usize>,
    /// Batches per update of the parameters; what is left at an epoch's end is an update too.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub accumulate: usize,
    /// Validate after every so many epochs, and after the last; 0 never.
    #[serde(default = "one_epoch")]
    pub validate_every: u64,
    /// Validate before the first epoch too.
    #[serde(default)]
    pub initial_validation: bool,
    /// Test after the training, where there is test data.
    #[serde(default = "yes")]
    pub test: bool,
    /// Train on so many batches' samples alone, the data's first. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit_train: Option<usize>,
    /// Validate on so many batches' samples alone. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit_val: Option<usize>,
    /// Test on so many batches' samples alone. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit_test: Option<usize>,
    /// Train and validate on the samples of so many training batches, without augmentation and without
    /// a test: whoever can't learn these by heart has a fault somewhere. Default: the whole data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub overfit: Option<usize>,
    /// Threads that prepare batches in the background, in the same order whatever their number; with
    /// 0 the training waits for each.
    #[serde(default = "one")]
    #[schemars(range(max = 256))]
    pub loader_threads: usize,
    /// How many prepared batches wait at most. Default: two for each thread.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    pub prefetch: Option<usize>,
    /// End the run at the first training loss or gradient that is NaN or infinite, before it reaches a
    /// parameter, and say in which module it began. Costs one pass over the gradients.
    #[serde(default)]
    pub check_finite: bool,
    /// The names of parameters that may go without a gradient; any other without one ends the run
    /// in its first iteration.
    #[serde(default)]
    pub allow_missing_gradients: Vec<String>,
}

impl TrainConfig {
    /// How much of the data takes part, in samples; none where all of it does.
    pub fn data_limits(&self) -> Option<DataLimits> {
        let batch = self.batch_size;
        let eval = self.eval_batch_size.unwrap_or(batch);
        let samples = |batches: Option<usize>, size: usize| Some(batches?.saturating_mul(size));
        let limits = DataLimits {
            train: samples(self.limit_train, batch),
            val: samples(self.limit_val, eval),
            test: samples(self.limit_test, eval),
            overfit: samples(self.overfit, batch),
        };
        (limits != DataLimits::default()).then_some(limits)
    }

    /// How batches are prepared.
    pub fn preparation(&self) -> Preparation {
        let threads = self.loader_threads;
        Preparation {
            threads,
            ahead: self.prefetch.unwrap_or(2 * threads.max(1)),
        }
    }
}

fn default_batch_size() -> usize {
    64
}

fn one() -> usize {
    1
}

fn one_epoch() -> u64 {
    1
}

fn yes() -> bool {
    true
}
