//! State of a resumed run.

use std::path::PathBuf;

use crate::checkpoint::{Checkpoint, HookRecord};

/// The checkpoint from which a run resumes.
#[derive(Debug)]
pub struct Resume {
    /// Contents of the checkpoint.
    pub checkpoint: Checkpoint,
    /// Directory of the checkpoint.
    pub path: PathBuf,
    /// Whether the user has allowed the run to differ from the checkpoint's.
    pub is_changed: bool,
}

/// State of a resumption.
#[derive(Debug, Default)]
pub(in crate::run) struct Resumption {
    /// The checkpoint to resume from, until it has been restored.
    pub(in crate::run) from: Option<Resume>,
    /// Iteration at which the run was resumed.
    pub(in crate::run) at: Option<u64>,
    /// Whether the run may differ from the one that saved the checkpoint.
    pub(in crate::run) is_changed: bool,
    /// The hooks of earlier segments of the run that are no longer configured, with their states.
    pub(in crate::run) absent: Vec<HookRecord>,
}
