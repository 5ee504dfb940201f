//! `sconce.threads/1`: parallel work on the host's threads.

use std::ffi::c_void;

use super::Extension;

/// Function table of `sconce.threads/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadsTable {
    /// Number of threads that the host computes on, including the training thread.
    pub count: unsafe extern "C" fn(context: *const c_void) -> u32,
    /// Calls `part(data, index)` once for each index below `parts`; returns when all calls are done.
    ///
    /// The calls are made in parallel on any of these threads. `part` does not unwind and calls no function
    /// of the host. Any status but OK means that no part was called.
    pub run: unsafe extern "C" fn(
        context: *const c_void,
        parts: u32,
        part: unsafe extern "C" fn(data: *const c_void, index: u32),
        data: *const c_void,
    ) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for ThreadsTable {
    const ID: &'static str = "sconce.threads/1";
}

impl ThreadsTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}

/// The callback that a hook passes to [`ThreadsTable::run`], as the host stores it.
#[derive(Debug)]
pub struct Part {
    call: unsafe extern "C" fn(data: *const c_void, index: u32),
    data: *const c_void,
}

// SAFETY: the contract of `Part::new` allows calls from any thread.
unsafe impl Sync for Part {}

impl Part {
    /// Wraps a callback and its data.
    ///
    /// # Safety
    ///
    /// `call(data, index)` may be called on any thread, and concurrently, as long as this value lives.
    pub unsafe fn new(
        call: unsafe extern "C" fn(data: *const c_void, index: u32),
        data: *const c_void,
    ) -> Part {
        Part { call, data }
    }

    /// Runs the part with this index.
    ///
    /// # Safety
    ///
    /// The index is below the number of parts, and each index is passed once.
    pub unsafe fn call(&self, index: u32) {
        // SAFETY: guaranteed by the creator (see `Part::new`) and by the caller.
        unsafe { (self.call)(self.data, index) };
    }
}
