//! Where a run's checkpoints go, and which there are.

use std::path::PathBuf;

use serde_json::Value;

use super::manner::Manner;
use super::writing::Writing;
use crate::checkpoint::Store;

/// What a run saves into and has saved.
pub(super) struct Saver {
    /// The run's name.
    pub(super) name: String,
    /// The resolved manifest.
    pub(super) manifest: Value,
    /// The run's output directory.
    pub(super) directory: Option<PathBuf>,
    /// Its checkpoints.
    pub(super) store: Option<Store>,
    /// The saves that wait for the end of a validation: tags, hooks and how.
    pub(super) waiting: Vec<(String, String, Manner)>,
    /// The checkpoint that is being written.
    pub(super) writing: Option<Writing>,
    /// The checkpoints saved so far.
    pub(super) checkpoints: Vec<PathBuf>,
    /// The last complete one.
    pub(super) last_checkpoint: Option<PathBuf>,
}

impl Saver {
    /// Of a run without a directory, which saves nothing.
    pub(super) fn nowhere() -> Saver {
        Saver {
            name: "run".to_owned(),
            manifest: Value::Null,
            directory: None,
            store: None,
            waiting: Vec::new(),
            writing: None,
            checkpoints: Vec::new(),
            last_checkpoint: None,
        }
    }
}
