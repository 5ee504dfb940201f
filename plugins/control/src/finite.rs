//! Search for NaN and infinite elements in the host's tensors.

use sconce_plugin_api::Result;
use sconce_plugin_api::tensor::Tensor;

/// Whether a value is NaN, or infinite where `infinite` counts that as bad too.
pub(crate) fn is_bad(value: f64, infinite: bool) -> bool {
    value.is_nan() || infinite && value.is_infinite()
}

/// Whether a tensor has a bad element, whatever its type of float.
pub(crate) fn has_bad(tensor: &Tensor<'_>, infinite: bool) -> Result<bool> {
    if tensor.dtype().is_none() || tensor.first_non_finite()?.is_none() {
        return Ok(false);
    }
    Ok(infinite || tensor.values()?.any(f64::is_nan))
}
