//! An update of the parameters: the batches whose gradients it accumulates.

use std::ops::Range;

use crate::gradients::Gradients;

/// The update in progress, or the last one.
#[derive(Debug)]
pub(super) struct Update {
    /// The gradients of its micro-batches so far.
    pub(super) accumulated: Option<Gradients>,
    /// Its batches within the training epoch in progress.
    pub(super) batches: Range<u64>,
    /// Whether the gradients have been audited, as they are in the first iteration.
    pub(super) is_audited: bool,
    /// Where a failure would leave the iteration.
    pub(super) midst: Midst,
}

impl Update {
    /// Before the first update.
    pub(super) fn none() -> Update {
        Update {
            accumulated: None,
            batches: 0..0,
            is_audited: false,
            midst: Midst::Torn,
        }
    }
}

/// Where a failure has left an iteration, and so what a checkpoint of it would be worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Midst {
    /// Between two iterations: everything is as a save asked for would find it.
    Between,
    /// Within an iteration that has changed no parameter: hooks and metrics have seen a part of it.
    Batch,
    /// The parameters are stepped, the counters are not: only they are missing.
    Stepped,
    /// Anything else: nothing to go on from.
    Torn,
}
