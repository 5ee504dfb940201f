//! Addresses of a device's memory and its stream, for code that launches work there itself.
//!
//! On the CPU addresses are those of host memory, and there is no stream.

use std::ffi::c_void;

use candle_core::{CpuStorage, Device, Layout, Result, Storage, Tensor, WithDType, bail};

/// A GPU as the driver's functions know it.
#[derive(Clone, Copy, Debug)]
pub struct DeviceHandles {
    /// Number of the GPU, as the driver counts.
    pub ordinal: usize,
    /// The stream in whose order candle works, a `CUstream`.
    pub stream: *mut c_void,
    /// The driver's context, a `CUcontext`.
    pub context: *mut c_void,
}

/// The handles of a device; none for the CPU.
pub fn handles(device: &Device) -> Option<DeviceHandles> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            let stream = device.cuda_stream();
            Some(DeviceHandles {
                ordinal: stream.context().ordinal(),
                stream: stream.cu_stream().cast(),
                context: stream.context().cu_ctx().cast(),
            })
        }
        _ => None,
    }
}

/// Address of a tensor's first element, on the device where it is; null if there is no element.
///
/// It is valid as long as the tensor's storage lives, and for work in the order of the device's stream. Who writes there must
/// know that nobody else uses the elements.
///
/// # Errors
///
/// If the elements are of a type without an address here.
pub fn address(tensor: &Tensor) -> Result<*mut c_void> {
    if tensor.elem_count() == 0 {
        return Ok(std::ptr::null_mut());
    }
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => in_host_memory(storage, layout),
        #[cfg(feature = "cuda")]
        Storage::Cuda(storage) => on_gpu(storage, layout),
        _ => bail!("tensors on this kind of device have no address here"),
    }
}

fn in_host_memory(storage: &CpuStorage, layout: &Layout) -> Result<*mut c_void> {
    fn of<T: WithDType>(storage: &CpuStorage, layout: &Layout) -> Result<*mut c_void> {
        let elements = T::cpu_storage_as_slice(storage)?;
        Ok(elements
            .as_ptr()
            .wrapping_add(layout.start_offset())
            .cast_mut()
            .cast())
    }
    match storage {
        CpuStorage::U8(_) => of::<u8>(storage, layout),
        CpuStorage::U32(_) => of::<u32>(storage, layout),
        CpuStorage::I64(_) => of::<i64>(storage, layout),
        CpuStorage::F32(_) => of::<f32>(storage, layout),
        CpuStorage::F64(_) => of::<f64>(storage, layout),
        _ => bail!("elements of this type have no address here"),
    }
}

#[cfg(feature = "cuda")]
fn on_gpu(storage: &candle_core::CudaStorage, layout: &Layout) -> Result<*mut c_void> {
    use candle_core::cuda_backend::CudaStorageSlice;
    use candle_core::cuda_backend::cudarc::driver::DevicePtr;

    let stream = storage.device.cuda_stream();
    macro_rules! first {
        ($slice:expr) => {
            $slice.device_ptr(&stream).0
        };
    }
    let (first, size) = match &storage.slice {
        CudaStorageSlice::U8(slice) => (first!(slice), 1),
        CudaStorageSlice::U32(slice) => (first!(slice), 4),
        CudaStorageSlice::I64(slice) => (first!(slice), 8),
        CudaStorageSlice::F16(slice) => (first!(slice), 2),
        CudaStorageSlice::BF16(slice) => (first!(slice), 2),
        CudaStorageSlice::F32(slice) => (first!(slice), 4),
        CudaStorageSlice::F64(slice) => (first!(slice), 8),
        _ => bail!("elements of this type have no address here"),
    };
    let offset = (layout.start_offset() * size) as u64;
    Ok(std::ptr::without_provenance_mut((first + offset) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_the_cpu_it_is_the_address_of_the_first_element() -> Result<()> {
        let all = Tensor::arange(0_f32, 6.0, &Device::Cpu)?;
        let part = all.narrow(0, 2, 3)?;
        assert_eq!(address(&part)?.addr(), address(&all)?.addr() + 8);
        let empty = all.narrow(0, 0, 0)?;
        assert!(address(&empty)?.is_null());
        assert!(handles(&Device::Cpu).is_none());
        Ok(())
    }
}
