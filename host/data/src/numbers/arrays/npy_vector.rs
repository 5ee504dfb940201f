//! A one-dimensional NumPy file of unsigned integers, of which parts are read.

use super::element::ArrayElement;
use super::{ArrayError, header, npy};
use crate::DataError;
use crate::files::watched_file::WatchedFile;

/// Where a file's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NpyVector {
    /// Size of a number in bytes: 2 or 4.
    pub(crate) size: u64,
    pub(crate) big_endian: bool,
    /// Place of the first number in the file.
    pub(crate) start: u64,
    /// Number of numbers, all of which are in the file.
    pub(crate) count: u64,
}

impl NpyVector {
    /// Reads the header of a file; `None` if it doesn't begin as NumPy's do.
    ///
    /// # Errors
    ///
    /// If it is damaged, of another type or shape, or says another size than the file has.
    pub(crate) fn of(file: &WatchedFile) -> Result<Option<NpyVector>, DataError> {
        let (path, length) = (file.path(), file.length());
        let read = |size: usize| {
            let mut bytes = vec![0; length.min(size as u64) as usize];
            let read = file.read_at(0, &mut bytes);
            read.map_err(|problem| problem.of_file(path))?;
            Ok::<_, DataError>(bytes)
        };
        let prefix = read(npy::PREFIX)?;
        if !prefix.starts_with(npy::MAGIC) {
            return Ok(None);
        }
        let (start, end) = npy::header_range(path, &prefix, Some(length))?;
        let bytes = read(end)?;
        let text = bytes.get(start..end).unwrap_or_default();
        let header = header::parse(&String::from_utf8_lossy(text), path)?;
        let size = match header.element {
            ArrayElement::U16 => 2,
            ArrayElement::U32 => 4,
            _ => {
                return Err(ArrayError::ElementType {
                    place: format!("`{}`", path.display()),
                    found: "another than u16 and u32, those of tokens".to_owned(),
                }
                .into());
            }
        };
        let [count] = *header.shape.as_slice() else {
            return Err(ArrayError::Rank {
                place: format!("`{}`", path.display()),
                role: "tokens",
                wanted: "(tokens)",
                found: header.shape,
            }
            .into());
        };
        let expected = count
            .checked_mul(size)
            .and_then(|size| size.checked_add(end));
        npy::check_size(path, expected.unwrap_or(usize::MAX), length)?;
        Ok(Some(NpyVector {
            size: size as u64,
            big_endian: header.big_endian,
            start: end as u64,
            count: count as u64,
        }))
    }

    /// Place in the file of the number with this index.
    pub(crate) fn offset(&self, index: u64) -> u64 {
        self.start.saturating_add(index.saturating_mul(self.size))
    }
}
