//! Answers of a build without CUDA.

use candle_core::Device;

use super::{DeviceError, DeviceFacts, DeviceMemory};

pub(super) fn open(_index: usize) -> Result<Device, DeviceError> {
    Err(DeviceError::NotBuilt)
}

pub(super) fn list() -> Result<Vec<DeviceFacts>, DeviceError> {
    Err(DeviceError::NotBuilt)
}

pub(super) fn facts(_device: &Device) -> Option<DeviceFacts> {
    None
}

pub(super) fn memory(_device: &Device) -> Option<DeviceMemory> {
    None
}

pub(super) fn utilization(_device: &Device) -> Option<f64> {
    None
}
