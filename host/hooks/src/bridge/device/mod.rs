//! What of a run is on a device, for hooks in the host's memory.
//!
//! **Parts.** `host_copies`: what hooks see of tensors, and give back. `deferred`: losses and metrics that are still on the device, the latter by
//! `deferred_metrics`. `gpu`: the device, its memory and its times.

mod deferred;
mod deferred_metrics;
mod gpu;
mod host_copies;

pub use deferred::{DeferredBatch, DeferredMeasure, DeferredMeasures, ReadLoss};
pub use deferred_metrics::DeferredMetrics;
pub use gpu::RunGpu;
pub use host_copies::{CopyCosts, VARIABLE as HOST_COPIES, always_copies};
pub(super) use host_copies::{Held, HostCopies};
