//! Destination and list of a run's checkpoints.

use std::collections::VecDeque;
use std::path::PathBuf;

use sconce_plugin_api::ext::Asked;
use serde_json::Value;

use super::save_options::SaveOptions;
use super::writing::Writing;
use crate::checkpoint::{HistoryRecord, PreprocessingFiles, Store};
use crate::data::DataFile;

/// State of saving: where checkpoints go, and those saved or waiting.
pub(in crate::run) struct Saver {
    /// Name of the run.
    pub(in crate::run) name: String,
    /// The resolved manifest.
    pub(in crate::run) manifest: Value,
    /// Files that the run's data were read from.
    pub(in crate::run) files: Vec<DataFile>,
    /// What was learnt from the training data.
    pub(in crate::run) preprocessing: PreprocessingFiles,
    /// Output directory of the run.
    pub(in crate::run) directory: Option<PathBuf>,
    /// The directory of its checkpoints; none if the run saves none.
    pub(in crate::run) store: Option<Store>,
    /// Tag, hook and options of saves that wait for the end of a validation.
    pub(in crate::run) waiting: VecDeque<(String, String, SaveOptions)>,
    /// Requests being served, each with its hook's name: those of the innermost mount point first.
    pub(in crate::run) queue: VecDeque<(Asked, String)>,
    /// The checkpoint being written.
    pub(in crate::run) writing: Option<Writing>,
    /// What has happened to the hooks.
    pub(in crate::run) history: Vec<HistoryRecord>,
    /// The checkpoints saved so far.
    pub(in crate::run) checkpoints: Vec<PathBuf>,
    /// The last full one.
    pub(in crate::run) last_checkpoint: Option<PathBuf>,
}

impl Saver {
    /// For a run without a directory, which saves nothing.
    pub(in crate::run) fn nowhere() -> Saver {
        Saver {
            name: "run".to_owned(),
            manifest: Value::Null,
            files: Vec::new(),
            preprocessing: PreprocessingFiles::default(),
            directory: None,
            store: None,
            waiting: VecDeque::new(),
            queue: VecDeque::new(),
            writing: None,
            history: Vec::new(),
            checkpoints: Vec::new(),
            last_checkpoint: None,
        }
    }

    /// What hooks have requested up to now and has not been served: a checkpoint saved now contains it.
    pub(in crate::run) fn unserved(&self) -> Vec<(Asked, String)> {
        let waiting =
            (self.waiting.iter()).map(|(tag, hook, options)| (options.request(tag), hook.clone()));
        self.queue.iter().cloned().chain(waiting).collect()
    }
}
