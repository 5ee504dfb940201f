//! When a device did what: spans of its own time, for traces.
//!
//! **Flow.** [`start`] begins a timeline for the calling thread. [`span`] marks work that is being queued: two events are
//! recorded on the stream, one before it and one after. Later [`take`] waits for the events and returns the spans. Without a
//! timeline a span costs next to nothing, and on the CPU there is none: work is done when it is asked for.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod cuda;

#[cfg(not(feature = "cuda"))]
use absent as backend;
use candle_core::{Device, Result};
#[cfg(feature = "cuda")]
use cuda as backend;
#[cfg(feature = "cuda")]
pub(super) use cuda::span_on;

/// Spans that are kept until they are taken; later ones are dropped.
pub const MOST_SPANS: usize = 1 << 16;

/// What a device was doing for some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSpan {
    /// What it was doing, such as `forward`.
    pub name: &'static str,
    /// Whether it copied from the host, beside its computations.
    pub is_copy: bool,
    /// Seconds from the start of the timeline to the begin.
    pub begin: f64,
    /// Seconds from the begin to the end.
    pub duration: f64,
}

/// Begins a timeline of a device's work for this thread, in place of an earlier one; `false` for the CPU. Waits for the
/// device first, so that its time starts now.
///
/// # Errors
///
/// If the device fails.
pub fn start(device: &Device) -> Result<bool> {
    backend::start(device)
}

/// Ends this thread's timeline, and drops the spans that were not taken.
pub fn stop() {
    backend::stop();
}

/// Marks the work that this thread queues until the result is dropped.
pub fn span(name: &'static str) -> Span {
    Span(backend::span(name))
}

/// Work being queued, see [`span`].
#[must_use = "the span ends when it is dropped"]
pub struct Span(#[allow(dead_code, reason = "dropped at the end of the span")] backend::Span);

/// Takes the spans of this thread's timeline, in the order in which they were queued; waits for the last of them.
///
/// # Errors
///
/// If the device fails.
pub fn take() -> Result<Vec<DeviceSpan>> {
    backend::take()
}
