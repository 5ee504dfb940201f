//! Devices that tensors are on: the CPU, or an NVIDIA GPU where the feature `cuda` is built.
//!
//! **Parts**
//! - `request`: which device a manifest asks for ([`DeviceRequest`]).
//! - `error`: why it can't be had ([`DeviceError`]), for people.
//! - `fetch`: reading results, and what tensors were copied from.
//! - [`transfer`]: copies to a device while it computes.
//! - [`nccl`]: moves bytes between the GPUs of several processes.
//! - [`timeline`]: when a device did what.
//! - `memory`: a GPU's memory and load.
//! - `target`: what candle's kernels were compiled for.
//! - `cuda`: opens GPUs and reads their facts; with it `libraries`, which opens NVIDIA's libraries at run time, and
//!   `trampolines`, through which candle's calls reach them. `absent` answers in its stead in builds without the feature.
//!
//! **Flow.** [`open`] opens NVIDIA's libraries (once per process), asks the driver for the device, and compares what it can do
//! with what the kernels were compiled for; only then candle opens it. Nothing of NVIDIA is needed to start the program.

#[cfg(not(feature = "cuda"))]
mod absent;
#[cfg(feature = "cuda")]
mod cuda;
#[cfg(test)]
#[cfg(feature = "cuda")]
mod emulated;
mod error;
mod fetch;
#[cfg(feature = "cuda")]
mod libraries;
#[cfg(feature = "cuda")]
mod memory;
pub mod nccl;
mod request;
#[cfg(feature = "cuda")]
mod target;
#[cfg(test)]
mod tests;
pub mod timeline;
#[cfg(feature = "cuda")]
mod trampolines;
pub mod transfer;

#[cfg(not(feature = "cuda"))]
use absent as backend;
#[cfg(feature = "cuda")]
use cuda as backend;

use candle_core::{Device, Result, Tensor};

pub use error::DeviceError;
pub use fetch::{fetch, fetches, remember_origin, waited};
pub use request::{DeviceRequest, DeviceRequestError};

/// Environment variable that names a directory where NVIDIA's libraries are looked for first.
pub const LIBRARIES_VARIABLE: &str = "SCONCE_CUDA_LIBRARIES";

/// Environment variable that names the device which tests of operations and networks compute on; without it, the CPU.
pub const TESTS_VARIABLE: &str = "SCONCE_TEST_DEVICE";

/// What is known of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Name, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// CUDA version that the driver supports, such as `13.2`.
    pub driver_version: String,
    /// Compute capability: major and minor number.
    pub capability: (u32, u32),
    /// Memory of the device, in bytes.
    pub memory_total: u64,
    /// Memory of the device that nobody uses at the moment, in bytes.
    pub memory_free: u64,
}

/// Memory of a GPU, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// What this process's tensors have.
    pub used: u64,
    /// The most that they ever had.
    pub peak: u64,
    /// What this process has taken from the device, for these tensors and for later ones.
    pub reserved: u64,
    /// What nobody uses, of all processes.
    pub free: u64,
    /// What there is.
    pub total: u64,
}

/// Memory of a GPU as it is now; `None` for the CPU. Doesn't wait for the device: allocations are in the order of its work,
/// as they are asked for.
pub fn memory(device: &Device) -> Option<DeviceMemory> {
    backend::memory(device)
}

/// Fraction of the time, from 0 to 1, in which a GPU was at work, during its driver's last sampling period (about a second or
/// less); `None` for the CPU, and where NVIDIA's library of figures (NVML) isn't installed.
pub fn utilization(device: &Device) -> Option<f64> {
    backend::utilization(device)
}

/// Opens a device.
///
/// [`DeviceRequest::Auto`] gives the first GPU that can be used, and the CPU where there is none.
/// Each call opens a device of its own, with its own stream: tensors of two calls can't be used together.
pub fn open(request: DeviceRequest) -> std::result::Result<Device, DeviceError> {
    match request {
        DeviceRequest::Cpu => Ok(Device::Cpu),
        DeviceRequest::Cuda(index) => backend::open(index),
        DeviceRequest::Auto => Ok(backend::open(0).unwrap_or(Device::Cpu)),
    }
}

/// Facts of all GPUs, by index. An empty list if the driver sees none.
pub fn list() -> std::result::Result<Vec<DeviceFacts>, DeviceError> {
    backend::list()
}

/// Facts of a device; `None` for the CPU, and if the driver doesn't answer.
pub fn facts(device: &Device) -> Option<DeviceFacts> {
    backend::facts(device)
}

/// Waits until the device has done all that was asked of it. Returns at once for the CPU.
pub fn synchronize(device: &Device) -> Result<()> {
    if device.is_cpu() {
        return Ok(());
    }
    fetch::waiting(|| device.synchronize())
}

/// Whether an operation failed because the device's memory is exhausted.
pub fn is_out_of_memory(error: &candle_core::Error) -> bool {
    // Candle wraps errors several times (backtraces, contexts), cuBLAS's and the driver's in types of their own: their texts
    // have the codes' names in all cases.
    says_out_of_memory(&error.to_string())
}

/// Whether the text of an error is of an operation that failed because the device's memory is exhausted.
pub fn says_out_of_memory(text: &str) -> bool {
    ["CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED"]
        .iter()
        .any(|code| text.contains(code))
}

/// Copies a tensor to the CPU, detached from the graph; a tensor that is there is returned as it is.
pub fn copy_to_host(tensor: &Tensor) -> Result<Tensor> {
    if tensor.device().is_cpu() {
        return Ok(tensor.clone());
    }
    if let Some(origin) = fetch::origin_of(tensor) {
        return Ok(origin);
    }
    fetch::waiting(|| tensor.detach().to_device(&Device::Cpu))
}

/// Device that tests compute on, as [`TESTS_VARIABLE`] says.
///
/// # Panics
///
/// If there is no such device: a test without the device it is about has failed.
#[doc(hidden)]
#[expect(clippy::panic, reason = "it is called by tests")]
pub fn for_tests() -> Device {
    static DEVICE: std::sync::OnceLock<Device> = std::sync::OnceLock::new();
    let opened = || {
        let text = std::env::var(TESTS_VARIABLE).unwrap_or_else(|_| "cpu".to_owned());
        let request = text.parse::<DeviceRequest>();
        let opened = request.map(|request| open(request).map_err(|error| error.to_string()));
        match opened {
            Ok(Ok(device)) => device,
            Ok(Err(reason)) => panic!("{TESTS_VARIABLE}={text}: {reason}"),
            Err(reason) => panic!("{TESTS_VARIABLE}: {reason}"),
        }
    };
    DEVICE.get_or_init(opened).clone()
}
