//! Collected tensors as files: `.npy` and `.safetensors`.

use safetensors::{Dtype, View};
use sconce_plugin_api::prelude::*;
use std::borrow::Cow;

use super::collected::Collected;

/// Returns a `NumPy` file: version 1.0 of the format, one tensor in row-major order.
pub(crate) fn npy(collected: &Collected) -> Vec<u8> {
    let collected = collected.for_numpy();
    let kind = match collected.dtype() {
        DType::F64 => "<f8",
        DType::F16 => "<f2",
        DType::I64 => "<i8",
        DType::U32 => "<u4",
        DType::U8 => "|u1",
        _ => "<f4",
    };
    // A tuple of one element needs a trailing comma too.
    let sizes = collected.shape();
    let sizes: Vec<String> = sizes.iter().map(|size| format!("{size},")).collect();
    let shape = sizes.join(" ");
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The ten bytes before the header, the header and its newline together fill a multiple of 64 bytes.
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header.extend(std::iter::repeat_n(' ', length - 1 - header.len()));
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((length as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(collected.bytes());
    file
}

/// A tensor as the `safetensors` crate writes it.
struct Entry<'a> {
    collected: &'a Collected,
    shape: Vec<usize>,
}

impl View for &Entry<'_> {
    fn dtype(&self) -> Dtype {
        match self.collected.dtype() {
            DType::F64 => Dtype::F64,
            DType::F16 => Dtype::F16,
            DType::Bf16 => Dtype::BF16,
            DType::I64 => Dtype::I64,
            DType::U32 => Dtype::U32,
            DType::U8 => Dtype::U8,
            _ => Dtype::F32,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.collected.bytes())
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.collected.dtype().size()
    }
}

/// Returns a file with all tensors under their names.
#[track_caller]
pub(crate) fn safetensors(tensors: &[(&str, &Collected)]) -> Result<Vec<u8>> {
    let entries: Vec<(&str, Entry<'_>)> = (tensors.iter())
        .map(|(name, collected)| {
            let shape = collected.shape();
            (*name, Entry { collected, shape })
        })
        .collect();
    let views = entries.iter().map(|(name, entry)| (*name, entry));
    Ok(safetensors::serialize(views, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected() -> Collected {
        let mut place = None;
        for row in [[1.0, 2.0], [3.0, 4.5]] {
            Collected::add_numbers(&mut place, "x", &row).expect("a row");
        }
        place.expect("rows")
    }

    #[test]
    fn numpy_files_are_of_its_format() {
        let file = npy(&collected());
        assert_eq!(file.len(), 128 + 32);
        assert_eq!(&file[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let header = std::str::from_utf8(&file[10..128]).expect("text");
        assert!(header.starts_with("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2,), }"));
        assert!(header.ends_with(" \n"));
        assert_eq!(file[128 + 24..], 4.5_f64.to_le_bytes());
    }

    #[test]
    fn safetensors_are_read_by_their_crate() {
        let collected = collected();
        let file = safetensors(&[("b", &collected), ("a", &collected)]).expect("a file");
        let read = safetensors::SafeTensors::deserialize(&file).expect("read");
        assert_eq!(read.names().len(), 2);
        let tensor = read.tensor("a").expect("a tensor");
        assert_eq!((tensor.shape(), tensor.dtype()), (&[2, 2][..], Dtype::F64));
        assert_eq!(tensor.data(), collected.bytes());
    }
}
