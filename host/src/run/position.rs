//! Position of a training.

use crate::checkpoint::{EpochStart, TrainingStage};

/// Position of a training, apart from the counters that hooks see.
///
/// The stages follow each other: `Start`, then for each epoch `Epoch`, `Validation`, `Cycle`; at `Cycle` the
/// epoch and its validation are counted and the next one may begin. A rollback restores everything from a
/// checkpoint and marks the position as jumped, until the loops in progress are left.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// The next step of the training, as stored in checkpoints.
    pub(super) stage: TrainingStage,
    /// Number of batches finished in the training epoch in progress.
    pub(super) trained: u64,
    /// Counters at the start of the training epoch in progress. None if `before_epoch` has not been called
    /// for it.
    pub(super) begun: Option<EpochStart>,
    /// Whether `before_epoch` is being called for an epoch that began before a resume or a rollback.
    pub(super) is_reopening: bool,
    /// Whether a rollback has reset all counters, so that the loops in progress are left.
    pub(super) jumped: bool,
}
