//! A tensor's bytes for a file, read in place: saves one copy of everything written.

use std::borrow::Cow;
use std::ops::Deref;

use bytemuck::cast_slice;
use candle_core::{CpuStorage, Layout, Storage, Tensor};
use half::slice::HalfFloatSliceExt;
use safetensors::{Dtype, View};

/// A tensor whose elements can't change while this value lives.
pub(crate) struct TensorBytes<'a, S> {
    tensor: &'a Tensor,
    storage: S,
    layout: &'a Layout,
}

/// Borrows the bytes of a tensor, which is locked against changes in the meantime.
pub(crate) fn bytes_of(tensor: &Tensor) -> TensorBytes<'_, impl Deref<Target = Storage>> {
    let (storage, layout) = tensor.storage_and_layout();
    TensorBytes {
        tensor,
        storage,
        layout,
    }
}

impl<S: Deref<Target = Storage>> TensorBytes<'_, S> {
    /// The bytes if they are contiguous in memory, in the file's byte order.
    fn in_place(&self) -> Option<&[u8]> {
        let Storage::Cpu(storage) = &*self.storage else {
            return None;
        };
        let (start, end) = self.layout.contiguous_offsets()?;
        // Values in a file are little-endian.
        if cfg!(target_endian = "big") {
            return None;
        }
        match storage {
            CpuStorage::U8(numbers) => numbers.get(start..end),
            CpuStorage::U32(numbers) => numbers.get(start..end).map(cast_slice),
            CpuStorage::I64(numbers) => numbers.get(start..end).map(cast_slice),
            CpuStorage::BF16(numbers) => {
                let bits = numbers.get(start..end)?.reinterpret_cast();
                Some(cast_slice(bits))
            }
            CpuStorage::F32(numbers) => numbers.get(start..end).map(cast_slice),
            CpuStorage::F64(numbers) => numbers.get(start..end).map(cast_slice),
            _ => None,
        }
    }
}

impl<S: Deref<Target = Storage>> View for TensorBytes<'_, S> {
    fn dtype(&self) -> Dtype {
        View::dtype(&self.tensor)
    }

    fn shape(&self) -> &[usize] {
        self.tensor.dims()
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.in_place() {
            Some(bytes) => Cow::Borrowed(bytes),
            None => self.tensor.data(),
        }
    }

    fn data_len(&self) -> usize {
        self.tensor.data_len()
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Result};

    use super::*;

    #[test]
    fn bytes_are_those_that_candle_writes() -> Result<()> {
        let all = Tensor::arange(0_f32, 24.0, &Device::Cpu)?.reshape((4, 6))?;
        for dtype in [
            DType::U8,
            DType::U32,
            DType::I64,
            DType::BF16,
            DType::F32,
            DType::F64,
        ] {
            let all = all.to_dtype(dtype)?;
            // The whole tensor, a slice starting in the middle, and a transposed one.
            for tensor in [all.clone(), all.narrow(0, 1, 2)?, all.t()?] {
                let bytes = bytes_of(&tensor);
                assert_eq!(bytes.data(), tensor.data(), "{dtype:?}");
                assert_eq!(bytes.data_len(), bytes.data().len());
                assert_eq!(View::shape(&bytes), tensor.dims());
                assert_eq!(View::dtype(&bytes), View::dtype(&tensor));
                let is_borrowed = matches!(bytes.data(), Cow::Borrowed(_));
                assert_eq!(is_borrowed, tensor.is_contiguous(), "{dtype:?}");
            }
        }
        Ok(())
    }
}
