//! `sconce.run/1`: properties of the run that are computed on demand.

use std::ffi::c_void;

use super::Extension;

/// Function table of `sconce.run/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct RunTable {
    /// Seconds since the run began, on a monotonic clock, including the time before a resume.
    pub elapsed_seconds: unsafe extern "C" fn(context: *const c_void) -> f64,
    /// Estimated seconds until the end of training; negative if there is no basis for an estimate.
    pub remaining_seconds: unsafe extern "C" fn(context: *const c_void) -> f64,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for RunTable {
    const ID: &'static str = "sconce.run/1";
}

impl RunTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
