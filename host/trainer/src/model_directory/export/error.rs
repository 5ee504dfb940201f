//! Why a model can't be written for another library.

use std::path::PathBuf;

use crate::nn::models::TransformersError;
use crate::nn::onnx::OnnxError;
use crate::weights::WeightsError;

/// Why a model can't be written for another library.
#[derive(Debug, thiserror::Error)]
pub enum ModelExportError {
    /// `transformers` is asked for a model of another kind.
    #[error("only models of the kind `transformers` have a class there")]
    Kind,
    /// `transformers` has no such model.
    #[error(transparent)]
    Model(#[from] TransformersError),
    /// A layer or the preprocessing that has no operations.
    #[error(transparent)]
    Operations(#[from] OnnxError),
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
