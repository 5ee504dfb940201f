//! Products in a narrower type than parameters: automatic mixed precision.
//!
//! While a type is [set](autocast), matrix multiplications, convolutions and attention take their inputs in that type
//! and return it, as PyTorch's `torch.autocast` does. Their parameters stay as they are: they are converted for each
//! product, and the gradient is converted back. Norms, softmax and losses are computed in `f32`, whatever their input
//! is; operations on two tensors of different types return the wider one.
//!
//! Source of the rules: "Autocast Op Reference" in PyTorch's documentation of `torch.amp`.

use std::cell::Cell;
use std::marker::PhantomData;

use candle_core::DType;

thread_local! {
    /// Type of products on this thread, if it is not that of their inputs.
    static PRODUCTS: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Products of this thread have another type until it is dropped.
#[derive(Debug)]
#[must_use = "products have the type as long as it lives"]
pub struct Autocast {
    outer: Option<DType>,
    /// Makes it `!Send`: it belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Computes products of this thread in `dtype`, or in the type of their inputs, until the result is dropped.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use sconce_ops as ops;
///
/// # fn main() -> candle_core::Result<()> {
/// let weight = Tensor::new(&[[1.0_f32, 0.001]], &Device::Cpu)?;
/// let x = Tensor::new(&[[256.0_f32, 1.0]], &Device::Cpu)?;
/// let products = ops::autocast(Some(DType::BF16));
/// let y = ops::linear(&x, &weight, None)?;
/// drop(products);
/// assert_eq!(y.dtype(), DType::BF16);
/// assert_eq!(y.to_dtype(DType::F32)?.to_vec2::<f32>()?, [[256.0]]);
/// # Ok(())
/// # }
/// ```
pub fn autocast(dtype: Option<DType>) -> Autocast {
    Autocast {
        outer: PRODUCTS.replace(dtype),
        thread: PhantomData,
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        PRODUCTS.set(self.outer);
    }
}

/// The type of products on this thread, if one is [set](autocast).
pub fn autocast_dtype() -> Option<DType> {
    PRODUCTS.get()
}

/// Whether a type is narrower than those that sums are computed in.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}
