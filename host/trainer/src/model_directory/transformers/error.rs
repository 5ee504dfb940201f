//! Why a model can't be written for `transformers`.

use std::path::PathBuf;

use crate::nn::models::TransformersError;
use crate::weights::WeightsError;

/// Why a model can't be written for `transformers`.
#[derive(Debug, thiserror::Error)]
pub enum TransformersExportError {
    /// The model is of another kind.
    #[error("only models of the kind `transformers` have a class there")]
    Kind,
    /// `transformers` has no such model.
    #[error(transparent)]
    Model(#[from] TransformersError),
    /// Something else is at the place.
    #[error("`{}` is there, and is not an empty directory", .0.display())]
    Exists(PathBuf),
    /// The weights can't be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// An error of candle.
    #[error("a weight can't be read: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A file can't be written.
    #[error("{0}")]
    File(#[from] std::io::Error),
}
