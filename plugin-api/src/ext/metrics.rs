//! `sconce.metrics/1`: reading and publishing metrics, for every phase.

use std::ffi::c_void;

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// One metric of a phase. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MetricAbi {
    /// Name; valid until the end of the run.
    pub name: TextAbi,
    /// Current value.
    pub value: f64,
}

/// Function table of `sconce.metrics/1`. Frozen.
///
/// Metrics of the phase in progress are means over the samples so far; those of another phase are the values
/// at the end of its last pass.
#[repr(C)]
#[derive(Debug)]
pub struct MetricsTable {
    /// Number of metrics of the phase with this number.
    pub count: unsafe extern "C" fn(context: *const c_void, phase: u32) -> usize,
    /// The metric at `index`, in order of first appearance.
    pub at: unsafe extern "C" fn(
        context: *const c_void,
        phase: u32,
        index: usize,
        metric: *mut MetricAbi,
    ) -> u32,
    /// The metric with this name.
    pub get: unsafe extern "C" fn(
        context: *const c_void,
        phase: u32,
        name: TextAbi,
        value: *mut f64,
    ) -> u32,
    /// Sets a metric of the current phase, visible until the phase's next pass begins.
    pub publish: unsafe extern "C" fn(
        context: *const c_void,
        name: TextAbi,
        value: f64,
        error: *mut ErrorAbi,
    ) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for MetricsTable {
    const ID: &'static str = "sconce.metrics/1";
}

impl MetricsTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
