//! Reasons why a model can't be trained with adapters, or its files can't be read or written.

use std::io;
use std::path::{Path, PathBuf};

use crate::weights::WeightsError;

/// Reason why a model can't be trained with adapters, or its files can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The plan does not fit the model.
    #[error("{0}")]
    Plan(String),
    /// The configuration of PEFT's, or its file of weights, can't be used.
    #[error("the adapter in `{}` can't be used: {reason}", path.display())]
    Peft {
        /// Directory of the adapter.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The adapter does not fit what it is merged into.
    #[error("the adapter can't be merged into `{}`: {reason}", path.display())]
    Merge {
        /// The base.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Weights can't be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The system can't write or read a file.
    #[error("{0}")]
    File(#[from] io::Error),
    /// An error from candle.
    #[error("the adapters can't be computed with: {0}")]
    Tensor(#[from] candle_core::Error),
}

impl AdapterError {
    pub(super) fn peft(path: &Path, reason: impl Into<String>) -> AdapterError {
        AdapterError::Peft {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}
