//! What is remembered of the losses, to notice a divergence.

/// The losses of this process's part of a training.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// The iteration of the first training loss that was not finite, which was reported.
    pub(super) bad: Option<u64>,
    /// The first finite training loss.
    pub(super) first: Option<f64>,
}
