//! What to train.

use std::path::PathBuf;

use crate::data::ProvidedFile;

/// A run, as the options of `sconce run` describe it.
#[derive(Default)]
pub struct TrainingRequest {
    /// Path of the manifest; of one given as `text`, its name in messages, in the directory that relative paths start at.
    pub manifest: PathBuf,
    /// The manifest, if it is not a file.
    pub text: Option<String>,
    /// Assignments to the manifest's values, such as `train.epochs=3`.
    pub set: Vec<String>,
    /// Directories to search for plugins, before the others.
    pub plugins: Vec<PathBuf>,
    /// Output directory, instead of the manifest's.
    pub output: Option<PathBuf>,
    /// Checkpoint to resume from: a tag, a path, or `latest`.
    pub resume: Option<String>,
    /// Whether to resume even if the run has changed since.
    pub allow_changes: bool,
    /// Whether to remove the checkpoints of an earlier run in the output directory.
    pub overwrite: bool,
    /// Data in memory, with the absolute paths by which the manifest names them.
    pub data: Vec<(PathBuf, ProvidedFile)>,
}
