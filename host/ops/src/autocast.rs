//! Products in a narrower type than parameters: automatic mixed precision.
//!
//! While a type is [set](autocast), matrix multiplications, convolutions and attention take their inputs in that type
//! and return it, as PyTorch's `torch.autocast` does. Their parameters stay as they are: they are converted for each
//! product, and the gradient is converted back. Norms, softmax and losses are computed in `f32`, whatever their input
//! is; operations on two tensors of different types return the wider one.
//!
//! Source of the rules: "Autocast Op Reference" in PyTorch's documentation of `torch.amp`.

use std::borrow::Cow;
use std::cell::Cell;
use std::marker::PhantomData;

use candle_core::{DType, Result, Tensor};

use crate::composed::{given1, has_kernels};

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

/// An input of a product in the type that is set; `f64` is left as it is, for checks.
pub(crate) fn operand(x: &Tensor) -> Result<Cow<'_, Tensor>> {
    match PRODUCTS.get() {
        Some(dtype) if x.dtype() != dtype && x.dtype() != DType::F64 => {
            Ok(Cow::Owned(cast(x, dtype)?))
        }
        _ => Ok(Cow::Borrowed(x)),
    }
}

/// Whether a type is narrower than those that sums are computed in.
pub(crate) fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// A tensor in `f32`, or wider, for what is sensitive to rounding.
pub(crate) fn widened(x: &Tensor) -> Result<Cow<'_, Tensor>> {
    if is_narrow(x.dtype()) {
        Ok(Cow::Owned(cast(x, DType::F32)?))
    } else {
        Ok(Cow::Borrowed(x))
    }
}

/// A tensor in another type, as by candle's `to_dtype`, but recorded where there are kernels for it.
pub fn cast(x: &Tensor, dtype: DType) -> Result<Tensor> {
    if x.dtype() == dtype || !has_kernels(x) {
        return x.to_dtype(dtype);
    }
    let y = x.detach().to_dtype(dtype)?;
    given1(x, y, |[x], gradient, _| {
        Ok([Some(gradient.to_dtype(x.dtype())?)])
    })
}

/// Two tensors in the wider of their types.
pub(crate) fn promoted<'a>(
    a: &'a Tensor,
    b: &'a Tensor,
) -> Result<(Cow<'a, Tensor>, Cow<'a, Tensor>)> {
    if a.dtype() == b.dtype() {
        return Ok((Cow::Borrowed(a), Cow::Borrowed(b)));
    }
    Ok((widened(a)?, widened(b)?))
}
