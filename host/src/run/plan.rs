//! How long and in which steps to train.

use crate::data::Preparation;

/// The numbers of a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed of everything random.
    pub seed: u64,
    /// Passes over the training data; 0 trains nothing.
    pub epochs: u64,
    /// Samples per training batch, at least 1.
    pub batch_size: usize,
    /// Samples per batch outside training, at least 1.
    pub eval_batch_size: usize,
    /// Batches per update of the parameters, at least 1.
    pub accumulate: usize,
    /// Validate after every so many epochs; 0 never.
    pub validate_every: u64,
    /// Validate before the first epoch too.
    pub initial_validation: bool,
    /// Test at the end where there is test data.
    pub test: bool,
    /// How batches are prepared.
    pub preparation: Preparation,
    /// Whether the first loss or gradient that is not finite ends the run.
    pub check_finite: bool,
    /// The parameters that may go without a gradient.
    pub allow_missing_gradients: Vec<String>,
}

impl Default for Plan {
    /// What a manifest gets that says no more than it must.
    fn default() -> Self {
        Plan {
            seed: 0,
            epochs: 1,
            batch_size: 64,
            eval_batch_size: 256,
            accumulate: 1,
            validate_every: 1,
            initial_validation: false,
            test: true,
            preparation: Preparation::default(),
            check_finite: false,
            allow_missing_gradients: Vec::new(),
        }
    }
}

impl Plan {
    /// How many validations follow epochs.
    pub fn validations(&self) -> u64 {
        if self.validate_every == 0 {
            return 0;
        }
        self.epochs.div_ceil(self.validate_every)
    }

    /// Whether a validation is due once `epoch` epochs are finished: at every n-th, and at the last.
    pub(super) fn validates_after(&self, epoch: u64) -> bool {
        self.validate_every > 0
            && (epoch.is_multiple_of(self.validate_every) || epoch == self.epochs)
    }
}
