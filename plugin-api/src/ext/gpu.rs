//! `sconce.gpu/1`: the GPU that a run computes on: its memory and load, and when it did what.

use super::extension;
use crate::abi::{Refusal, TextAbi};

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

/// Memory and load of the run's GPU, and when it did what. On the CPU all is not found, and there are no spans.
#[extension("sconce.gpu/1", local)]
pub trait Gpu {
    /// Name of the GPU, as its driver gives it; as long as the run.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Memory and load, now. Doesn't wait for the GPU.
    fn figures(&self) -> Option<GpuFiguresAbi> {
        None
    }

    /// Waits until the GPU has done all that was asked of it.
    fn synchronize(&self) -> Result<(), Refusal> {
        Err(Refusal::NOT_FOUND)
    }

    /// Begins or ends recording when the GPU does what. Waits for it when it begins.
    fn record(&self, is_on: bool) -> Result<(), Refusal> {
        let _ = is_on;
        Err(Refusal::NOT_FOUND)
    }

    /// Takes recorded spans, in the order in which the work was queued, as many as there is room for; waits for the last.
    /// Returns their number; 0 once all have been taken.
    fn take(&self, spans: &mut [GpuSpanAbi]) -> usize {
        let _ = spans;
        0
    }
}

impl GpuTable {
    /// Number of the stream that copies from the host.
    pub const COPIES: u32 = 1;
}
