//! Arguments of `sconce new-run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::diagnostic::Diagnostic;

/// Arguments of `sconce new-run`.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct NewRunArgs {
    /// Data, as for `--data`, and the manifest to write, a name that ends in `.json` or `.jsonc`. Default of the
    /// manifest: `run.json`.
    #[arg(value_name = "DATA|FILE", num_args = 0..=2)]
    pub(super) paths: Vec<PathBuf>,
    /// Kind of data. Default: asked for on a terminal, otherwise guessed from the path of the data.
    #[arg(long, value_enum)]
    pub(super) task: Option<TaskKind>,
    /// Data: a directory of images or of IDX files, a table, a NumPy file with its targets' beside it, a safetensors
    /// file, or a text.
    #[arg(long, value_name = "PATH")]
    pub(super) data: Option<PathBuf>,
    /// Target: a table's column, the NumPy file of the targets, or their tensor's name. Default: by the usual names of
    /// targets, of a table otherwise the last column.
    #[arg(long, value_name = "NAME")]
    pub(super) target: Option<String>,
    /// Whether a table's target is a class or a number. Default: classes for texts and a few distinct whole numbers.
    #[arg(long, value_enum)]
    pub(super) target_kind: Option<TargetKind>,
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

impl NewRunArgs {
    /// Takes the manifest's path out of those without an option, and the data's.
    ///
    /// # Errors
    ///
    /// If there is more than one of each.
    pub(super) fn take_paths(&mut self) -> Result<PathBuf, Diagnostic> {
        let is_manifest = |path: &PathBuf| {
            let ending = path.extension().unwrap_or_default();
            ending.eq_ignore_ascii_case("json") || ending.eq_ignore_ascii_case("jsonc")
        };
        let paths = std::mem::take(&mut self.paths).into_iter();
        let (mut manifests, data): (Vec<PathBuf>, Vec<PathBuf>) = paths.partition(is_manifest);
        let hint = "`sconce new-run DATA FILE.json`: what to train on, and the manifest to write";
        for path in data {
            if let Some(other) = self.data.replace(path) {
                let problem = format!("`{}` is a second path of data", other.display());
                return Err(Diagnostic::new(problem).hint(hint));
            }
        }
        let file = manifests.pop().unwrap_or_else(|| PathBuf::from("run.json"));
        match manifests.pop() {
            None => Ok(file),
            Some(other) => {
                let problem = format!("`{}` is a second manifest", other.display());
                Err(Diagnostic::new(problem).hint(hint))
            }
        }
    }
}

/// Kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TaskKind {
    /// Images to classify: a directory for each class, or the IDX files of MNIST.
    Image,
    /// A table: one line per sample, one target column.
    Table,
    /// Arrays: a NumPy file of inputs and one of targets, or a safetensors file with both.
    Array,
    /// A text, whose next bytes are predicted.
    Text,
    /// Digits generated from the seed: nothing to download.
    Digits,
}

/// Kind of a table's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TargetKind {
    /// Classes to tell apart.
    Classes,
    /// Numbers to estimate.
    Numbers,
}

/// Models to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ModelKind {
    /// A multi-layer perceptron.
    Mlp,
    /// A convolutional network for images.
    Convnet,
    /// A residual network for images.
    Resnet,
    /// A decoder-only transformer for text.
    Gpt,
}
