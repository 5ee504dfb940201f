//! `sconce.threads/1`.

use std::ffi::c_void;

use sconce_plugin_api::abi::Status;
use sconce_plugin_api::ext::ThreadsTable;

use crate::kernels::region;

pub(super) static TABLE: ThreadsTable = ThreadsTable { count, run };

unsafe extern "C" fn count(_context: *const c_void) -> u32 {
    u32::try_from(region::threads()).unwrap_or(u32::MAX)
}

/// The plugin's own data, handed through to its parts.
struct Data(*const c_void);

// SAFETY: the plugin promises that its parts may be called on any thread.
unsafe impl Sync for Data {}

impl Data {
    fn pointer(&self) -> *const c_void {
        self.0
    }
}

unsafe extern "C" fn run(
    _context: *const c_void,
    parts: u32,
    part: unsafe extern "C" fn(data: *const c_void, index: u32),
    data: *const c_void,
) -> u32 {
    let data = Data(data);
    region::run(parts as usize, |index| {
        // SAFETY: the plugin lends data and part for this call; an index is below `parts`.
        unsafe { part(data.pointer(), index as u32) };
    });
    Status::OK.0
}
