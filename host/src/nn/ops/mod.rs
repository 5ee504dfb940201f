//! Operations with gradients of our own: where candle's are wrong, missing or made of many passes
//! over the data. `docs/candle-gradients.md` lists which of candle's those are.
//!
//! All of them work in `f32` and `f64` and are gradient-checked.

mod batch_norm;
mod gelu;
mod pool;
mod row_norm;
mod softmax;
mod unfold;

use candle_core::{CpuStorage, Layout, Result, Tensor, WithDType, bail};
use num_traits::Float;

pub use batch_norm::{ChannelStatistics, batch_norm};
pub use gelu::gelu;
pub use pool::{PoolKind, Windows, pool2d};
pub use row_norm::{layer_norm, rms_norm};
pub use softmax::softmax;
pub use unfold::{Window, unfold2d};

/// A float type that operations are written for.
pub(super) trait Number: WithDType + Float {
    const ZERO: Self;
}

impl Number for f32 {
    const ZERO: f32 = 0.0;
}

impl Number for f64 {
    const ZERO: f64 = 0.0;
}

/// A constant as one of the numbers of a tensor.
pub(super) fn number<T: Number>(value: f64) -> T {
    <T as WithDType>::from_f64(value)
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

/// A sum of a few thousand numbers, in 16 parts so that the compiler can add them side by side.
pub(super) fn sum<T: Number>(numbers: impl Iterator<Item = T>) -> T {
    let mut parts = [T::ZERO; 16];
    for (index, number) in numbers.enumerate() {
        parts[index % 16] += number;
    }
    parts.into_iter().fold(T::ZERO, |sum, part| sum + part)
}
