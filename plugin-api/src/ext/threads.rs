//! `sconce.threads/1`: work side by side, on the threads that the host computes on.

use std::ffi::c_void;

use super::Extension;

/// The table of `sconce.threads/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadsTable {
    /// How many threads the host computes on, the training thread among them.
    pub count: unsafe extern "C" fn(context: *const c_void) -> u32,
    /// Calls `part(data, index)` once for each index below `parts`, on any of these threads and several
    /// at a time, and comes back when all have been called. `part` does not unwind, and calls nothing of
    /// the host's.
    pub run: unsafe extern "C" fn(
        context: *const c_void,
        parts: u32,
        part: unsafe extern "C" fn(data: *const c_void, index: u32),
        data: *const c_void,
    ) -> u32,
}

// SAFETY: this is the table of that identifier.
unsafe impl Extension for ThreadsTable {
    const ID: &'static str = "sconce.threads/1";
}

impl ThreadsTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
