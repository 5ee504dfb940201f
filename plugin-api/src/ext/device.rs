//! `sconce.device/1`: the device that computes, and tensors where they are on it.
//!
//! [`TensorsTable`](super::TensorsTable) lends host memory wherever the run computes: a tensor on a GPU is copied. A hook that
//! launches work on the GPU itself asks this table instead, for addresses there and the stream in whose order the host works.

use std::ffi::c_void;

use super::{Extension, TensorAbi};
use crate::abi::{ErrorAbi, TextAbi};

/// The device that computes. Frozen.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DeviceAbi {
    /// Type in `DLPack`: 1 is the CPU, 2 an NVIDIA GPU.
    pub device_type: i32,
    /// Number of the device, as the driver counts.
    pub device_id: i32,
    /// Compute capability of a GPU, its major number; 0 of the CPU.
    pub capability_major: u32,
    /// Its minor number.
    pub capability_minor: u32,
    /// Name of a GPU; empty for the CPU. As long as the run.
    pub name: TextAbi,
    /// The stream in whose order the host works, a `CUstream`; null on the CPU.
    pub stream: *mut c_void,
    /// The driver's context, a `CUcontext`; null on the CPU.
    pub context: *mut c_void,
}

impl DeviceAbi {
    /// The CPU.
    pub const CPU: DeviceAbi = DeviceAbi {
        device_type: 1,
        device_id: 0,
        capability_major: 0,
        capability_minor: 0,
        name: TextAbi::EMPTY,
        stream: std::ptr::null_mut(),
        context: std::ptr::null_mut(),
    };
}

/// Function table of `sconce.device/1`. Frozen.
#[repr(C)]
#[derive(Debug)]
pub struct DeviceTable {
    /// The device; from creation on.
    pub facts: unsafe extern "C" fn(context: *const c_void, device: *mut DeviceAbi) -> u32,
    /// As `at` of [`TensorsTable`](super::TensorsTable), with the address on the device where the tensor is, which its type and
    /// number say. What the host has been asked to compute before is in the stream before anything the hook adds to it; what
    /// the hook writes there, it writes in the stream's order before it returns.
    pub tensor: unsafe extern "C" fn(
        context: *const c_void,
        collection: u32,
        index: usize,
        writable: u32,
        tensor: *mut TensorAbi,
        error: *mut ErrorAbi,
    ) -> u32,
}

// SAFETY: this type is the table frozen under `ID`.
unsafe impl Extension for DeviceTable {
    const ID: &'static str = "sconce.device/1";
}

impl DeviceTable {
    /// The extension's identifier.
    pub const ID: &'static str = <Self as Extension>::ID;
}
