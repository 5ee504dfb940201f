//! Operations with gradients of our own: where candle's are wrong, missing or made of many passes
//! over the data. `docs/candle-gradients.md` lists which of candle's those are.
//!
//! All of them work in `f32` and `f64` and are gradient-checked.
#![allow(
    clippy::inline_always,
    reason = "what loops call must become part of them for each set of instructions"
)]

mod aside;
mod attention;
mod batch_norm;
mod constants;
mod conv;
mod cross_entropy;
mod elementwise;
mod embedding;
mod linear;
mod pool;
mod row_norm;
mod softmax;
mod tape;
mod unfold;

use candle_core::{
    CpuStorage, DType, Device, Layout, Result, Shape, Storage, Tensor, WithDType, bail,
};

pub use attention::attention;
pub use batch_norm::{ChannelStatistics, batch_norm};
pub use constants::{Held, hold};
pub(crate) use constants::{is_constant, pruned};
pub use conv::{After, conv2d, conv2d_then};
pub use cross_entropy::{CrossEntropyTerms, cross_entropy};
pub use elementwise::{Function, add, gelu, relu, silu};
pub use embedding::{add_positions, embedding};
pub use linear::{linear, linear_then};
pub use pool::{PoolKind, Windows, pool2d};
pub use row_norm::{layer_norm, rms_norm};
pub use softmax::softmax;
pub use tape::{Recording, backward, record, reshape};
pub(crate) use tape::{apply1, recorded};
pub use unfold::{Window, unfold2d};

use crate::kernels::all_finite;
pub(super) use crate::kernels::math::{Number, number};

/// The numbers of a tensor on the CPU.
pub(super) fn cpu(storage: &Storage) -> Result<&CpuStorage> {
    match storage {
        Storage::Cpu(storage) => Ok(storage),
        _ => bail!("operations of `sconce::nn::ops` work on the CPU"),
    }
}

/// Numbers as the storage of a tensor.
pub(super) fn stored<T: Number>(numbers: Vec<T>) -> CpuStorage {
    T::to_cpu_storage_owned(numbers)
}

/// A tensor of numbers, which are not copied.
pub(super) fn new_tensor<T: WithDType>(numbers: Vec<T>, shape: &Shape) -> Result<Tensor> {
    Tensor::from_vec(numbers, shape.clone(), &Device::Cpu)
}

/// The numbers of a contiguous tensor.
pub(super) fn numbers<'a, T: WithDType>(
    storage: &'a CpuStorage,
    layout: &Layout,
) -> Result<&'a [T]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("an operation of `sconce::nn::ops` was given a tensor that is not contiguous")
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
pub(super) use for_floats;

/// A tensor in an order that operations can read: itself where it is contiguous.
pub(super) fn ready(tensor: &Tensor) -> Result<Tensor> {
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

/// Numbers of the standard normal distribution for tests, always the same: with others in every run, once in a while
/// two of a square would be so close that rounding decides which is the larger.
#[cfg(test)]
pub(crate) fn normal_numbers(seed: u64, shape: impl Into<Shape>) -> Result<Tensor> {
    let shape = shape.into();
    let mut stream = crate::random::stream(seed, "tests of operations", 0, 0);
    let numbers = (0..shape.elem_count()).map(|_| stream.normal() as f32);
    Tensor::from_vec(
        numbers.collect::<Vec<_>>(),
        shape,
        &candle_core::Device::Cpu,
    )
}
