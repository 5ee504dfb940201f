//! Conversions between tensor storage and slices.
//!
//! **Parts**
//! - [`host_copy`]: the elements of a tensor on any device, copied here and back. [`device_address`]: where they are on it.
//! - `halves`: elements kept as `bf16`. `tables`: what was computed from sizes, kept on its device.

pub mod device_address;
pub(super) mod halves;
pub mod host_copy;
pub(super) mod tables;

use candle_core::{CpuStorage, Device, Layout, Result, Shape, Storage, Tensor, WithDType, bail};

pub(crate) use crate::kernels::math::{Number, number};

/// The CPU storage of a tensor; an error on any other device.
pub(crate) fn cpu(storage: &Storage) -> Result<&CpuStorage> {
    match storage {
        Storage::Cpu(storage) => Ok(storage),
        _ => bail!("operations of `sconce_ops` work on the CPU"),
    }
}

/// Elements as the storage of a tensor.
pub(crate) fn stored<T: Number>(numbers: Vec<T>) -> CpuStorage {
    T::to_cpu_storage_owned(numbers)
}

/// A tensor of elements, which are not copied.
pub(crate) fn new_tensor<T: WithDType>(numbers: Vec<T>, shape: &Shape) -> Result<Tensor> {
    Tensor::from_vec(numbers, shape.clone(), &Device::Cpu)
}

/// The elements of a contiguous tensor.
pub(crate) fn numbers<'a, T: WithDType>(
    storage: &'a CpuStorage,
    layout: &Layout,
) -> Result<&'a [T]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("an operation of `sconce_ops` was given a tensor that is not contiguous")
    };
    match T::cpu_storage_as_slice(storage)?.get(start..end) {
        Some(numbers) => Ok(numbers),
        None => bail!("a tensor reaches beyond its storage"),
    }
}

/// Runs `$body` with `$number` as the storage's element type, `f32` or `f64`.
macro_rules! for_floats {
    ($storage:expr, $number:ident => $body:expr) => {{
        use candle_core::DType;
        use candle_core::backend::BackendStorage;
        match $storage.dtype() {
            DType::F32 => {
                type $number = f32;
                $body
            }
            DType::F64 => {
                type $number = f64;
                $body
            }
            other => candle_core::bail!("this operation wants `f32` or `f64`, found {other:?}"),
        }
    }};
}
pub(crate) use for_floats;

/// A contiguous tensor, as operations need it: itself where it is contiguous.
pub(crate) fn ready(tensor: &Tensor) -> Result<Tensor> {
    tensor.contiguous()
}
