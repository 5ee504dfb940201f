//! `sconce.loss/1`: losses that are read on demand.
//!
//! On a GPU a batch's loss is computed some time after the host has asked for it, and whoever reads it waits for that. The
//! host therefore leaves the view's field empty and sets [`ViewAbi::LOSS_WAITS`](crate::abi::ViewAbi::LOSS_WAITS), for hooks
//! that have queried this table when they were created: by that they promise to read the loss through it. For all other
//! hooks the host waits before it calls them, as they can't know that the field may be empty.

use std::ffi::c_void;

use super::Extension;

/// Function table of `sconce.loss/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct LossTable {
    /// Loss of the current phase's last batch; waits for the device. Returns status 0, or `NOT_FOUND` before the first.
    pub current: unsafe extern "C" fn(context: *const c_void, loss: *mut f64) -> u32,
    /// Writes the losses of the last training batches to `losses`, at most `count`, the newest last; waits for the device.
    /// Returns their number. Only losses that hooks have seen as waiting are among them, of at least the last 1,024 batches.
    pub recent:
        unsafe extern "C" fn(context: *const c_void, losses: *mut f64, count: usize) -> usize,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for LossTable {
    const ID: &'static str = "sconce.loss/1";
}

impl LossTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
