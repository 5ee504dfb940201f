//! Arguments of `sconce new-run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `sconce new-run`.
#[derive(Debug, Args)]
pub(in crate::cli) struct NewRunArgs {
    /// Manifest to write.
    #[arg(default_value = "run.json")]
    pub(super) file: PathBuf,
    /// Kind of data. Default: asked for on a terminal, otherwise guessed from `--data`.
    #[arg(long, value_enum)]
    pub(super) task: Option<TaskKind>,
    /// Data: a directory of images or of IDX files, a table, or a text.
    #[arg(long, value_name = "PATH")]
    pub(super) data: Option<PathBuf>,
    /// Target column of a table. Default: the last one.
    #[arg(long, value_name = "COLUMN")]
    pub(super) target: Option<String>,
    /// Model. Default: one that suits the data.
    #[arg(long, value_enum)]
    pub(super) model: Option<ModelKind>,
    /// Directory with plugins. Default: the standard plugins next to this program, if any; installed
    /// ones are found without it.
    #[arg(long = "plugins", value_name = "DIR")]
    pub(super) plugins: Vec<PathBuf>,
    /// Number of passes over the training data.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) epochs: Option<u64>,
    /// Asks nothing: uses defaults for everything not given.
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// Kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum TaskKind {
    /// Images to classify: a directory for each class, or the IDX files of MNIST.
    Image,
    /// A table: one line per sample, one target column.
    Table,
    /// A text, whose next bytes are predicted.
    Text,
    /// Digits generated from the seed: nothing to download.
    Digits,
}

/// Models to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ModelKind {
    /// A multi-layer perceptron.
    Mlp,
    /// A convolutional network for images.
    Convnet,
    /// A residual network for images.
    Resnet,
    /// A decoder-only transformer for text.
    Gpt,
}
