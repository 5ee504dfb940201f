//! How long to train, and in which steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DataLimits;
use super::ValidateEvery;
use sconce_data::Preparation;
use sconce_data::order::Sampling;

/// How long to train, and in which steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Number of passes over the training data.
    pub epochs: u64,
    /// Samples per training batch.
    #[serde(default = "default_batch_size")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub batch_size: usize,
    /// How the samples of an epoch are drawn: each `once`, or `balanced`, as many of each class.
    #[serde(default, skip_serializing_if = "Sampling::is_default")]
    pub sampling: Sampling,
    /// Samples per batch in validation and test. Default: as in training.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub eval_batch_size: Option<usize>,
    /// Batches per update of the parameters; remaining batches at the end of an epoch make an update too.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub accumulate: usize,
    /// When to validate: after every `validate_every` epochs and after the last one, 0 meaning never, or with
    /// `{"iterations": n}` after every n training batches and after the last epoch.
    #[serde(default = "every_epoch")]
    pub validate_every: ValidateEvery,
    /// Also validate before the first epoch.
    #[serde(default)]
    pub initial_validation: bool,
    /// Test after training, if there is test data.
    #[serde(default = "yes")]
    pub test: bool,
    /// Train only on the samples of the first `limit_train` batches of the data. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit_train: Option<usize>,
    /// Validate only on the samples of the first `limit_val` batches. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit_val: Option<usize>,
    /// Test only on the samples of the first `limit_test` batches. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit_test: Option<usize>,
    /// Train and validate on the samples of this many training batches, without augmentation or test. A model
    /// that can't memorise them points to a bug. Default: all the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub overfit: Option<usize>,
    /// Number of threads that prepare batches in the background; their number does not affect the order. With
    /// 0, training waits for each batch.
    #[serde(default = "one")]
    #[schemars(range(max = 256))]
    pub loader_threads: usize,
    /// Maximum number of prepared batches waiting. Default: two per thread, or as many small ones as take
    /// 1 MiB.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000))]
    pub prefetch: Option<usize>,
    /// End the run at the first NaN or infinite training loss or gradient. It ends before that reaches a
    /// parameter, and reports the module where it arose. Costs one pass over the gradients.
    #[serde(default)]
    pub check_finite: bool,
    /// Names of parameters that may have no gradient. Any other parameter without one ends the run in its
    /// first iteration.
    #[serde(default)]
    pub allow_missing_gradients: Vec<String>,
}

impl TrainConfig {
    /// The limits on how much of the data is used, in samples; none if all of it is.
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

    /// How batches are prepared: in the background or on demand.
    pub fn preparation(&self) -> Preparation {
        let threads = self.loader_threads;
        Preparation {
            threads,
            ahead: self.prefetch.unwrap_or(2 * threads.max(1)),
            small: self.prefetch.map_or(Preparation::SMALL, |_| 0),
        }
    }
}

fn default_batch_size() -> usize {
    64
}

fn one() -> usize {
    1
}

fn every_epoch() -> ValidateEvery {
    ValidateEvery::Epochs(1)
}

fn yes() -> bool {
    true
}
