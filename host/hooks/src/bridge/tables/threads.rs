//! `sconce.threads/1`.

use std::ffi::c_void;

use sconce_ops::kernels::region;
use sconce_plugin_api::ext::{Part, PartAbi, Refusal, Threads};

use crate::bridge::BridgeState;

impl Threads for BridgeState<'_> {
    fn count(&self) -> u32 {
        u32::try_from(region::threads()).unwrap_or(u32::MAX)
    }

    unsafe fn run(&self, parts: u32, part: PartAbi, data: *const c_void) -> Result<(), Refusal> {
        // SAFETY: the caller promises that `part` may be called on any thread during this call, with `data` alive.
        let part = unsafe { Part::new(part, data) };
        region::run(parts as usize, |index| {
            // SAFETY: a parallel region calls each index below `parts` exactly once, and ends before this call does.
            unsafe { part.call(index as u32) };
        });
        Ok(())
    }
}
