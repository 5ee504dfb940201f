//! What of a run is on a device, for hooks in the host's memory.
//!
//! **Parts.** `host_copies`: what hooks see of tensors, and give back. `deferred`: losses and metrics that are still on the device, the latter by
//! `deferred_metrics`. `gpu`: the device, its memory and its times.

mod deferred;
mod deferred_metrics;
mod gpu;
mod host_copies;

use std::cell::OnceCell;

use sconce_ops::device::DeviceFacts;

pub use deferred::{DeferredBatch, DeferredMeasure, DeferredMeasures, ReadLoss};
pub use deferred_metrics::DeferredMetrics;
pub use gpu::RunGpu;
pub use host_copies::{CopyCosts, VARIABLE as HOST_COPIES, always_copies};
pub(super) use host_copies::{Held, HostCopies};

/// What of a run is on a device.
#[derive(Default)]
pub struct OnDevice {
    /// Losses and metrics of batches that are still there.
    pub deferred: DeferredMeasures,
    /// The GPU that the run computes on, if any.
    pub gpu: RunGpu,
    /// What is known of the device, once a hook has asked.
    pub(super) facts: OnceCell<Option<DeviceFacts>>,
    /// Copies of tensors there, which hooks see.
    pub(super) copies: HostCopies,
}
