//! Reading of complete files, with errors that name them.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use sconce_base::memory_limit::memory_limit;

use super::signature::{self, GZIP, Signature};
use super::{data_files, provided};
use crate::error::{DataError, unreadable};
use sconce_base::regular_file::read_regular;

/// Returns the bytes of a file, and notes what was read.
pub(crate) fn contents(file: &Path) -> Result<Vec<u8>, DataError> {
    let bytes = match provided::bytes_at(file) {
        Some(content) => (*content).as_ref().to_vec(),
        None => read_regular(file).map_err(|error| unreadable(file, error))?,
    };
    data_files::note(file, &bytes);
    Ok(bytes)
}

/// Returns the bytes of a file, decompressed if gzipped; other compressed files are refused.
pub(crate) fn unpacked(file: &Path) -> Result<Vec<u8>, DataError> {
    let bytes = contents(file)?;
    let is_gzipped = bytes.starts_with(GZIP);
    let bytes = if is_gzipped {
        gunzipped(file, &bytes)?
    } else {
        bytes
    };
    match signature::of(&bytes) {
        Some(found) if found.is_packed => Err(other_format(file, found, is_gzipped)),
        _ => Ok(bytes),
    }
}

fn gunzipped(file: &Path, bytes: &[u8]) -> Result<Vec<u8>, DataError> {
    let mut unpacked = Vec::new();
    let limit = memory_limit().map_or(u64::MAX, |limit| limit.bytes);
    let result = MultiGzDecoder::new(bytes)
        .take(limit)
        .read_to_end(&mut unpacked);
    result.map_err(|source| DataError::Damaged {
        file: file.to_owned(),
        source,
    })?;
    if unpacked.len() as u64 >= limit {
        let problem = format!(
            "decompressed it has more than {limit} bytes, the memory that this process may use"
        );
        return Err(unreadable(file, io::Error::other(problem)));
    }
    Ok(unpacked)
}

/// Returns the error for a file of another format than the requested one.
pub(crate) fn other_format(file: &Path, found: Signature, is_gzipped: bool) -> DataError {
    DataError::OtherFormat {
        file: file.to_owned(),
        what: if is_gzipped {
            format!("gzipped, and in that {}", found.what)
        } else {
            found.what.to_owned()
        },
        advice: found.advice.replace("FILE", &file.display().to_string()),
    }
}
