//! Arrays in NumPy's files.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use candle_core::{DType, Tensor};
use sconce_base::files;
use sconce_ops::device::copy_to_host;

use crate::diagnostic::Diagnostic;
use crate::session::StartFailure;

/// Writes an array of `f32` of as many rows as `samples` to a NumPy file. `rows` calls what it is given with batches of them, each
/// (rows, …).
pub(super) fn write_npy(
    path: &Path,
    samples: usize,
    rows: impl FnOnce(&mut dyn FnMut(&Tensor) -> Result<(), StartFailure>) -> Result<(), StartFailure>,
) -> Result<(), StartFailure> {
    let unwritten = |error: &io::Error| {
        let problem = format!("can't write `{}`: {error}", path.display());
        StartFailure::usage(vec![Diagnostic::new(problem)])
    };
    let mut failure = None;
    let written = files::write_atomically_by(path, |file| {
        let mut file = BufWriter::new(file);
        let mut has_begun = false;
        let mut write = |batch: &Tensor| {
            let batch = copy_to_host(batch)?.to_dtype(DType::F32)?;
            if !std::mem::replace(&mut has_begun, true) {
                let sizes = batch.dims().iter().skip(1);
                let shape: Vec<usize> = std::iter::once(samples).chain(sizes.copied()).collect();
                let header = file.write_all(&header(&shape));
                header.map_err(|error| unwritten(&error))?;
            }
            for value in batch.flatten_all()?.to_vec1::<f32>()? {
                let value = file.write_all(&value.to_le_bytes());
                value.map_err(|error| unwritten(&error))?;
            }
            Ok(())
        };
        if let Err(error) = rows(&mut write) {
            failure = Some(error);
            return Err(io::Error::other("nothing is kept"));
        }
        file.flush()
    });
    match (failure, written) {
        (Some(failure), _) => Err(failure),
        (None, written) => written.map_err(|error| unwritten(&error)),
    }
}

/// The first bytes of a NumPy file of version 1, up to the elements.
fn header(shape: &[usize]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(|size| format!("{size},")).collect();
    let shape = sizes.join(" ");
    let mut text =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}").into_bytes();
    // Ten bytes come before; all of it is a multiple of 64 and ends with a line feed.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.resize(length - 1, b' ');
    text.push(b'\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(text);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_that_of_numpy() {
        let bytes = header(&[20, 64]);
        assert_eq!(bytes.len(), 128);
        assert_eq!(bytes[..10], *b"\x93NUMPY\x01\x00\x76\x00");
        let text = String::from_utf8_lossy(&bytes[10..]);
        let expected = "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 64,), }";
        assert_eq!(text.trim_end(), expected);
        assert!(text.ends_with('\n'));
    }
}
