//! An update of the parameters, and the batches whose gradients it accumulates.

use std::ops::Range;

use crate::gradients::Gradients;

/// The update in progress, or the last one.
#[derive(Debug)]
pub(super) struct Update {
    /// Sum of the gradients of its micro-batches so far.
    pub(super) accumulated: Option<Gradients>,
    /// Its batches within the training epoch in progress.
    pub(super) batches: Range<u64>,
    /// Whether the gradients have been audited, which happens in the first iteration.
    pub(super) is_audited: bool,
    /// Consistency of the state if the iteration failed now.
    pub(super) progress: UpdateProgress,
}

impl Update {
    /// The state before the first update.
    pub(super) fn none() -> Update {
        Update {
            accumulated: None,
            batches: 0..0,
            is_audited: false,
            progress: UpdateProgress::Torn,
        }
    }
}

/// State in which a failed iteration leaves the run; decides whether a checkpoint of it is useful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpdateProgress {
    /// Between two iterations: everything is as for a requested save.
    Between,
    /// Within an iteration that has not changed any parameter: hooks and metrics have seen a part of it.
    Batch,
    /// The parameters are stepped; only the counters are not updated yet.
    Stepped,
    /// Anything else: not suitable for resuming.
    Torn,
}
