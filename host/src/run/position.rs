//! Where a training is.

use crate::checkpoint::{EpochStart, Stage};

/// Where a training is, apart from the counters that hooks see.
///
/// The stages follow each other: `Start`, then for each epoch `Epoch`, `Validation`, `Cycle`; at `Cycle` the epoch
/// and its validation are counted and the next one may begin. A rollback sets everything to what a checkpoint says and
/// marks the position as jumped, until the loops in progress are left.
#[derive(Debug, Default)]
pub(super) struct Position {
    /// What the training does next, for checkpoints.
    pub(super) stage: Stage,
    /// The batches finished of the training epoch in progress.
    pub(super) trained: u64,
    /// Where the training epoch in progress began; none if `before_epoch` has not been called for it.
    pub(super) begun: Option<EpochStart>,
    /// Whether `before_epoch` is called for an epoch that was begun before a resume or a rollback.
    pub(super) is_reopening: bool,
    /// Whether a rollback has set all counters: the loops in progress are left.
    pub(super) jumped: bool,
}
