//! The bytes of many samples: in memory, or where they lie in a file that is too large for that.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Error;

/// More than this is left in its file: 1 GiB.
pub(super) const MOST_IN_MEMORY: u64 = 1 << 30;

/// The bytes of many samples, one after the other.
#[derive(Clone, Debug)]
pub(super) enum Pixels {
    /// In memory.
    Memory(Vec<u8>),
    /// In a file, from which those of a sample are read when they are asked for.
    File(Arc<FilePart>),
}

/// The end of a file, from some place on.
#[derive(Debug)]
pub(super) struct FilePart {
    file: Mutex<File>,
    path: PathBuf,
    start: u64,
    length: u64,
}

impl Pixels {
    /// So many bytes of an opened file.
    pub(super) fn in_file(file: File, path: &Path, start: u64, length: u64) -> Pixels {
        Pixels::File(Arc::new(FilePart {
            file: Mutex::new(file),
            path: path.to_owned(),
            start,
            length,
        }))
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        match self {
            Pixels::Memory(bytes) => bytes.len() as u64,
            Pixels::File(part) => part.length,
        }
    }

    /// Whether they take memory.
    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self, Pixels::Memory(_))
    }

    /// `count` bytes from `start` on; nothing where there are fewer. `buffer` is used as is needed.
    pub(super) fn read<'a>(
        &'a self,
        start: u64,
        count: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, Error> {
        let Some(end) = start
            .checked_add(count as u64)
            .filter(|end| *end <= self.count())
        else {
            return Ok(None);
        };
        match self {
            // What is in memory fits its addresses.
            Pixels::Memory(bytes) => Ok(bytes.get(start as usize..end as usize)),
            Pixels::File(part) => {
                buffer.resize(count, 0);
                part.read(start, buffer).map_err(|source| Error::Read {
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
