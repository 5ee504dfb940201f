//! Options of `sconce run` for quick trials: part of the data, and nothing kept.

use clap::Args;

/// Options for a quick trial.
#[derive(Debug, Default, Args)]
pub(super) struct FirstLook {
    /// Runs one batch each of training, validation and test, in a directory that is removed
    /// afterwards.
    #[arg(long, conflicts_with_all = ["output", "resume", "overwrite"])]
    pub(super) dry_run: bool,
    /// Trains on this many batches of samples only, the first ones: `train.limit_train`.
    #[arg(long, value_name = "BATCHES")]
    limit_train: Option<usize>,
    /// Validates on this many batches of samples only: `train.limit_val`.
    #[arg(long, value_name = "BATCHES")]
    limit_val: Option<usize>,
    /// Tests on this many batches of samples only: `train.limit_test`.
    #[arg(long, value_name = "BATCHES")]
    limit_test: Option<usize>,
    /// Trains and validates on this many batches of training samples: `train.overfit`. There is no
    /// augmentation and no test; it shows whether the model can memorise them.
    #[arg(long, value_name = "BATCHES", conflicts_with = "limit_train")]
    overfit: Option<usize>,
}

impl FirstLook {
    /// Values that these options set in the manifest, after those of `--set`.
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
