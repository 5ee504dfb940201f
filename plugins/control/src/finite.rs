//! Search for NaN and infinite elements in the host's tensors.

use sconce_plugin_api::Result;
use sconce_plugin_api::tensor::{DType, Tensor};

/// Whether a value is NaN, or infinite where `infinite` counts that as bad too.
pub(crate) fn is_bad(value: f64, infinite: bool) -> bool {
    value.is_nan() || infinite && value.is_infinite()
}

/// Whether a tensor has a bad element. Zero times a NaN or infinity is NaN: most tensors need no
/// check of each element.
pub(crate) fn has_bad(tensor: &Tensor<'_>, infinite: bool) -> Result<bool> {
    match tensor.dtype() {
        Some(DType::F32) => {
            let mut elements = tensor.elements::<f32>()?;
            let is_bad = |value: f32| is_bad(f64::from(value), infinite);
            if let Ok(slice) = tensor.as_slice::<f32>() {
                let sum: f32 = slice.iter().map(|value| value * 0.0).sum();
                return Ok(sum.is_nan() && slice.iter().any(|value| is_bad(*value)));
            }
            Ok(elements.any(is_bad))
        }
        Some(DType::F64) => {
            let mut elements = tensor.elements::<f64>()?;
            Ok(elements.any(|value| is_bad(value, infinite)))
        }
        _ => Ok(false),
    }
}
