//! The check for what is not finite.

use candle_core::{DType, Result, Tensor};

use crate::composed;
use crate::kernels::all_finite;
use crate::storage::{cpu, for_floats, numbers, ready};

/// Whether no element of a tensor is NaN or infinite; always true for types other than floats.
pub fn is_finite(tensor: &Tensor) -> Result<bool> {
    if !tensor.dtype().is_float() {
        return Ok(true);
    }
    let tensor = match tensor.dtype() {
        DType::F32 | DType::F64 => ready(tensor)?,
        _ => ready(&tensor.to_dtype(DType::F32)?)?,
    };
    if composed::is_chosen(&tensor) {
        return composed::is_finite(&tensor);
    }
    let (guard, layout) = tensor.storage_and_layout();
    let storage = cpu(&guard)?;
    for_floats!(storage, T => Ok(all_finite(numbers::<T>(storage, layout)?)))
}
