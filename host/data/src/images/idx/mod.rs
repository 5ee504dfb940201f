//! IDX files, the format of MNIST: a header with the element type and the dimensions (big-endian),
//! followed by the elements. Plain or gzipped, detected by their first bytes.
//!
//! Sizes in the header are checked against the size of the file before memory is allocated for
//! them.

use std::cmp::Ordering;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use super::pixels::{ImageRecords, Pixels};
use crate::DataError;
use crate::error::unreadable;
use crate::files::data_files::HashingFile;
use crate::files::memory::{MOST_OF_A_FILE, MemoryUse};
use crate::files::watched_file::WatchedFile;
use sconce_base::regular_file::open_regular;

/// Code of the element type for bytes.
const UNSIGNED_BYTE: u8 = 0x08;

/// Upper bound of Deflate's compression: a file decompresses to less than 1,032 times its size.
const BEST_COMPRESSION: u64 = 1032;

/// Contents of an IDX file of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Idx {
    pub(crate) dimensions: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// An IDX file of images, whose pixels may be read on demand.
#[derive(Clone, Debug)]
pub(crate) struct IdxImages {
    pub(crate) dimensions: Vec<usize>,
    pub(crate) pixels: Pixels,
}

/// Role of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdxRole {
    Images,
    Labels,
}

impl IdxRole {
    fn name(self) -> &'static str {
        match self {
            IdxRole::Images => "images",
            IdxRole::Labels => "labels",
        }
    }

    fn ranks(self) -> (&'static [u8], &'static str) {
        match self {
            IdxRole::Images => (&[3, 4], "3 or 4"),
            IdxRole::Labels => (&[1], "1"),
        }
    }
}

/// Reads a complete file.
pub(crate) fn read(path: &Path, role: IdxRole) -> Result<Idx, DataError> {
    let mut reader = Reader::open(path)?;
    let dimensions = reader.header(role)?;
    let bytes = reader.elements(&dimensions)?;
    let dimensions = in_memory(&dimensions);
    Ok(Idx { dimensions, bytes })
}

/// Counts the labels of an IDX file: the number of images of each class, from 0 to the largest.
///
/// # Errors
///
/// If the file can't be read as labels.
pub fn survey_labels(file: &Path) -> Result<Vec<usize>, DataError> {
    let labels = read(file, IdxRole::Labels)?.bytes;
    let most = labels.iter().copied().max().map_or(0, usize::from);
    let mut counts = vec![0; most + 1];
    for label in labels {
        if let Some(count) = counts.get_mut(usize::from(label)) {
            *count += 1;
        }
    }
    Ok(counts)
}

/// Reads a file of images, or its header if its pixels are to be read on demand and it is plain.
pub(crate) fn images(path: &Path, memory: MemoryUse) -> Result<IdxImages, DataError> {
    let mut reader = Reader::open(path)?;
    let dimensions = reader.header(IdxRole::Images)?;
    let count = reader.count(&dimensions)?;
    let is_left = !reader.gzipped && !memory.is_whole(count, MOST_OF_A_FILE);
    let left = if is_left {
        WatchedFile::open(path).map_err(|error| unreadable(path, error))?
    } else {
        None
    };
    let pixels = match left {
        Some(file) => {
            reader.check_size(count, file.length())?;
            file.note()?;
            Pixels::OnDemand(Arc::new(ImageRecords::new(file, reader.position)))
        }
        None => Pixels::Memory(reader.elements(&dimensions)?),
    };
    let dimensions = in_memory(&dimensions);
    Ok(IdxImages { dimensions, pixels })
}

fn in_memory(dimensions: &[u32]) -> Vec<usize> {
    dimensions.iter().map(|&size| size as usize).collect()
}

/// Bytes of a file, decompressed if gzipped.
enum IdxBytes {
    Plain(BufReader<HashingFile>),
    Gzipped(Box<MultiGzDecoder<BufReader<HashingFile>>>),
}

impl IdxBytes {
    /// The file itself.
    fn file(&mut self) -> &mut HashingFile {
        match self {
            IdxBytes::Plain(reader) => reader.get_mut(),
            IdxBytes::Gzipped(decoder) => decoder.get_mut().get_mut(),
        }
    }
}

impl Read for IdxBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            IdxBytes::Plain(reader) => reader.read(buffer),
            IdxBytes::Gzipped(decoder) => decoder.read(buffer),
        }
    }
}

/// An opened file.
struct IdxFile {
    reader: IdxBytes,
    gzipped: bool,
    size: u64,
}

impl IdxFile {
    fn open(path: &Path) -> Result<IdxFile, DataError> {
        let failed = |error| unreadable(path, error);
        let mut file = open_regular(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let mut start = Vec::new();
        file.by_ref()
            .take(2)
            .read_to_end(&mut start)
            .map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let gzipped = start == [0x1f, 0x8b];
        let file = BufReader::new(HashingFile::new(file));
        Ok(IdxFile {
            reader: if gzipped {
                IdxBytes::Gzipped(Box::new(MultiGzDecoder::new(file)))
            } else {
                IdxBytes::Plain(file)
            },
            gzipped,
            size: metadata.len(),
        })
    }
}

struct Reader<'a> {
    inner: IdxBytes,
    path: &'a Path,
    gzipped: bool,
    /// Size of the file on disk.
    size: u64,
    /// Number of bytes read so far, after decompression.
    position: u64,
    /// Whether a gzipped file ended prematurely.
    cut_off: bool,
}

impl Reader<'_> {
    fn open(path: &Path) -> Result<Reader<'_>, DataError> {
        let source = IdxFile::open(path)?;
        Ok(Reader {
            inner: source.reader,
            path,
            gzipped: source.gzipped,
            size: source.size,
            position: 0,
            cut_off: false,
        })
    }

    /// Reads the header, checks its type and rank, and returns the dimensions.
    fn header(&mut self, role: IdxRole) -> Result<Vec<u32>, DataError> {
        let magic = self.array()?;
        let [first, second, element, rank] = magic;
        if (first, second) != (0, 0) {
            return Err(DataError::Magic {
                file: self.path.to_owned(),
                found: magic,
                looks_like: looks_like(magic),
            });
        }
        if element != UNSIGNED_BYTE {
            return Err(DataError::ElementType {
                file: self.path.to_owned(),
                found: element,
            });
        }
        let (ranks, wanted) = role.ranks();
        if !ranks.contains(&rank) {
            return Err(DataError::Rank {
                file: self.path.to_owned(),
                role: role.name(),
                wanted,
                found: rank,
            });
        }
        (0..rank)
            .map(|_| Ok(u32::from_be_bytes(self.array()?)))
            .collect()
    }

    fn elements(&mut self, dimensions: &[u32]) -> Result<Vec<u8>, DataError> {
        let count = self.count(dimensions)?;
        if count == 0 {
            return Err(DataError::Empty {
                file: self.path.to_owned(),
            });
        }
        let expected = self.position + count;
        let bytes = self.take(count)?;
        if (bytes.len() as u64) < count {
            return Err(self.truncated(expected));
        }
        if !self.take(1)?.is_empty() {
            return Err(DataError::Trailing {
                file: self.path.to_owned(),
                expected,
                gzipped: self.gzipped,
            });
        }
        if self.cut_off {
            return Err(DataError::Damaged {
                file: self.path.to_owned(),
                source: io::Error::other("it is truncated, the checksum at its end is missing"),
            });
        }
        let noted = self.inner.file().note(self.path);
        noted.map_err(|error| unreadable(self.path, error))?;
        Ok(bytes)
    }

    /// Checks that an uncompressed file of `found` bytes has `count` elements after its header, without
    /// reading them.
    fn check_size(&self, count: u64, found: u64) -> Result<(), DataError> {
        let file = self.path.to_owned();
        let expected = self.position + count;
        let gzipped = false;
        match found.cmp(&expected) {
            _ if count == 0 => Err(DataError::Empty { file }),
            Ordering::Equal => Ok(()),
            Ordering::Less => Err(DataError::Truncated {
                file,
                expected,
                found,
                gzipped,
            }),
            Ordering::Greater => Err(DataError::Trailing {
                file,
                expected,
                gzipped,
            }),
        }
    }

    /// Returns the number of elements, if the file can hold them.
    fn count(&self, dimensions: &[u32]) -> Result<u64, DataError> {
        let product = dimensions
            .iter()
            .try_fold(1_u64, |product, &size| product.checked_mul(u64::from(size)));
        let most = if self.gzipped {
            self.size.saturating_mul(BEST_COMPRESSION)
        } else {
            // Slightly too short plain files are reported as truncated instead.
            self.size.saturating_mul(16)
        };
        match product {
            Some(count) if count <= most => Ok(count),
            _ => Err(DataError::Absurd {
                file: self.path.to_owned(),
                dimensions: dimensions.to_vec(),
                size: self.size,
            }),
        }
    }

    fn array(&mut self) -> Result<[u8; 4], DataError> {
        let expected = self.position + 4;
        let bytes = self.take(4)?;
        <[u8; 4]>::try_from(bytes).map_err(|_| self.truncated(expected))
    }

    /// Reads up to `count` bytes.
    fn take(&mut self, count: u64) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        let result = self.inner.by_ref().take(count).read_to_end(&mut bytes);
        self.position += bytes.len() as u64;
        match result {
            Ok(_) => Ok(bytes),
            // A gzipped file that ends prematurely is treated like a plain one that is too short.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.cut_off = true;
                Ok(bytes)
            }
            Err(source) if self.gzipped => Err(DataError::Damaged {
                file: self.path.to_owned(),
                source,
            }),
            Err(source) => Err(DataError::Read {
                file: self.path.to_owned(),
                source,
            }),
        }
    }

    fn truncated(&self, expected: u64) -> DataError {
        DataError::Truncated {
            file: self.path.to_owned(),
            expected,
            found: self.position,
            gzipped: self.gzipped,
        }
    }
}

fn looks_like(magic: [u8; 4]) -> &'static str {
    match magic {
        [0x1f, 0x8b, ..] => "gzipped twice: unpack it once",
        [0x89, b'P', b'N', b'G'] => "a PNG image",
        [0xff, 0xd8, ..] => "a JPEG image",
        [b'P', b'K', ..] => "a zip archive: unpack it",
        [b'<', ..] => "a web page or XML: an error page saved in its place?",
        magic
            if magic
                .iter()
                .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) =>
        {
            "text"
        }
        _ => "something else",
    }
}

#[cfg(test)]
mod tests;
