//! An update of the parameters, whose gradients are accumulated over batches.

use crate::gradients::GradientTree;

/// The update in progress, or the last one.
#[derive(Debug, Default)]
pub(super) struct Update {
    /// Gradients of its micro-batches so far.
    pub(super) accumulated: GradientTree,
    /// Whether the gradients have been audited, which happens in the first iteration.
    pub(super) is_audited: bool,
    /// Whether the parameters were stepped during the backward pass of this update's batch.
    pub(super) is_stepped: bool,
}
