//! Bytes of many images: in memory, or read when an image is requested.

use std::fmt;
use std::sync::Arc;

use crate::DataError;
use crate::files::watched_file::WatchedFile;

/// Maximum number of threads that decode images before training.
const MOST_THREADS: usize = 16;

/// Number of threads that decode images before training: nothing else is computed then.
pub(crate) fn decoding_threads() -> usize {
    let available = std::thread::available_parallelism();
    available.map_or(1, |count| count.get().min(MOST_THREADS))
}

/// Reads images by their index, from several threads at the same time.
pub(crate) trait ReadImage: fmt::Debug + Send + Sync {
    /// Fills `pixels`, which has an image's size, with those of the image at `index`.
    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<(), DataError>;
}

/// Bytes of many images of one size.
#[derive(Clone, Debug)]
pub(crate) enum Pixels {
    /// In memory, one image after the other.
    Memory(Vec<u8>),
    /// In files, read when an image is requested.
    OnDemand(Arc<dyn ReadImage>),
}

impl Pixels {
    /// Whether the bytes are in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        matches!(self, Pixels::Memory(_))
    }

    /// Returns the bytes of the image at `index`, `size` of them; none if in memory there are fewer. May
    /// read them into `buffer`.
    pub(crate) fn image<'a>(
        &'a self,
        index: usize,
        size: usize,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<&'a [u8]>, DataError> {
        match self {
            Pixels::Memory(bytes) => Ok(index.checked_mul(size).and_then(|start| {
                let end = start.checked_add(size)?;
                bytes.get(start..end)
            })),
            Pixels::OnDemand(images) => {
                buffer.resize(size, 0);
                images.read(index, buffer)?;
                Ok(Some(buffer))
            }
        }
    }
}

/// A file of images, one after the other.
#[derive(Debug)]
pub(crate) struct ImageRecords {
    file: WatchedFile,
    /// Position of the first image.
    start: u64,
}

impl ImageRecords {
    /// The images of a file from the byte `start` on.
    pub(crate) fn new(file: WatchedFile, start: u64) -> ImageRecords {
        ImageRecords { file, start }
    }
}

impl ReadImage for ImageRecords {
    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<(), DataError> {
        // Beyond the largest number there is nothing to read either.
        let start = (index as u64)
            .saturating_mul(pixels.len() as u64)
            .saturating_add(self.start);
        let read = self.file.read_at(start, pixels);
        read.map_err(|problem| problem.of_sample(self.file.path(), index))
    }
}
