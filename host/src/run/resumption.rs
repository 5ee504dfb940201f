//! What a run resumes from.

use std::path::PathBuf;

use crate::checkpoint::{Checkpoint, HookRecord};

/// What a run goes on from.
#[derive(Debug)]
pub struct Resume {
    /// The checkpoint, read.
    pub checkpoint: Checkpoint,
    /// Its directory.
    pub path: PathBuf,
    /// Whether the user has allowed the run to be another than the checkpoint's.
    pub is_changed: bool,
}

/// How a run was resumed.
#[derive(Debug, Default)]
pub(super) struct Resumption {
    /// What the run resumes from, until it has.
    pub(super) from: Option<Resume>,
    /// The iteration at which it was resumed.
    pub(super) at: Option<u64>,
    /// Whether the run differs from the one that the checkpoint was saved by.
    pub(super) is_changed: bool,
    /// The hooks of earlier segments of the run that are no longer configured, with their states.
    pub(super) absent: Vec<HookRecord>,
}
