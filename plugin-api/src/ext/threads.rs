//! `sconce.threads/1`: parallel work on the host's threads.

use std::ffi::c_void;

use super::extension;
use crate::abi::Refusal;

/// Parallel work on the host's threads.
#[extension("sconce.threads/1", local)]
pub trait Threads {
    /// Number of threads that the host computes on, including the training thread.
    fn count(&self) -> u32;

    /// Calls `part` with `data` and each index below `parts`; returns when all calls are done.
    ///
    /// The calls are made in parallel on any of these threads. `part` does not unwind and calls no function of the host. Any
    /// status but OK means that no part was called.
    ///
    /// # Safety
    ///
    /// `part` may be called on any thread, and concurrently, with `data` and each index.
    unsafe fn run(&self, parts: u32, part: PartAbi, data: *const c_void) -> Result<(), Refusal>;
}

/// A part of parallel work, called with the data that was given with it and the part's number.
pub type PartAbi = unsafe extern "C" fn(data: *const c_void, index: u32);

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
