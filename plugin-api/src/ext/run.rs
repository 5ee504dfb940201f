//! `sconce.run/1`: facts about the run that cost something to find out.

use std::ffi::c_void;

use super::Extension;

/// The table of `sconce.run/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct RunTable {
    /// Seconds since the run began, on a monotonic clock; time before a resume is counted in.
    pub elapsed_seconds: unsafe extern "C" fn(context: *const c_void) -> f64,
    /// An estimate of the seconds until the training's end, or a negative number where there is
    /// nothing to estimate from.
    pub remaining_seconds: unsafe extern "C" fn(context: *const c_void) -> f64,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for RunTable {
    const ID: &'static str = "sconce.run/1";
}

impl RunTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
