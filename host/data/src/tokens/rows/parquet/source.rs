//! A file as the crate that decodes Parquet reads it: by position, and never behind its end.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::files::watched_file::WatchedFile;

/// A file that is read by position.
pub(super) struct Source(Arc<WatchedFile>);

impl Source {
    pub(super) fn new(file: &Arc<WatchedFile>) -> Source {
        Source(Arc::clone(file))
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.0.length()
    }
}

impl ChunkReader for Source {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<BufReader<From>> {
        Ok(BufReader::new(From {
            file: Arc::clone(&self.0),
            at: start,
        }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.0.length()) {
            return Err(ParquetError::EOF(format!(
                "{length} bytes from {start} on are behind the end"
            )));
        }
        let mut bytes = vec![0; length];
        let read = self.0.read_at(start, &mut bytes);
        read.map_err(|problem| ParquetError::General(problem.to_string()))?;
        Ok(bytes.into())
    }
}

/// A file from a position on.
pub(super) struct From {
    file: Arc<WatchedFile>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.file.length().saturating_sub(self.at);
        let count = left.min(buffer.len() as u64) as usize;
        let buffer = buffer.get_mut(..count).unwrap_or_default();
        let read = self.file.read_at(self.at, buffer);
        read.map_err(|problem| io::Error::other(problem.to_string()))?;
        self.at += count as u64;
        Ok(count)
    }
}
