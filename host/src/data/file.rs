//! Whole files, with errors that name them.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::Error;

/// The bytes of a file.
pub(super) fn contents(file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing {
            file: file.to_owned(),
        },
        _ => Error::Read {
            file: file.to_owned(),
            source,
        },
    })
}

/// The bytes of a file, unpacked if it is gzipped.
pub(super) fn unpacked(file: &Path) -> Result<Vec<u8>, Error> {
    let bytes = contents(file)?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    let result = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked);
    result.map_err(|source| Error::Damaged {
        file: file.to_owned(),
        source,
    })?;
    Ok(unpacked)
}
