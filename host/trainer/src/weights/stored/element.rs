//! Types of elements in files.

use candle_core::DType;
use safetensors::Dtype;

/// Whether elements of this type are read as numbers.
pub(super) fn is_number(dtype: Dtype) -> bool {
    matches!(
        dtype,
        Dtype::BOOL
            | Dtype::U8
            | Dtype::I8
            | Dtype::U16
            | Dtype::I16
            | Dtype::U32
            | Dtype::I32
            | Dtype::U64
            | Dtype::I64
            | Dtype::F16
            | Dtype::BF16
            | Dtype::F32
            | Dtype::F64
    )
}

/// The type of a tensor in memory with these elements; `f64` for those that candle has no type for.
pub(super) fn in_memory(dtype: Dtype) -> DType {
    match dtype {
        Dtype::BOOL => DType::U8,
        other => DType::try_from(other).unwrap_or(DType::F64),
    }
}

/// A type of PyTorch's elements under its name in safetensors files.
pub(super) fn of_torch(dtype: pytorch_reader::DType) -> Dtype {
    use pytorch_reader::DType as Torch;
    match dtype {
        Torch::F64 => Dtype::F64,
        Torch::F32 => Dtype::F32,
        Torch::F16 => Dtype::F16,
        Torch::BF16 => Dtype::BF16,
        Torch::I64 => Dtype::I64,
        Torch::I32 => Dtype::I32,
        Torch::I16 => Dtype::I16,
        Torch::I8 => Dtype::I8,
        Torch::U64 => Dtype::U64,
        Torch::U32 => Dtype::U32,
        Torch::U16 => Dtype::U16,
        Torch::U8 => Dtype::U8,
        Torch::Bool => Dtype::BOOL,
    }
}

/// Name of a type in messages, as the manifest writes it.
pub(crate) fn name_of(dtype: Dtype) -> String {
    format!("{dtype:?}").to_lowercase()
}
