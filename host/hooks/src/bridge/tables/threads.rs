//! `sconce.threads/1`.

use std::ffi::c_void;

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{Part, ThreadsTable};

use sconce_ops::kernels::region;

pub(super) static TABLE: ThreadsTable = ThreadsTable { count, run };

unsafe extern "C" fn count(_context: *const c_void) -> u32 {
    u32::try_from(region::threads()).unwrap_or(u32::MAX)
}

unsafe extern "C" fn run(
    _context: *const c_void,
    parts: u32,
    part: unsafe extern "C" fn(data: *const c_void, index: u32),
    data: *const c_void,
) -> u32 {
    // SAFETY: the plugin promises that `part` may be called on any thread during this call, with
    // `data` alive.
    let part = unsafe { Part::new(part, data) };
    region::run(parts as usize, |index| {
        // SAFETY: a parallel region calls each index below `parts` exactly once, and ends before
        // this call does.
        unsafe { part.call(index as u32) };
    });
    Status::OK.0
}
