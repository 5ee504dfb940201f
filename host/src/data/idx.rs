//! IDX files, the format of MNIST: a header with the element type and the dimensions (big endian),
//! then the elements. Plain or gzipped, told by their first bytes.
//!
//! Nothing is allocated because a header says so: what it announces is first held against the
//! file's size.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::Error;

/// The element type of bytes.
const UNSIGNED_BYTE: u8 = 0x08;

/// Deflate can't do better: a compressed file unpacks to less than 1,032 times its size.
const BEST_COMPRESSION: u64 = 1032;

/// The contents of an IDX file of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Idx {
    pub(super) dimensions: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Images,
    Labels,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Role::Images => "images",
            Role::Labels => "labels",
        }
    }

    fn ranks(self) -> (&'static [u8], &'static str) {
        match self {
            Role::Images => (&[3, 4], "3 or 4"),
            Role::Labels => (&[1], "1"),
        }
    }
}

/// Reads a whole file.
pub(super) fn read(path: &Path, role: Role) -> Result<Idx, Error> {
    let source = Source::open(path)?;
    let mut reader = Reader {
        inner: source.reader,
        path,
        gzipped: source.gzipped,
        size: source.size,
        position: 0,
        cut_off: false,
    };
    let dimensions = reader.header(role)?;
    let bytes = reader.elements(&dimensions)?;
    let dimensions = dimensions.iter().map(|&size| size as usize).collect();
    Ok(Idx { dimensions, bytes })
}

/// An opened file.
struct Source {
    reader: Box<dyn Read>,
    gzipped: bool,
    size: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Source, Error> {
        let failed = |source| Error::Read {
            file: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let mut start = Vec::new();
        file.by_ref()
            .take(2)
            .read_to_end(&mut start)
            .map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let gzipped = start == [0x1f, 0x8b];
        let file = BufReader::new(file);
        Ok(Source {
            reader: if gzipped {
                Box::new(MultiGzDecoder::new(file))
            } else {
                Box::new(file)
            },
            gzipped,
            size: metadata.len(),
        })
    }
}

struct Reader<'a> {
    inner: Box<dyn Read>,
    path: &'a Path,
    gzipped: bool,
    /// The size of the file as it lies on the disk.
    size: u64,
    /// How many bytes have been read, after decompression.
    position: u64,
    /// A gzipped file that ended in the middle.
    cut_off: bool,
}

impl Reader<'_> {
    /// The dimensions, once the header has been found to be of the right kind.
    fn header(&mut self, role: Role) -> Result<Vec<u32>, Error> {
        let magic = self.array()?;
        let [first, second, element, rank] = magic;
        if (first, second) != (0, 0) {
            return Err(Error::Magic {
                file: self.path.to_owned(),
                found: magic,
                looks_like: looks_like(magic),
            });
        }
        if element != UNSIGNED_BYTE {
            return Err(Error::ElementType {
                file: self.path.to_owned(),
                found: element,
            });
        }
        let (ranks, wanted) = role.ranks();
        if !ranks.contains(&rank) {
            return Err(Error::Rank {
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

    fn elements(&mut self, dimensions: &[u32]) -> Result<Vec<u8>, Error> {
        let count = self.count(dimensions)?;
        if count == 0 {
            return Err(Error::Empty {
                file: self.path.to_owned(),
            });
        }
        let expected = self.position + count;
        let bytes = self.take(count)?;
        if (bytes.len() as u64) < count {
            return Err(self.truncated(expected));
        }
        if !self.take(1)?.is_empty() {
            return Err(Error::Trailing {
                file: self.path.to_owned(),
                expected,
                gzipped: self.gzipped,
            });
        }
        if self.cut_off {
            return Err(Error::Damaged {
                file: self.path.to_owned(),
                source: io::Error::other("it is truncated, the checksum at its end is missing"),
            });
        }
        Ok(bytes)
    }

    /// How many elements there are, if the file can hold them.
    fn count(&self, dimensions: &[u32]) -> Result<u64, Error> {
        let product = dimensions
            .iter()
            .try_fold(1_u64, |product, &size| product.checked_mul(u64::from(size)));
        let most = if self.gzipped {
            self.size.saturating_mul(BEST_COMPRESSION)
        } else {
            // A plain file that is merely too short is told as truncated.
            self.size.saturating_mul(16)
        };
        match product {
            Some(count) if count <= most => Ok(count),
            _ => Err(Error::Absurd {
                file: self.path.to_owned(),
                dimensions: dimensions.to_vec(),
                size: self.size,
            }),
        }
    }

    fn array(&mut self) -> Result<[u8; 4], Error> {
        let expected = self.position + 4;
        let bytes = self.take(4)?;
        <[u8; 4]>::try_from(bytes).map_err(|_| self.truncated(expected))
    }

    /// The next bytes, up to `count`.
    fn take(&mut self, count: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let result = self.inner.by_ref().take(count).read_to_end(&mut bytes);
        self.position += bytes.len() as u64;
        match result {
            Ok(_) => Ok(bytes),
            // The end of a gzipped file in the middle of it: as short as a plain one.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.cut_off = true;
                Ok(bytes)
            }
            Err(source) if self.gzipped => Err(Error::Damaged {
                file: self.path.to_owned(),
                source,
            }),
            Err(source) => Err(Error::Read {
                file: self.path.to_owned(),
                source,
            }),
        }
    }

    fn truncated(&self, expected: u64) -> Error {
        Error::Truncated {
            file: self.path.to_owned(),
            expected,
            found: self.position,
            gzipped: self.gzipped,
        }
    }
}

fn looks_like(magic: [u8; 4]) -> &'static str {
    match magic {
        [0x1f, 0x8b, ..] => "gzipped twice",
        [0x89, b'P', b'N', b'G'] => "a PNG image",
        [0xff, 0xd8, ..] => "a JPEG image",
        [b'P', b'K', ..] => "a zip archive",
        [b'<', ..] => "a web page or XML",
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
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tempfile::NamedTempFile;

    use super::*;

    fn file(bytes: &[u8]) -> NamedTempFile {
        let mut file = NamedTempFile::new().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("packed");
        encoder.finish().expect("packed")
    }

    /// Five images of 4 × 3 pixels.
    fn images() -> Vec<u8> {
        let mut bytes = vec![0, 0, 8, 3, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 3];
        bytes.extend((0..60).map(|index: u8| index.wrapping_mul(37)));
        bytes
    }

    fn error(bytes: &[u8], role: Role) -> String {
        read(file(bytes).path(), role)
            .expect_err("it is wrong")
            .to_string()
    }

    #[test]
    fn plain_and_gzipped_files_are_the_same() {
        for bytes in [images(), gzip(&images())] {
            let idx = read(file(&bytes).path(), Role::Images).expect("it is right");
            assert_eq!(idx.dimensions, [5, 4, 3]);
            assert_eq!(idx.bytes, images()[16..]);
        }
    }

    #[test]
    fn every_truncation_is_told() {
        let plain = images();
        for length in 0..plain.len() {
            let text = error(&plain[..length], Role::Images);
            assert!(
                text.contains("truncated") && text.contains(&format!("found {length}")),
                "{text}"
            );
        }
        let packed = gzip(&plain);
        for length in 2..packed.len() {
            let text = error(&packed[..length], Role::Images);
            // The checksum at the end may be cut off too.
            assert!(
                text.contains("truncated") || text.contains("damaged"),
                "{length}: {text}"
            );
        }
    }

    #[test]
    fn wrong_headers_are_told() {
        let with = |at: usize, value: u8| {
            let mut bytes = images();
            bytes[at] = value;
            bytes
        };
        let mut longer = images();
        longer.push(0);
        for (bytes, role, words) in [
            (gzip(&gzip(&images())), Role::Images, "gzipped twice"),
            (b"<html><body>".to_vec(), Role::Images, "a web page"),
            (b"hello there".to_vec(), Role::Images, "(text)"),
            (b"\x89PNG\r\n".to_vec(), Role::Images, "a PNG image"),
            (with(2, 0x0d), Role::Images, "IDX type 0x0d"),
            (
                images(),
                Role::Labels,
                "has 3 dimensions, labels have 1; are images and labels exchanged?",
            ),
            (
                with(3, 1),
                Role::Images,
                "has 1 dimensions, images have 3 or 4",
            ),
            (
                with(4, 0xff),
                Role::Images,
                "more than a file of 76 bytes can hold",
            ),
            (with(7, 0), Role::Images, "has no samples"),
            (with(7, 6), Role::Images, "88 bytes expected, found 76"),
            (longer, Role::Images, "goes on after the 76 bytes"),
        ] {
            let text = error(&bytes, role);
            assert!(text.contains(words), "{text}");
        }
        let text = read(Path::new("/no/such/file"), Role::Images)
            .expect_err("missing")
            .to_string();
        assert!(text.contains("can't read `/no/such/file`"), "{text}");
        assert!(
            read(Path::new("/"), Role::Images)
                .expect_err("a directory")
                .to_string()
                .contains("directory")
        );
    }

    #[test]
    fn a_damaged_gzip_is_told() {
        let mut packed = gzip(&images());
        let middle = packed.len() / 2;
        packed[middle] ^= 0xff;
        let text = error(&packed, Role::Images);
        assert!(
            text.contains("damaged") || text.contains("truncated"),
            "{text}"
        );
    }
}
