//! Elements that are read from a file into the memory of a tensor that is there, by several threads and in pieces: nothing
//! is allocated but a piece for each thread, and that only if elements are converted.

use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;

use bytemuck::{Pod, cast_slice_mut};
use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Result, Storage, Tensor, bail};
use half::{bf16, f16};
use safetensors::Dtype;

use crate::kernels::region;

/// Reads bytes of a tensor, from one of them on.
pub(super) type ReadAt<'a> = &'a (dyn Fn(u64, &mut [u8]) -> io::Result<()> + Sync);

/// Number of elements that a thread reads before it takes the next ones.
const SHARE: usize = 1 << 20;

/// Number of elements that are converted at a time: they stay in the processor's cache.
const PIECE: usize = 1 << 13;

/// Whether [`fill`] writes elements of this type.
pub(super) fn is_filled(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// Reads all elements of a contiguous tensor of `f32` or `f64` in host memory.
pub(super) fn fill(into: &Tensor, stored: Dtype, read: ReadAt<'_>) -> Result<()> {
    into.inplace_op1(&Fill { stored, read })
}

/// Whether the stored elements, converted, are those of a contiguous tensor of `f32` or `f64` in host memory.
pub(super) fn is_equal(tensor: &Tensor, stored: Dtype, read: ReadAt<'_>) -> Result<bool> {
    let (storage, layout) = tensor.storage_and_layout();
    let range = layout.contiguous_offsets();
    match (&*storage, range) {
        (Storage::Cpu(CpuStorage::F32(all)), Some((start, end))) => {
            same(all.get(start..end).unwrap_or_default(), stored, read)
        }
        (Storage::Cpu(CpuStorage::F64(all)), Some((start, end))) => {
            same(all.get(start..end).unwrap_or_default(), stored, read)
        }
        _ => bail!("a tensor that is compared is not in host memory"),
    }
}

fn same<T: Number>(own: &[T], stored: Dtype, read: ReadAt<'_>) -> Result<bool> {
    let mut found = vec![T::zeroed(); PIECE.min(own.len())];
    let mut bytes = Vec::new();
    for (index, piece) in own.chunks(PIECE).enumerate() {
        let found = found.get_mut(..piece.len()).unwrap_or_default();
        read_piece(found, index * PIECE, stored, read, &mut bytes)?;
        if found != piece {
            return Ok(false);
        }
    }
    Ok(true)
}

struct Fill<'a> {
    stored: Dtype,
    read: ReadAt<'a>,
}

impl InplaceOp1 for Fill<'_> {
    fn name(&self) -> &'static str {
        "read-from-file"
    }

    fn cpu_fwd(&self, into: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("a tensor that is read into is not contiguous");
        };
        match into {
            CpuStorage::F32(all) => self.all(all.get_mut(start..end).unwrap_or_default()),
            CpuStorage::F64(all) => self.all(all.get_mut(start..end).unwrap_or_default()),
            _ => bail!("a tensor that is read into has another type"),
        }
    }
}

impl Fill<'_> {
    fn all<T: Number>(&self, into: &mut [T]) -> Result<()> {
        let shares: Vec<Mutex<&mut [T]>> = into.chunks_mut(SHARE).map(Mutex::new).collect();
        let failure = Mutex::new(None);
        let work = |bytes: &mut Vec<u8>, index: usize| {
            let Some(share) = shares.get(index) else {
                return;
            };
            let mut share = share.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = self.share(&mut share, index * SHARE, bytes) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        };
        region::distribute(region::threads(), shares.len(), Vec::new, work);
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn share<T: Number>(
        &self,
        into: &mut [T],
        first: usize,
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        if self.stored == T::STORED && cfg!(target_endian = "little") {
            return (self.read)((first * size_of::<T>()) as u64, cast_slice_mut(into));
        }
        for (index, piece) in into.chunks_mut(PIECE).enumerate() {
            read_piece(piece, first + index * PIECE, self.stored, self.read, bytes)?;
        }
        Ok(())
    }
}

/// Reads and converts elements, from the element `first` on; `bytes` is scratch memory.
fn read_piece<T: Number>(
    into: &mut [T],
    first: usize,
    stored: Dtype,
    read: ReadAt<'_>,
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    let size = stored.bitsize() / 8;
    bytes.resize(into.len() * size, 0);
    read((first * size) as u64, bytes)?;
    convert(bytes, stored, into)
}

/// A type of elements in memory.
trait Number: Pod + PartialEq + Send {
    /// The type of elements in a file that need no conversion.
    const STORED: Dtype;

    /// The nearest number.
    fn nearest(number: f64) -> Self;
}

impl Number for f32 {
    const STORED: Dtype = Dtype::F32;

    fn nearest(number: f64) -> f32 {
        number as f32
    }
}

impl Number for f64 {
    const STORED: Dtype = Dtype::F64;

    fn nearest(number: f64) -> f64 {
        number
    }
}

fn convert<T: Number>(bytes: &[u8], stored: Dtype, into: &mut [T]) -> io::Result<()> {
    match stored {
        Dtype::F64 => each(bytes, into, f64::from_le_bytes),
        Dtype::F32 => each(bytes, into, |bytes| f32::from_le_bytes(bytes).into()),
        Dtype::F16 => each(bytes, into, |bytes| f16::from_le_bytes(bytes).to_f64()),
        Dtype::BF16 => each(bytes, into, |bytes| bf16::from_le_bytes(bytes).to_f64()),
        Dtype::I64 => each(bytes, into, |bytes| i64::from_le_bytes(bytes) as f64),
        Dtype::U64 => each(bytes, into, |bytes| u64::from_le_bytes(bytes) as f64),
        Dtype::I32 => each(bytes, into, |bytes| i32::from_le_bytes(bytes).into()),
        Dtype::U32 => each(bytes, into, |bytes| u32::from_le_bytes(bytes).into()),
        Dtype::I16 => each(bytes, into, |bytes| i16::from_le_bytes(bytes).into()),
        Dtype::U16 => each(bytes, into, |bytes| u16::from_le_bytes(bytes).into()),
        Dtype::I8 => each(bytes, into, |bytes| i8::from_le_bytes(bytes).into()),
        Dtype::U8 | Dtype::BOOL => each(bytes, into, |[byte]| byte.into()),
        other => {
            let problem = format!("its elements are of type {other:?}, which is not read");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
    }
    Ok(())
}

fn each<const SIZE: usize, T: Number>(
    bytes: &[u8],
    into: &mut [T],
    number: impl Fn([u8; SIZE]) -> f64,
) {
    let (elements, _) = bytes.as_chunks::<SIZE>();
    for (own, element) in into.iter_mut().zip(elements) {
        *own = T::nearest(number(*element));
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    /// Elements of every type, of a tensor that several threads read.
    #[test]
    fn elements_of_every_type_become_the_tensors_own() -> Result<()> {
        let count = SHARE + PIECE + 3;
        let numbers = |index: usize| (index % 100) as u8;
        let stored: Vec<(Dtype, Vec<u8>)> = vec![
            (Dtype::U8, (0..count).map(numbers).collect()),
            (
                Dtype::I64,
                of(count, |n| i64::from(numbers(n)).to_le_bytes()),
            ),
            (
                Dtype::I32,
                of(count, |n| i32::from(numbers(n)).to_le_bytes()),
            ),
            (
                Dtype::F16,
                of(count, |n| f16::from(numbers(n)).to_le_bytes()),
            ),
            (
                Dtype::BF16,
                of(count, |n| bf16::from(numbers(n)).to_le_bytes()),
            ),
            (
                Dtype::F32,
                of(count, |n| f32::from(numbers(n)).to_le_bytes()),
            ),
            (
                Dtype::F64,
                of(count, |n| f64::from(numbers(n)).to_le_bytes()),
            ),
        ];
        for (dtype, bytes) in stored {
            let read = |from: u64, buffer: &mut [u8]| {
                let from = from as usize;
                let found = bytes.get(from..from + buffer.len());
                buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            };
            for own in [DType::F32, DType::F64] {
                let tensor = Tensor::zeros(count, own, &Device::Cpu)?;
                assert!(!is_equal(&tensor, dtype, &read)?, "{dtype:?}");
                fill(&tensor, dtype, &read)?;
                assert!(is_equal(&tensor, dtype, &read)?, "{dtype:?}");
                let found = tensor.to_dtype(DType::F64)?.to_vec1::<f64>()?;
                let wrong = (0..count)
                    .find(|index| (found[*index] - f64::from(numbers(*index))).abs() > 0.0);
                assert_eq!(wrong, None, "{dtype:?} to {own:?}");
            }
            let longer = Tensor::zeros(count + 1, DType::F32, &Device::Cpu)?;
            assert!(fill(&longer, dtype, &read).is_err(), "{dtype:?}");
        }
        Ok(())
    }

    fn of<const SIZE: usize>(count: usize, bytes: impl Fn(usize) -> [u8; SIZE]) -> Vec<u8> {
        (0..count).flat_map(bytes).collect()
    }
}
