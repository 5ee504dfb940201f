//! The table of the device: always the CPU.

use std::ffi::c_void;

use super::tensors;
use sconce_plugin_api::abi::{ErrorAbi, Status};
use sconce_plugin_api::ext::{DeviceAbi, DeviceTable, TensorAbi};

pub(super) static TABLE: DeviceTable = DeviceTable { facts, tensor };

unsafe extern "C" fn facts(_context: *const c_void, device: *mut DeviceAbi) -> u32 {
    // SAFETY: the hook lends the device for the call.
    match unsafe { device.as_mut() } {
        Some(device) => {
            *device = DeviceAbi::CPU;
            Status::OK.0
        }
        None => Status::INVALID.0,
    }
}

unsafe extern "C" fn tensor(
    context: *const c_void,
    collection: u32,
    index: usize,
    writable: u32,
    tensor: *mut TensorAbi,
    error: *mut ErrorAbi,
) -> u32 {
    // SAFETY: the arguments are those of this call; on the CPU a tensor is in host memory.
    unsafe { (tensors::TABLE.at)(context, collection, index, writable, tensor, error) }
}
