//! Tensors' storage as slices, and slices as tensors.

use candle_core::{
    CpuStorage, DType, Device, Layout, Result, Shape, Storage, Tensor, WithDType, bail,
};

use crate::kernels::all_finite;
pub(crate) use crate::kernels::math::{Number, number};

/// The numbers of a tensor on the CPU.
pub(crate) fn cpu(storage: &Storage) -> Result<&CpuStorage> {
    match storage {
        Storage::Cpu(storage) => Ok(storage),
        _ => bail!("operations of `sconce_ops` work on the CPU"),
    }
}

/// Numbers as the storage of a tensor.
pub(crate) fn stored<T: Number>(numbers: Vec<T>) -> CpuStorage {
    T::to_cpu_storage_owned(numbers)
}

/// A tensor of numbers, which are not copied.
pub(crate) fn new_tensor<T: WithDType>(numbers: Vec<T>, shape: &Shape) -> Result<Tensor> {
    Tensor::from_vec(numbers, shape.clone(), &Device::Cpu)
}

/// The numbers of a contiguous tensor.
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

/// Runs `$body` with `$number` standing for the type of the storage's numbers.
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

/// A tensor in an order that operations can read: itself where it is contiguous.
pub(crate) fn ready(tensor: &Tensor) -> Result<Tensor> {
    tensor.contiguous()
}

/// Whether there is no NaN and no infinity in a tensor; what is no float has none.
pub fn is_finite(tensor: &Tensor) -> Result<bool> {
    if !tensor.dtype().is_float() {
        return Ok(true);
    }
    let tensor = match tensor.dtype() {
        DType::F32 | DType::F64 => ready(tensor)?,
        _ => ready(&tensor.to_dtype(DType::F32)?)?,
    };
    let (guard, layout) = tensor.storage_and_layout();
    let storage = cpu(&guard)?;
    for_floats!(storage, T => Ok(all_finite(numbers::<T>(storage, layout)?)))
}
