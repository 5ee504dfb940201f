//! `sconce.device/1`: the device that computes, and tensors where they are on it.
//!
//! [`TensorsTable`](super::TensorsTable) lends host memory wherever the run computes: a tensor on a GPU is copied. A hook that
//! launches work on the GPU itself asks this table instead, for addresses there and the stream in whose order the host works.

use std::ffi::c_void;

use super::{TensorAbi, extension};
use crate::abi::{Refusal, TextAbi};

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

/// The device that computes, and tensors where they are on it. A hook in a process of its own has no use for it, and is refused if it
/// requires it.
#[extension("sconce.device/1", local)]
pub trait Device {
    /// The device; from creation on.
    fn facts(&self) -> Result<DeviceAbi, Refusal>;

    /// As `at` of the tensors, with the address on the device where the tensor is, which its type and number say. What the
    /// host has been asked to compute before is in the stream before anything the hook adds to it; what the hook writes
    /// there, it writes in the stream's order, and has asked for when it returns.
    fn tensor(&self, collection: u32, index: usize, writable: bool) -> Result<TensorAbi, Refusal>;
}
