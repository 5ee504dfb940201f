//! Losses remembered to detect divergence.

/// Losses of the training.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Iteration of the first training loss that was not finite, once this process has reported it.
    pub(super) bad: Option<u64>,
    /// The first finite training loss.
    pub(super) first: Option<f64>,
}
