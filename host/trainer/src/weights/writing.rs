//! Writing of safetensors files: the header, then each tensor from where it is. No second copy of all of them is made.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use candle_core::Tensor;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use safetensors::{SafeTensorError, View};
use sconce_ops::device::copy_to_host;

use crate::checkpoint::bytes_of;

/// Alignment in bytes of the tensors, which the header is filled up to.
const ALIGNMENT: usize = 8;

/// A file of named tensors that is to be written. `T` is what a tensor is written from.
pub(crate) struct Written<T> {
    header: Vec<u8>,
    /// In the file's order.
    tensors: Vec<T>,
}

/// A tensor that is to be written.
pub(crate) struct WrittenTensor<T> {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// What it is written from.
    pub(crate) from: T,
}

impl WrittenTensor<Tensor> {
    /// A tensor with what it is written from.
    pub(crate) fn of(name: &str, tensor: Tensor) -> WrittenTensor<Tensor> {
        WrittenTensor {
            name: name.to_owned(),
            dtype: tensor.dtype().into(),
            shape: tensor.dims().to_vec(),
            from: tensor,
        }
    }
}

impl<'a> Written<&'a Tensor> {
    /// Prepares a file of tensors that are in memory.
    pub(crate) fn new(
        named: impl Iterator<Item = (&'a str, &'a Tensor)>,
        metadata: Option<HashMap<String, String>>,
    ) -> Result<Self, SafeTensorError> {
        let tensors = named.map(|(name, tensor)| WrittenTensor {
            name: name.to_owned(),
            dtype: View::dtype(&tensor),
            shape: tensor.dims().to_vec(),
            from: tensor,
        });
        Written::of(tensors.collect(), metadata)
    }

    /// Writes it.
    pub(crate) fn write(&self, file: &mut impl Write) -> io::Result<()> {
        self.write_by(file, |tensor, file| write_tensor(tensor, file))
    }
}

/// Writes the elements of a tensor on any device.
pub(crate) fn write_tensor(tensor: &Tensor, file: &mut dyn Write) -> io::Result<()> {
    let on_host = tensor.contiguous().and_then(|tensor| copy_to_host(&tensor));
    let on_host = on_host.map_err(io::Error::other)?;
    file.write_all(&bytes_of(&on_host).data())
}

impl<T> Written<T> {
    /// Prepares a file of tensors, with these metadata. Its bytes are those of the crate `safetensors`.
    pub(crate) fn of(
        mut tensors: Vec<WrittenTensor<T>>,
        metadata: Option<HashMap<String, String>>,
    ) -> Result<Self, SafeTensorError> {
        // The types with the largest elements come first, so that all of them are aligned.
        tensors.sort_by(|left, right| {
            let by_type = right.dtype.cmp(&left.dtype);
            by_type.then(left.name.cmp(&right.name))
        });
        let mut end = 0_usize;
        let mut infos = Vec::with_capacity(tensors.len());
        for tensor in &tensors {
            let start = end;
            let bits = tensor
                .shape
                .iter()
                .try_fold(tensor.dtype.bitsize(), |bits, extent| {
                    bits.checked_mul(*extent)
                });
            let size = bits.ok_or(SafeTensorError::ValidationOverflow)? / 8;
            end = start
                .checked_add(size)
                .ok_or(SafeTensorError::ValidationOverflow)?;
            let info = TensorInfo {
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                data_offsets: (start, end),
            };
            infos.push((tensor.name.clone(), info));
        }
        let header = Metadata::new(metadata, infos)?;
        let mut header =
            serde_json::to_vec(&header).map_err(SafeTensorError::InvalidHeaderDeserialization)?;
        header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
        Ok(Written {
            header,
            tensors: tensors.into_iter().map(|tensor| tensor.from).collect(),
        })
    }

    /// Writes it; `elements` writes those of a tensor.
    pub(crate) fn write_by(
        &self,
        file: &mut impl Write,
        mut elements: impl FnMut(&T, &mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut file = BufWriter::new(file);
        file.write_all(&(self.header.len() as u64).to_le_bytes())?;
        file.write_all(&self.header)?;
        for tensor in &self.tensors {
            elements(tensor, &mut file)?;
        }
        file.flush()
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Result};

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_crate() -> Result<()> {
        let all = Tensor::arange(0_f32, 24.0, &Device::Cpu)?.reshape((4, 6))?;
        let tensors = [
            ("b.weight", all.clone()),
            ("a.weight", all.t()?),
            ("count", Tensor::new(7_i64, &Device::Cpu)?),
            ("half", all.to_dtype(DType::BF16)?),
            ("none", Tensor::zeros((0, 3), DType::F32, &Device::Cpu)?),
        ];
        for metadata in [
            None,
            Some(HashMap::from([("set".to_owned(), "ema".to_owned())])),
        ] {
            let named = || tensors.iter().map(|(name, tensor)| (*name, tensor));
            let written = Written::new(named(), metadata.clone()).expect("a header");
            let mut bytes = Vec::new();
            written.write(&mut bytes).expect("written");
            let expected = safetensors::serialize(named(), metadata).expect("bytes");
            assert!(bytes == expected);
        }
        Ok(())
    }
}
