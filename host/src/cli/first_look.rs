//! Options of `sconce run` for a first look: a part of the data, and nothing kept.

use clap::Args;

/// A first look at a run.
#[derive(Debug, Default, Args)]
pub(super) struct FirstLook {
    /// One batch of training, validation and test each, in a directory that is removed again.
    #[arg(long, conflicts_with_all = ["output", "resume", "overwrite"])]
    pub(super) dry_run: bool,
    /// Trains on so many batches' samples alone, the data's first: `train.limit_train`.
    #[arg(long, value_name = "BATCHES")]
    limit_train: Option<usize>,
    /// Validates on so many batches' samples alone: `train.limit_val`.
    #[arg(long, value_name = "BATCHES")]
    limit_val: Option<usize>,
    /// Tests on so many batches' samples alone: `train.limit_test`.
    #[arg(long, value_name = "BATCHES")]
    limit_test: Option<usize>,
    /// Trains and validates on the samples of so many training batches, without augmentation and
    /// without a test, to see whether the model can learn them by heart: `train.overfit`.
    #[arg(long, value_name = "BATCHES", conflicts_with = "limit_train")]
    overfit: Option<usize>,
}

impl FirstLook {
    /// What these options set in the manifest, after what `--set` does.
    pub(super) fn overrides(&self, set: &[String]) -> Vec<String> {
        let mut all = set.to_vec();
        if self.dry_run {
            let values = ["epochs", "limit_train", "limit_val", "limit_test"];
            all.extend(values.map(|key| format!("train.{key}=1")));
        }
        let given = [
            ("limit_train", self.limit_train),
            ("limit_val", self.limit_val),
            ("limit_test", self.limit_test),
            ("overfit", self.overfit),
        ];
        for (key, value) in given {
            all.extend(value.map(|value| format!("train.{key}={value}")));
        }
        all
    }
}
