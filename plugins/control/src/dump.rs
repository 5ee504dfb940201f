//! Writes a batch to a safetensors file, so that a bad one can be inspected.

use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use sconce_plugin_api::tensor::{DType, Element, Tensor};
use sconce_plugin_api::{Result, write_atomically};

/// A copy of a tensor's content.
pub(crate) struct Copied {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// Copies a tensor; `None` if safetensors can't hold its element type.
pub(crate) fn copy(name: &str, tensor: &Tensor<'_>) -> Result<Option<Copied>> {
    fn bytes<T: Element, const N: usize>(
        tensor: &Tensor<'_>,
        to: impl Fn(T) -> [u8; N],
    ) -> Result<Vec<u8>> {
        Ok(tensor.elements::<T>()?.flat_map(to).collect())
    }
    let (dtype, bytes) = match tensor.dtype() {
        Some(DType::F32) => (Dtype::F32, bytes(tensor, f32::to_le_bytes)?),
        Some(DType::F64) => (Dtype::F64, bytes(tensor, f64::to_le_bytes)?),
        Some(DType::I64) => (Dtype::I64, bytes(tensor, i64::to_le_bytes)?),
        Some(DType::U32) => (Dtype::U32, bytes(tensor, u32::to_le_bytes)?),
        Some(DType::U8) => (Dtype::U8, bytes(tensor, u8::to_le_bytes)?),
        _ => return Ok(None),
    };
    let shape = tensor.shape().iter().map(|&size| size as usize).collect();
    Ok(Some(Copied {
        name: name.to_owned(),
        dtype,
        shape,
        bytes,
    }))
}

/// Writes the file atomically: under a temporary name in the same directory, then renamed.
pub(crate) fn write(path: &Path, tensors: &[Copied]) -> Result<()> {
    let views = tensors
        .iter()
        .map(|tensor| {
            let view = TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes)?;
            Ok((tensor.name.as_str(), view))
        })
        .collect::<Result<Vec<_>>>()?;
    let bytes = safetensors::serialize(views, None)?;
    write_atomically(path, bytes)
}
