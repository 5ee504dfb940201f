//! `sconce.gpu/1`: the GPU that a run computes on: its memory and load, and when it did what.

use std::ffi::c_void;

use super::Extension;
use crate::abi::{ErrorAbi, TextAbi};

/// Figures of a GPU. Frozen. Bytes, and fractions from 0 to 1.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuFiguresAbi {
    /// Memory of the run's tensors.
    pub used: u64,
    /// The most that they have had.
    pub peak: u64,
    /// Memory that the process has taken from the GPU, for tensors now and later.
    pub reserved: u64,
    /// Memory that nobody uses, of all processes.
    pub free: u64,
    /// Memory of the GPU.
    pub total: u64,
    /// Fraction of the time in which the GPU was at work, lately; NaN if unknown.
    pub utilization: f64,
}

/// Work of a GPU. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GpuSpanAbi {
    /// What it was: `copy`, `forward`, `loss`, `backward`, `update`, and others; as long as the process.
    pub name: TextAbi,
    /// Begin, in seconds since the run began, as `elapsed_seconds` of `sconce.run/1`.
    pub begin: f64,
    /// Seconds from begin to end.
    pub duration: f64,
    /// Number of the stream: 0 computes, 1 copies from the host.
    pub stream: u32,
}

/// Function table of `sconce.gpu/1`. Frozen. For a run on the CPU all return the status `NOT_FOUND`, or no spans.
#[repr(C)]
#[derive(Debug)]
pub struct GpuTable {
    /// Name of the GPU, as its driver gives it; as long as the run.
    pub name: unsafe extern "C" fn(context: *const c_void, name: *mut TextAbi) -> u32,
    /// Memory and load, now. Doesn't wait for the GPU.
    pub figures: unsafe extern "C" fn(context: *const c_void, figures: *mut GpuFiguresAbi) -> u32,
    /// Waits until the GPU has done all that was asked of it.
    pub synchronize: unsafe extern "C" fn(context: *const c_void, error: *mut ErrorAbi) -> u32,
    /// Starts (1) or ends (0) recording when the GPU does what. Waits for it when it starts.
    pub record:
        unsafe extern "C" fn(context: *const c_void, is_on: u32, error: *mut ErrorAbi) -> u32,
    /// Takes up to `capacity` recorded spans, in the order in which the work was queued; waits for the last. Returns their
    /// number; 0 once all have been taken.
    pub take: unsafe extern "C" fn(
        context: *const c_void,
        spans: *mut GpuSpanAbi,
        capacity: usize,
    ) -> usize,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for GpuTable {
    const ID: &'static str = "sconce.gpu/1";
}

impl GpuTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;

    /// Number of the stream that copies from the host.
    pub const COPIES: u32 = 1;
}
