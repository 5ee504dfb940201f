//! The table for parallel work: always two threads, whatever the machine has.

use std::ffi::c_void;
use std::thread;

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::{Part, ThreadsTable};

pub(super) static TABLE: ThreadsTable = ThreadsTable { count, run };

unsafe extern "C" fn count(_context: *const c_void) -> u32 {
    2
}

unsafe extern "C" fn run(
    _context: *const c_void,
    parts: u32,
    part: unsafe extern "C" fn(data: *const c_void, index: u32),
    data: *const c_void,
) -> u32 {
    // SAFETY: the hook guarantees that its parts may be called on any thread during this call.
    let part = unsafe { Part::new(part, data) };
    // SAFETY: each index below `parts` is passed once.
    let each = |index: u32| unsafe { part.call(index) };
    thread::scope(|scope| {
        scope.spawn(|| (1..parts).step_by(2).for_each(each));
        (0..parts).step_by(2).for_each(each);
    });
    Status::OK.0
}
