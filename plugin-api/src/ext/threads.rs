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
    /// the host's. Any answer but OK says that none has been called.
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

/// What a hook hands over to be called, on the side of who calls it.
#[derive(Debug)]
pub struct Part {
    call: unsafe extern "C" fn(data: *const c_void, index: u32),
    data: *const c_void,
}

// SAFETY: whoever makes one promises that it may be called on any thread.
unsafe impl Sync for Part {}

impl Part {
    /// # Safety
    ///
    /// `call(data, index)` may be called on any thread, several at a time, as long as this lives.
    pub unsafe fn new(
        call: unsafe extern "C" fn(data: *const c_void, index: u32),
        data: *const c_void,
    ) -> Part {
        Part { call, data }
    }

    /// Does the part of an index.
    ///
    /// # Safety
    ///
    /// The index is below the number of parts, and each is called once.
    pub unsafe fn call(&self, index: u32) {
        // SAFETY: the promises of whoever made it, and the caller's.
        unsafe { (self.call)(self.data, index) };
    }
}
