//! The device that computes, and tensors where they are on it.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use super::Storage;
use crate::Result;
use crate::abi::Status;
use crate::error::outcome;
use crate::ext::{DeviceAbi, TensorAbi};
use crate::tensor::DType;

/// The device that computes.
#[derive(Clone, Copy)]
pub struct Device<'view> {
    abi: DeviceAbi,
    view: PhantomData<&'view ()>,
}

impl<'view> Device<'view> {
    /// Whether it is the CPU.
    pub fn is_cpu(&self) -> bool {
        self.abi.device_type == 1
    }

    /// Name of a GPU; empty for the CPU.
    pub fn name(&self) -> &'view str {
        // SAFETY: the host keeps the name for the run.
        unsafe { self.abi.name.read() }.unwrap_or_default()
    }

    /// Number of the device, as the driver counts.
    pub fn index(&self) -> i32 {
        self.abi.device_id
    }

    /// Compute capability of a GPU, major and minor number; zeros for the CPU.
    pub fn capability(&self) -> (u32, u32) {
        (self.abi.capability_major, self.abi.capability_minor)
    }

    /// The stream in whose order the host works, a `CUstream`; null on the CPU.
    pub fn stream(&self) -> *mut c_void {
        self.abi.stream
    }

    /// The driver's context, a `CUcontext`; null on the CPU.
    pub fn context(&self) -> *mut c_void {
        self.abi.context
    }
}

impl fmt::Debug for Device<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("name", &self.name())
            .field("index", &self.index())
            .field("capability", &self.capability())
            .finish_non_exhaustive()
    }
}

/// A tensor where it is, with its address on the device. Borrowed from the [`TaskView`](super::TaskView).
///
/// Using the address is unsafe and needs CUDA's own functions, except on the CPU, where it is host memory.
pub struct DeviceTensor<'view> {
    abi: TensorAbi,
    view: PhantomData<&'view ()>,
}

impl DeviceTensor<'_> {
    /// Address of the first element, on the device; null if there is no element.
    pub fn address(&self) -> *mut c_void {
        self.abi.data
    }

    /// Whether it was lent for writing.
    pub fn is_writable(&self) -> bool {
        self.abi.flags & TensorAbi::WRITABLE != 0
    }

    /// Whether it is in host memory.
    pub fn is_on_cpu(&self) -> bool {
        self.abi.device_type == 1
    }

    /// Bytes from the first element in memory to the last, both included.
    pub fn byte_length(&self) -> u64 {
        self.abi.byte_length
    }

    /// Type of the elements; `None` if this version of the API doesn't know it.
    pub fn dtype(&self) -> Option<DType> {
        DType::from_codes(self.abi.type_code, self.abi.type_bits)
    }

    /// Size of each dimension; empty for a scalar.
    pub fn shape(&self) -> &[i64] {
        self.numbers(self.abi.shape)
    }

    /// Stride of each dimension, in elements.
    pub fn strides(&self) -> &[i64] {
        self.numbers(self.abi.strides)
    }

    fn numbers(&self, numbers: *const i64) -> &[i64] {
        if numbers.is_null() || self.abi.dimensions == 0 {
            return &[];
        }
        // SAFETY: the host lends arrays with a number for each dimension, for as long as the tensor.
        unsafe { std::slice::from_raw_parts(numbers, self.abi.dimensions as usize) }
    }
}

impl fmt::Debug for DeviceTensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTensor")
            .field("address", &self.address())
            .field("shape", &self.shape())
            .field("dtype", &self.dtype())
            .finish_non_exhaustive()
    }
}

impl Storage<'_, '_> {
    /// The device that computes.
    ///
    /// # Errors
    ///
    /// If the host lacks `sconce.device/1`, or the hook has a process of its own.
    #[track_caller]
    pub fn device(&self) -> Result<Device<'_>> {
        let abi = outcome(self.task.host.device()?.facts())?;
        Ok(Device {
            abi,
            view: PhantomData,
        })
    }

    /// The tensor with this name where it is, without a copy.
    ///
    /// # Errors
    ///
    /// If there is none, the host lacks `sconce.device/1`, or the hook has a process of its own.
    #[track_caller]
    pub fn on_device(&self, name: &str) -> Result<DeviceTensor<'_>> {
        self.lend(name, false)
    }

    /// As [`on_device`](Storage::on_device), for writing, in the order of the [stream](Device::stream). Legal where its
    /// in-place modification is.
    #[track_caller]
    pub fn on_device_mut(&mut self, name: &str) -> Result<DeviceTensor<'_>> {
        self.lend(name, true)
    }

    #[track_caller]
    fn lend(&self, name: &str, writable: bool) -> Result<DeviceTensor<'_>> {
        let device = self.task.host.device()?;
        let index = self.task.index_of(self.collection, name)?;
        let abi = match device.tensor(self.collection as u32, index, writable) {
            Err(refusal) if refusal.status == Status::NOT_FOUND => {
                return Err(super::tensors::none(name));
            }
            answer => outcome(answer)?,
        };
        Ok(DeviceTensor {
            abi,
            view: PhantomData,
        })
    }
}
