//! What is remembered of losses: to detect divergence, and when they are read from a device.

use std::time::Instant;

/// Losses of the training.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::run) struct Losses {
    /// Iteration of the first training loss that was not finite, once this process has reported it.
    pub(in crate::run) bad: Option<u64>,
    /// The first finite training loss.
    pub(in crate::run) first: Option<f64>,
}

/// Whether batches are measured late.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::run) struct Deferral {
    /// Whether they are even on the CPU, for tests.
    pub(in crate::run) is_forced: bool,
    /// Whether the model is on a device, whose results take waiting for.
    pub(in crate::run) is_apart: bool,
    pub(in crate::run) is_on: bool,
    /// When an observer was last shown a loss.
    pub(in crate::run) viewed: Option<Instant>,
}
