//! What is remembered of losses: to detect divergence, and when they are read from a device.

use std::time::Instant;

/// Losses of the training.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// Iteration of the first training loss that was not finite, once this process has reported it.
    pub(super) bad: Option<u64>,
    /// The first finite training loss.
    pub(super) first: Option<f64>,
}

/// Whether batches are measured late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    /// Whether they are even on the CPU, for tests.
    pub(super) is_forced: bool,
    /// Whether the model is on a device, whose results take waiting for.
    pub(super) is_apart: bool,
    pub(super) is_on: bool,
    /// When an observer was last shown a loss.
    pub(super) viewed: Option<Instant>,
}
