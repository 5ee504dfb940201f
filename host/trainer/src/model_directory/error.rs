//! Errors of a saved model, with their messages.

use std::path::PathBuf;

use crate::checkpoint::CheckpointError;
use crate::data::preprocessing::PreprocessingError;
use crate::weights::WeightsError;

/// Why a saved model can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelDirectoryError {
    /// The file that says what the model is can't be read.
    #[error("can't read the model's description: {0}")]
    Unreadable(std::io::Error),
    /// It was written by a newer host.
    #[error(
        "`{}` was written by {written_by} in format {format}, which readers of format {least_reader} and later \
         understand; this build reads up to format {known}: use a newer build", file.display()
    )]
    Newer {
        /// Path of the file.
        file: PathBuf,
        /// Program that wrote it.
        written_by: String,
        /// Format of the file.
        format: u32,
        /// Oldest format whose reader understands it.
        least_reader: u32,
        /// Newest format that this build reads.
        known: u32,
    },
    /// Its loss follows from the training data.
    #[error(
        "the loss of the model in `{}` has class weights that follow from the training data, which a checkpoint alone \
         doesn't have: give the directory of a run that has ended", directory.display()
    )]
    LearntLoss {
        /// Directory of the checkpoint.
        directory: PathBuf,
    },
    /// Something in it is invalid.
    #[error("`{}` is damaged or was edited{at}: {problem}", file.display())]
    Invalid {
        /// Path of the file.
        file: PathBuf,
        /// Where, as a phrase; empty if not known.
        at: String,
        /// What is wrong.
        problem: String,
    },
    /// A file is damaged, or one of another model.
    #[error("`{}` {problem}: the file is damaged, or one of another model", file.display())]
    Changed {
        /// Path of the file.
        file: PathBuf,
        /// The rest of a sentence about it.
        problem: String,
    },
    /// What was learnt from the data can't be used.
    #[error("the model in `{}`: {problem}", directory.display())]
    Preprocessing {
        /// Directory of the model.
        directory: PathBuf,
        /// What is wrong.
        problem: PreprocessingError,
    },
    /// Description, preprocessing and weights don't belong together.
    #[error("the model in `{}` can't be built: {problem}", directory.display())]
    Misfit {
        /// Directory of the model.
        directory: PathBuf,
        /// What doesn't fit.
        problem: String,
    },
    /// The weights can't be used.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The checkpoint can't be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}
