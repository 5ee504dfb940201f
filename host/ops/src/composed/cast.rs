//! Tensors in other types: that of products, `f32` for what is sensitive to rounding, the wider of two.

use std::borrow::Cow;

use candle_core::{DType, Result, Tensor};

use crate::autograd::custom_gradient::custom_gradient;
use crate::choice::autocast::{autocast_dtype, is_narrow};
use crate::choice::has_kernels;

/// An input of a product in the type that is set; `f64` is left as it is, for checks.
pub(crate) fn operand(x: &Tensor) -> Result<Cow<'_, Tensor>> {
    match autocast_dtype() {
        Some(dtype) if x.dtype() != dtype && x.dtype() != DType::F64 => {
            Ok(Cow::Owned(cast(x, dtype)?))
        }
        _ => Ok(Cow::Borrowed(x)),
    }
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
    custom_gradient([x], y, |[x], gradient, _| {
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
