//! `sconce.metrics/1`: the metrics of every phase, read and published.

use std::ffi::c_void;

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// One metric of a phase. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MetricAbi {
    /// Its name; lives until the end of the run.
    pub name: TextAbi,
    /// Its value.
    pub value: f64,
}

/// The table of `sconce.metrics/1`. Frozen.
///
/// The metrics of the phase that is under way are means over the samples so far; those of another
/// phase are the values at the end of its last pass.
#[repr(C)]
#[derive(Debug)]
pub struct MetricsTable {
    /// How many metrics the phase of this number has.
    pub count: unsafe extern "C" fn(context: *const c_void, phase: u32) -> usize,
    /// The metric at `index`, in the order in which they first appeared.
    pub at: unsafe extern "C" fn(
        context: *const c_void,
        phase: u32,
        index: usize,
        metric: *mut MetricAbi,
    ) -> u32,
    /// The metric of this name.
    pub get: unsafe extern "C" fn(
        context: *const c_void,
        phase: u32,
        name: TextAbi,
        value: *mut f64,
    ) -> u32,
    /// Sets a metric of the current phase; visible to later hooks at the same point and after,
    /// until the phase's next pass begins.
    pub publish: unsafe extern "C" fn(
        context: *const c_void,
        name: TextAbi,
        value: f64,
        error: *mut ErrorAbi,
    ) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for MetricsTable {
    const ID: &'static str = "sconce.metrics/1";
}

impl MetricsTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
