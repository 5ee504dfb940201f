//! `sconce.device/1` in the child: its addresses are of no use in a process without the run's context on the device.

use std::ffi::c_void;

use sconce_plugin_api::abi::{ErrorAbi, Status};
use sconce_plugin_api::ext::{DeviceAbi, DeviceTable, TensorAbi};

use crate::bridge::refuse;

pub(super) static TABLE: DeviceTable = DeviceTable { facts, tensor };

unsafe extern "C" fn facts(_context: *const c_void, _device: *mut DeviceAbi) -> u32 {
    Status::UNSUPPORTED.0
}

unsafe extern "C" fn tensor(
    _context: *const c_void,
    _collection: u32,
    _index: usize,
    _writable: u32,
    _tensor: *mut TensorAbi,
    error: *mut ErrorAbi,
) -> u32 {
    let message = "a hook in a process of its own sees copies of tensors alone: addresses of a device's memory don't cross processes";
    // SAFETY: the error is borrowed for the call.
    unsafe { refuse(error, Status::UNSUPPORTED, message) }
}
