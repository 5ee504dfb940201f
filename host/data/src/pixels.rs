//! Bytes of many samples: in memory, or in a file that is too large for memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::DataError;

/// Size above which bytes are left in their file: 1 GiB.
pub(super) const MOST_IN_MEMORY: u64 = 1 << 30;

/// Bytes of many samples, one after the other.
#[derive(Clone, Debug)]
pub(super) enum Pixels {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file, read when a sample is requested.
    File(Arc<FilePart>),
}

/// A range of bytes in a file.
#[derive(Debug)]
pub(super) struct FilePart {
    file: Mutex<File>,
    path: PathBuf,
    start: u64,
    length: u64,
}

impl Pixels {
    /// Refers to `length` bytes of an opened file, from `start` on.
    pub(super) fn in_file(file: File, path: &Path, start: u64, length: u64) -> Pixels {
        Pixels::File(Arc::new(FilePart {
            file: Mutex::new(file),
            path: path.to_owned(),
            start,
            length,
        }))
    }

    /// Returns the number of bytes.
    pub(super) fn count(&self) -> u64 {
        match self {
            Pixels::Memory(bytes) => bytes.len() as u64,
            Pixels::File(part) => part.length,
        }
    }

    /// Whether the bytes are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self, Pixels::Memory(_))
    }

    /// Returns `count` bytes from `start` on; none if there are fewer. May read them into `buffer`.
    pub(super) fn read<'a>(
        &'a self,
        start: u64,
        count: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, DataError> {
        let Some(end) = start
            .checked_add(count as u64)
            .filter(|end| *end <= self.count())
        else {
            return Ok(None);
        };
        match self {
            // Positions in memory fit in a usize.
            Pixels::Memory(bytes) => Ok(bytes.get(start as usize..end as usize)),
            Pixels::File(part) => {
                buffer.resize(count, 0);
                part.read(start, buffer).map_err(|source| DataError::Read {
                    file: part.path.clone(),
                    source,
                })?;
                Ok(Some(buffer))
            }
        }
    }
}

impl FilePart {
    fn read(&self, start: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.start + start))?;
        file.read_exact(buffer)
    }
}
