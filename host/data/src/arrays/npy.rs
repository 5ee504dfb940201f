//! NumPy's `.npy` files, versions 1 to 3: six magic bytes, the version, a header that is a Python
//! dictionary, and the elements.
//!
//! The format is described in NumPy's enhancement proposal 1 (`numpy.lib.format`).

use std::path::Path;

use super::ArrayError;
use super::array::{Array, ArrayElements};
use super::header::{self, NpyHeader};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a complete file.
pub(super) fn read(file: &Path) -> Result<Array, crate::DataError> {
    let bytes = crate::file::contents(file)?;
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(not_npy(file, &bytes).into());
    };
    let truncated = |expected: usize| crate::DataError::Truncated {
        file: file.to_owned(),
        expected: expected as u64,
        found: bytes.len() as u64,
        gzipped: false,
    };
    let [version, _minor, lengths @ ..] = rest else {
        return Err(truncated(MAGIC.len() + 4));
    };
    // Version 1 has two bytes for the header's length, the later ones four.
    let (length, start) = match (version, lengths) {
        (1, [a, b, ..]) => (usize::from(u16::from_le_bytes([*a, *b])), MAGIC.len() + 4),
        (2 | 3, [a, b, c, d, ..]) => {
            let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
            (length, MAGIC.len() + 6)
        }
        (1..=3, _) => return Err(truncated(MAGIC.len() + 6)),
        (found, _) => {
            return Err(ArrayError::Version {
                file: file.to_owned(),
                found: *found,
            }
            .into());
        }
    };
    let end = start + length;
    let text = bytes.get(start..end).ok_or_else(|| truncated(end))?;
    let header = header::parse(&String::from_utf8_lossy(text), file)?;
    let content = bytes.get(end..).unwrap_or_default();
    let expected = header
        .shape
        .iter()
        .try_fold(header.element.size(), |product, &size| {
            product.checked_mul(size)
        })
        .and_then(|size| size.checked_add(end))
        .unwrap_or(usize::MAX);
    if bytes.len() < expected {
        return Err(truncated(expected));
    }
    if bytes.len() > expected {
        return Err(crate::DataError::Trailing {
            file: file.to_owned(),
            expected: expected as u64,
            gzipped: false,
        });
    }
    let elements = header.element.read(content, header.big_endian);
    let elements = if header.fortran_order {
        rows_first(&header, elements)
    } else {
        elements
    };
    let place = format!("`{}`", file.display());
    Ok(Array::new(place, header.shape, elements)?)
}

/// Reorders elements from Fortran order (first dimension contiguous) to C order.
fn rows_first(header: &NpyHeader, elements: ArrayElements) -> ArrayElements {
    match elements {
        ArrayElements::Floats(numbers) => ArrayElements::Floats(reorder(&header.shape, &numbers)),
        ArrayElements::Integers(numbers) => {
            ArrayElements::Integers(reorder(&header.shape, &numbers))
        }
    }
}

fn reorder<T: Copy>(shape: &[usize], elements: &[T]) -> Vec<T> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for &size in shape {
        strides.push(stride);
        stride *= size;
    }
    let mut place = vec![0; shape.len()];
    let mut offset = 0;
    let mut reordered = Vec::with_capacity(elements.len());
    for _ in 0..elements.len() {
        reordered.extend(elements.get(offset));
        // Advance to the next index in C order: the last dimension moves first.
        for ((at, &size), &stride) in place.iter_mut().zip(shape).zip(&strides).rev() {
            *at += 1;
            offset += stride;
            if *at < size {
                break;
            }
            offset -= stride * size;
            *at = 0;
        }
    }
    reordered
}

fn not_npy(file: &Path, bytes: &[u8]) -> ArrayError {
    let looks_like = match bytes {
        [] => "the file is empty",
        [b'P', b'K', ..] => "a zip archive; of a .npz file, unpack it or save its arrays alone",
        [0x80, ..] => "a Python pickle; save the array with `numpy.save`",
        [0x1f, 0x8b, ..] => "gzipped: unpack it",
        [0, 0, ..] => "an IDX file?",
        [b'<', ..] => "a web page or XML: an error page saved in its place?",
        _ if MAGIC.starts_with(bytes) => "the file is truncated",
        _ => "something else",
    };
    ArrayError::NotNpy {
        file: file.to_owned(),
        found: bytes.iter().take(6).copied().collect(),
        looks_like,
    }
}
