//! Passes over the pieces of gradients that ranks exchange: they are copied into and out of buffers, and added in a fixed order.
//!
//! [`AddedRange`] is the order of additions for all devices. The passes themselves are for GPUs, one launch each; on the CPU they are
//! loops of who has the memory at hand.

use candle_core::{DType, Device, Result, Shape, Tensor};

pub use crate::options::{AddedRange, Addition, Part};

/// Creates a tensor whose elements are undefined until a pass of this module has written them.
///
/// # Errors
///
/// If the device has no memory for it, or this build has no kernels for it.
pub fn undefined(shape: impl Into<Shape>, dtype: DType, device: &Device) -> Result<Tensor> {
    backend::undefined(shape.into(), dtype, device)
}

/// Copies parts of tensors on a GPU in one launch. All are read from one type and written to one: the same of `f32`, `f64` and
/// `bf16`, or from `f32` to `bf16`, rounded to the nearest with ties to even, or back.
///
/// # Errors
///
/// If a part is not within its tensors, the types are others, or the device fails.
pub fn copy(parts: &[Part<'_>]) -> Result<()> {
    backend::copy(parts)
}

/// Adds nodes on a GPU in one launch: `data` has the elements of one after the other, `length` of each, of `f32` or `f64`. The
/// sums have the bits of the CPU's.
///
/// # Errors
///
/// If a range or a node is not within the tensor, its type is another, or the device fails.
pub fn add(data: &Tensor, length: usize, ranges: &[AddedRange]) -> Result<()> {
    backend::add(data, length, ranges)
}

#[cfg(feature = "cuda")]
use crate::cuda::pieces as backend;

/// In builds without CUDA there is no device for these passes.
#[cfg(not(feature = "cuda"))]
mod backend {
    use candle_core::{DType, Device, Result, Shape, Tensor, bail};

    use super::{AddedRange, Part};

    pub(super) fn undefined(_shape: Shape, _dtype: DType, _device: &Device) -> Result<Tensor> {
        bail!("{ABSENT}")
    }

    pub(super) fn copy(_parts: &[Part<'_>]) -> Result<()> {
        bail!("{ABSENT}")
    }

    pub(super) fn add(_data: &Tensor, _length: usize, _ranges: &[AddedRange]) -> Result<()> {
        bail!("{ABSENT}")
    }

    const ABSENT: &str = "pieces of gradients are on a GPU, and this build has no CUDA";
}

#[cfg(all(test, feature = "cuda"))]
mod tests;
