//! NumPy's `.npy` files, versions 1 to 3: six magic bytes, the version, a header that is a Python
//! dictionary, and the elements.
//!
//! The format is described in NumPy's enhancement proposal 1 (`numpy.lib.format`).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::ArrayError;
use super::array::{Array, ArrayElements};
use super::header::{self, NpyHeader};
use super::kept::KeptElements;
use crate::error::unreadable;
use crate::files::{data_files, provided};
use crate::{ProvidedArray, ProvidedFile};
use sconce_base::regular_file::{open_regular, read_more};

pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Size in bytes of what precedes the header, in the longest form.
pub(super) const PREFIX: usize = MAGIC.len() + 6;

/// Size in bytes of the longest header that is read; NumPy itself trusts 10,000.
const LONGEST_HEADER: usize = 1 << 20;

/// Reads a complete file. Its header, which says how long the file is, comes first: of any other file no more is read.
pub(super) fn read(file: &Path) -> Result<Array, crate::DataError> {
    if let Some(ProvidedFile::Array(array)) = provided::at(file) {
        return of_memory(file, &array);
    }
    let failed = |error| unreadable(file, error);
    let mut opened = open_regular(file).map_err(failed)?;
    let metadata = opened.metadata().map_err(failed)?;
    // A pipe has no size: it is compared once it has been read.
    let size = metadata.is_file().then_some(metadata.len());
    let mut bytes = Vec::new();
    read_to(&mut opened, &mut bytes, PREFIX).map_err(failed)?;
    let (start, end) = header_range(file, &bytes, size)?;
    read_to(&mut opened, &mut bytes, end).map_err(failed)?;
    let text = bytes.get(start..end);
    let text = text.ok_or_else(|| truncated(file, end, size.unwrap_or(bytes.len() as u64)))?;
    let header = header::parse(&String::from_utf8_lossy(text), file)?;
    let mut sizes = header.shape.iter().copied();
    let expected = sizes
        .try_fold(header.element.size(), usize::checked_mul)
        .and_then(|size| size.checked_add(end))
        .unwrap_or(usize::MAX);
    if let Some(size) = size {
        check_size(file, expected, size)?;
    }
    read_more(opened, &mut bytes, u64::MAX).map_err(failed)?;
    data_files::note(file, &bytes);
    check_size(file, expected, bytes.len() as u64)?;
    let content = bytes.get(end..).unwrap_or_default();
    let elements = ArrayElements::read(header.element, content, header.big_endian);
    let elements = if header.fortran_order {
        rows_first(&header, elements)
    } else {
        elements
    };
    let place = format!("`{}`", file.display());
    Ok(Array::new(place, header.shape, elements)?)
}

/// Takes an array that the program has in memory.
fn of_memory(file: &Path, array: &ProvidedArray) -> Result<Array, crate::DataError> {
    let wrong =
        |problem: String| unreadable(file, io::Error::new(io::ErrorKind::InvalidData, problem));
    let (element, big_endian) = header::element(&array.element).ok_or_else(|| {
        wrong(format!(
            "elements of the type `{}` can't be used",
            array.element
        ))
    })?;
    let content = (*array.content).as_ref();
    let mut sizes = array.shape.iter().copied();
    if sizes.try_fold(element.size(), usize::checked_mul) != Some(content.len()) {
        let problem = format!(
            "{} bytes are not an array of shape {:?}",
            content.len(),
            array.shape
        );
        return Err(wrong(problem));
    }
    data_files::note(file, content);
    let elements = ArrayElements::Kept(KeptElements {
        element,
        big_endian,
        memory: array.content.clone(),
    });
    let place = format!("`{}`", file.display());
    Ok(Array::new(place, array.shape.clone(), elements)?)
}

/// Reads until there are `count` bytes, or the file ends.
fn read_to(file: &mut File, bytes: &mut Vec<u8>, count: usize) -> io::Result<()> {
    let missing = count.saturating_sub(bytes.len());
    file.take(missing as u64).read_to_end(bytes).map(drop)
}

/// Returns where the header begins and ends in a file of this size that begins with `bytes`.
pub(super) fn header_range(
    file: &Path,
    bytes: &[u8],
    size: Option<u64>,
) -> Result<(usize, usize), crate::DataError> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(not_npy(file, bytes).into());
    };
    let truncated = |expected| truncated(file, expected, size.unwrap_or(bytes.len() as u64));
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
    if size.is_some_and(|size| size < (start + length) as u64) {
        return Err(truncated(start + length));
    }
    if length > LONGEST_HEADER {
        return Err(ArrayError::Header {
            file: file.to_owned(),
            header: format!("{length} bytes"),
            problem: "it has more than 1 MiB",
        }
        .into());
    }
    Ok((start, start + length))
}

pub(super) fn check_size(file: &Path, expected: usize, found: u64) -> Result<(), crate::DataError> {
    if found < expected as u64 {
        return Err(truncated(file, expected, found));
    }
    if found > expected as u64 {
        return Err(crate::DataError::Trailing {
            file: file.to_owned(),
            expected: expected as u64,
            gzipped: false,
        });
    }
    Ok(())
}

fn truncated(file: &Path, expected: usize, found: u64) -> crate::DataError {
    crate::DataError::Truncated {
        file: file.to_owned(),
        expected: expected as u64,
        found,
        gzipped: false,
    }
}

/// Reorders elements from Fortran order (first dimension contiguous) to C order.
fn rows_first(header: &NpyHeader, elements: ArrayElements) -> ArrayElements {
    match elements {
        ArrayElements::Floats(numbers) => ArrayElements::Floats(reorder(&header.shape, &numbers)),
        ArrayElements::Integers(numbers) => {
            ArrayElements::Integers(reorder(&header.shape, &numbers))
        }
        // A file's elements are read.
        kept @ ArrayElements::Kept(_) => kept,
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
