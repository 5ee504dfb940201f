//! Reasons why weights can't be read or written.

use std::path::PathBuf;

use super::Comparison;
use crate::checkpoint;

/// Reason why weights can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// I/O error.
    #[error("can't read the weights: {0}")]
    File(#[from] std::io::Error),
    /// A tensor of a file whose header is valid can't be read.
    #[error("can't read `{name}` of `{}`: {source}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// The system's error, or what is wrong with the file.
        source: std::io::Error,
    },
    /// The file is not a safetensors file, or is damaged.
    #[error("`{}` is not a safetensors file, or a damaged one: {reason}", path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of `PyTorch`'s that can't be read.
    #[error("`{}`, a file of PyTorch's, can't be read: {reason}", path.display())]
    Torch {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it, and what helps.
        reason: String,
    },
    /// A directory without weights, or whose index can't be followed.
    #[error("the directory `{}` {reason}", path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tensor's elements are of a type that isn't read.
    #[error(
        "`{name}` of `{}` has elements of type {found}; floating-point numbers of 16, 32 and 64 bits, integers and \
         booleans are read",
        path.display()
    )]
    Element {
        /// Path of the file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// The type.
        found: String,
    },
    /// A file of another format, which has to be converted first.
    #[error("`{}` is {what}, and weights are read from safetensors files and PyTorch's: {advice}", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// The format that was recognised.
        what: String,
        /// How to convert it.
        advice: String,
    },
    /// The requested renaming is impossible.
    #[error("the weights in `{}` can't be renamed: {reason}", path.display())]
    Rename {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The checkpoint is damaged, or the directory is not a checkpoint.
    #[error("can't read the weights: {0}")]
    Checkpoint(#[from] checkpoint::CheckpointError),
    /// Not a single weight matches.
    #[error("none of the weights in `{}` fits the model: {comparison}", path.display())]
    NothingFits {
        /// Path of the file.
        path: PathBuf,
        /// Missing, unexpected and misshapen weights.
        comparison: Comparison,
    },
    /// A weight is in the file, and is not the one that the model takes for it.
    #[error(
        "`{name}` in `{}` is not equal to `{parameter}`, which the model uses in its place: {advice}",
        path.display()
    )]
    Untied {
        /// Path of the file.
        path: PathBuf,
        /// Name in the file.
        name: String,
        /// The model's parameter.
        parameter: String,
        /// The setting by which the model gets a weight of its own there.
        advice: String,
    },
    /// The file or checkpoint has no set of this name.
    #[error("`{}` has no set `{set}`; there are {known}", path.display())]
    Set {
        /// Path of the file.
        path: PathBuf,
        /// The requested name.
        set: String,
        /// Names of the existing sets, for the message.
        known: String,
    },
    /// Some weights don't match.
    #[error("the weights in `{}` don't fit the model: {comparison}", path.display())]
    Misfit {
        /// Path of the file.
        path: PathBuf,
        /// Which weights match and which don't.
        comparison: Comparison,
    },
    /// An error from candle.
    #[error("the weights can't be set: {0}")]
    Tensor(#[from] candle_core::Error),
}
