//! How long to train, and in which steps.

use crate::data::Preparation;
use crate::data::order::Sampling;
use crate::manifest::{Manifest, ValidateEvery};
use crate::nn::Precision;

/// The numbers that define a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainingPlan {
    /// Seed of everything random.
    pub seed: u64,
    /// Passes over the training data; with 0 nothing is trained.
    pub epochs: u64,
    /// How the samples of an epoch are drawn.
    pub sampling: Sampling,
    /// Samples per training batch, at least 1.
    pub batch_size: usize,
    /// Samples per batch outside training, at least 1.
    pub eval_batch_size: usize,
    /// Batches per update of the parameters, at least 1.
    pub accumulate: usize,
    /// When to validate.
    pub validate_every: ValidateEvery,
    /// Also validate before the first epoch.
    pub initial_validation: bool,
    /// Test at the end, if there is test data.
    pub test: bool,
    /// How batches are prepared: in the background or on demand.
    pub preparation: Preparation,
    /// Precision of products and activations.
    pub precision: Precision,
    /// Whether the first loss or gradient that is not finite ends the run.
    pub check_finite: bool,
    /// Names of parameters that may have no gradient.
    pub allow_missing_gradients: Vec<String>,
}

impl Default for TrainingPlan {
    /// The plan of a manifest without optional keys.
    fn default() -> Self {
        TrainingPlan {
            seed: 0,
            epochs: 1,
            sampling: Sampling::default(),
            batch_size: 64,
            eval_batch_size: 256,
            accumulate: 1,
            validate_every: ValidateEvery::Epochs(1),
            initial_validation: false,
            test: true,
            preparation: Preparation::default(),
            precision: Precision::default(),
            check_finite: false,
            allow_missing_gradients: Vec::new(),
        }
    }
}

impl TrainingPlan {
    /// The plan of a manifest.
    pub fn of(manifest: &Manifest) -> TrainingPlan {
        let train = &manifest.train;
        TrainingPlan {
            seed: manifest.seed,
            epochs: train.epochs,
            sampling: train.sampling,
            batch_size: train.batch_size,
            eval_batch_size: train.eval_batch_size.unwrap_or(train.batch_size),
            accumulate: train.accumulate,
            validate_every: train.validate_every,
            initial_validation: train.initial_validation,
            test: train.test,
            preparation: train.preparation(),
            precision: manifest.precision,
            check_finite: train.check_finite,
            allow_missing_gradients: train.allow_missing_gradients.clone(),
        }
    }
}
