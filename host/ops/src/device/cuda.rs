//! Opens GPUs and reads their facts, through NVIDIA's driver.
#![expect(unsafe_code, reason = "calls of the driver")]

use std::ffi::c_int;

use candle_core::Device;
use candle_core::cuda_backend::CudaDevice;
use candle_core::cuda_backend::cudarc::driver::{DriverError, result, sys};

use super::memory::keep_freed;
pub(super) use super::memory::{memory, utilization};
use super::target::Target;
use super::{DeviceError, DeviceFacts, libraries};

type Attribute = sys::CUdevice_attribute;

pub(super) fn open(index: usize) -> Result<Device, DeviceError> {
    let target = Target::of_kernels();
    let count = initialize(&target)?;
    let absent = DeviceError::NoSuchDevice { index, count };
    let ordinal = match c_int::try_from(index) {
        Ok(ordinal) if index < count => ordinal,
        _ => return Err(absent),
    };
    let known = facts_of(ordinal).map_err(failed("ask for the GPU's facts"))?;
    target.check(&known)?;
    let device = CudaDevice::new_with_stream(index).map_err(|error| DeviceError::Driver {
        action: format!("open {}", known.name),
        reason: error.to_string(),
    })?;
    // SAFETY: candle works on one stream only. Who copies on another (`device::transfer`) orders the two by events of its own;
    // cudarc's would cost two events for each tensor.
    unsafe { device.disable_event_tracking() };
    // An older driver that can't is no reason not to run.
    keep_freed(ordinal).unwrap_or_default();
    Ok(Device::Cuda(device))
}

pub(super) fn list() -> Result<Vec<DeviceFacts>, DeviceError> {
    let count = initialize(&Target::of_kernels())?;
    (0..count)
        .filter_map(|index| c_int::try_from(index).ok())
        .map(|ordinal| facts_of(ordinal).map_err(failed("ask for a GPU's facts")))
        .collect()
}

pub(super) fn facts(device: &Device) -> Option<DeviceFacts> {
    let Device::Cuda(device) = device else {
        return None;
    };
    facts_of(c_int::try_from(device.cuda_stream().context().ordinal()).ok()?).ok()
}

/// Opens the libraries, starts the driver, and returns the number of GPUs.
fn initialize(target: &Target) -> Result<usize, DeviceError> {
    libraries::open(target.cuda.0)?;
    match result::init() {
        Ok(()) => {}
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Ok(0),
        Err(error) => return Err(failed("start the CUDA driver")(error)),
    }
    let driver = driver_version().map_err(failed("ask for the driver's version"))?;
    if driver < target.cuda {
        return Err(DeviceError::DriverTooOld {
            driver,
            needed: target.cuda,
        });
    }
    let count = result::device::get_count().map_err(failed("count the GPUs"))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

fn failed(action: &'static str) -> impl Fn(DriverError) -> DeviceError {
    move |error| DeviceError::Driver {
        action: action.to_owned(),
        reason: error.to_string(),
    }
}

fn facts_of(ordinal: c_int) -> Result<DeviceFacts, DriverError> {
    let device = result::device::get(ordinal)?;
    let driver = driver_version()?;
    // SAFETY: the driver gave this device, here and below.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) };
    let capability = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?.unsigned_abs(),
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?.unsigned_abs(),
    );
    // SAFETY: as above.
    let total = unsafe { result::device::total_mem(device)? };
    Ok(DeviceFacts {
        name: result::device::get_name(device)?,
        driver_version: format!("{}.{}", driver.0, driver.1),
        capability,
        memory_total: total as u64,
        memory_free: free_memory(device)? as u64,
    })
}

/// Memory of a device that nobody uses, in bytes.
fn free_memory(device: sys::CUdevice) -> Result<usize, DriverError> {
    let before = result::ctx::get_current()?;
    // SAFETY: the context is retained while it is current, and the one before it is restored.
    unsafe {
        let context = result::primary_ctx::retain(device)?;
        result::ctx::set_current(context)?;
        let free = result::mem_get_info().map(|(free, _total)| free);
        result::ctx::set_current(before.unwrap_or(std::ptr::null_mut()))?;
        result::primary_ctx::release(device)?;
        free
    }
}

/// CUDA version that the driver supports: major and minor number.
fn driver_version() -> Result<(u32, u32), DriverError> {
    let mut version = 0;
    // SAFETY: the function writes one integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version).result()? };
    let version = version.unsigned_abs();
    Ok((version / 1000, version % 1000 / 10))
}
