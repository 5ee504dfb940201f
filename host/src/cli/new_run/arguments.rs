//! The arguments of `sconce new-run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The arguments of `sconce new-run`.
#[derive(Debug, Args)]
pub(in crate::cli) struct NewRunArgs {
    /// The manifest to write.
    #[arg(default_value = "run.json")]
    pub(super) file: PathBuf,
    /// What the data is. On a terminal it is asked for.
    #[arg(long, value_enum)]
    pub(super) task: Option<TaskKind>,
    /// The data: a directory of images or of IDX files, a table, a text.
    #[arg(long, value_name = "PATH")]
    pub(super) data: Option<PathBuf>,
    /// The column of a table to be learned. Default: its last one.
    #[arg(long, value_name = "COLUMN")]
    pub(super) target: Option<String>,
    /// The model. Default: one that suits the data.
    #[arg(long, value_enum)]
    pub(super) model: Option<ModelKind>,
    /// A directory with plugins. Default: the standard plugins, where they lie beside this program;
    /// installed ones are found without.
    #[arg(long = "plugins", value_name = "DIR")]
    pub(super) plugins: Vec<PathBuf>,
    /// How many passes over the training data.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) epochs: Option<u64>,
    /// Asks nothing: takes the defaults for what is not said.
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// What the data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum TaskKind {
    /// Images to classify: a directory for each class, or the IDX files of MNIST.
    Image,
    /// A table: a line per sample, a column to be learned.
    Table,
    /// A text, of which each next byte is learned.
    Text,
    /// Digits drawn from the seed: nothing to download.
    Digits,
}

/// The models that are offered.
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
