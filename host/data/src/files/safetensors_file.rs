//! Reading of safetensors files: the header first, which says how long the file is. Then all of it ([`read`]), or
//! the tensors one by one, each where it is wanted ([`SafetensorsFile`]).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{SafeTensorError, SafeTensors};

use sconce_base::regular_file::{open_regular, read_exact_at, read_more};

/// Size in bytes of the header's length, at the start of a file.
const LENGTH: usize = size_of::<u64>();

/// Size in bytes of the largest header that the format allows.
const LARGEST_HEADER: u64 = 100_000_000;

/// Size in bytes of what is read of a file in any case: other formats are recognised by it.
const START: u64 = 512;

/// A reason why a file can't be read as safetensors.
#[derive(Debug, thiserror::Error)]
pub enum SafetensorsProblem {
    /// The system can't read it, or memory can't hold it.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It is not a safetensors file, or a damaged one.
    #[error("{reason}")]
    Format {
        /// What is wrong with it.
        reason: SafeTensorError,
        /// First bytes of the file.
        start: Vec<u8>,
    },
}

/// An open safetensors file, of which the header has been read and is valid, and agrees with the file's size.
#[derive(Debug)]
pub struct SafetensorsFile {
    content: Content,
    header: Metadata,
    /// Where the tensors' bytes begin.
    start: u64,
}

/// Where the bytes of a file are.
#[derive(Debug)]
enum Content {
    File(File),
    /// Of a pipe, which has no positions to read at.
    Memory(Vec<u8>),
}

impl SafetensorsFile {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// As [`read`].
    pub fn open(path: &Path) -> Result<SafetensorsFile, SafetensorsProblem> {
        let mut file = open_regular(path)?;
        let mut bytes = Vec::new();
        file.by_ref().take(START).read_to_end(&mut bytes)?;
        let (header, content) = if file.metadata()?.is_file() {
            (check_header(&mut file, &mut bytes)?, Content::File(file))
        } else {
            read_more(file, &mut bytes, u64::MAX)?;
            let (_, header) = SafeTensors::read_metadata(&bytes)
                .map_err(|reason| format_problem(reason, &bytes))?;
            (header, Content::Memory(bytes))
        };
        let start = match &content {
            Content::File(file) => file.metadata()?.len(),
            Content::Memory(bytes) => bytes.len() as u64,
        };
        let start = start.saturating_sub(data_length(&header));
        Ok(SafetensorsFile {
            content,
            header,
            start,
        })
    }

    /// Returns what the header says.
    pub fn header(&self) -> &Metadata {
        &self.header
    }

    /// Fills `buffer` with bytes of a tensor, from its byte `from` on. Threads may read at once.
    ///
    /// # Errors
    ///
    /// If they can't be read, or there are fewer: the file has become shorter.
    pub fn read_at(&self, tensor: &TensorInfo, from: u64, buffer: &mut [u8]) -> io::Result<()> {
        let place = (self.start)
            .checked_add(tensor.data_offsets.0 as u64)
            .and_then(|start| start.checked_add(from));
        let place = place.ok_or(io::ErrorKind::UnexpectedEof)?;
        match &self.content {
            Content::File(file) => read_exact_at(file, place, buffer),
            Content::Memory(bytes) => {
                let found = usize::try_from(place)
                    .ok()
                    .and_then(|place| bytes.get(place..)?.get(..buffer.len()));
                buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// Returns the bytes of a safetensors file, whose header is valid and agrees with the file's size. Of any other file no more
/// than the header is read.
///
/// # Errors
///
/// If it can't be read or is not such a file.
pub fn read(path: &Path) -> Result<Vec<u8>, SafetensorsProblem> {
    let mut file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(START).read_to_end(&mut bytes)?;
    if file.metadata()?.is_file() {
        check_header(&mut file, &mut bytes)?;
    }
    read_more(file, &mut bytes, u64::MAX)?;
    Ok(bytes)
}

/// Reads the header and compares it with the size of the file. `bytes` are those at the file's start.
fn check_header(file: &mut File, bytes: &mut Vec<u8>) -> Result<Metadata, SafetensorsProblem> {
    let size = file.metadata()?.len();
    let length = bytes
        .first_chunk()
        .map_or(0, |length| u64::from_le_bytes(*length));
    if length <= LARGEST_HEADER {
        let end = length + LENGTH as u64;
        let missing = end.min(size).saturating_sub(bytes.len() as u64);
        file.take(missing).read_to_end(bytes)?;
    }
    let header = match SafeTensors::read_metadata(bytes) {
        Ok((_, header)) => header,
        // The tensors' bytes are missing: they are read next.
        Err(SafeTensorError::MetadataIncompleteBuffer) => {
            let text = bytes.get(LENGTH..).unwrap_or_default();
            let text = text.get(..length as usize).unwrap_or_default();
            let parsed = serde_json::from_slice::<Metadata>(text);
            parsed.map_err(|error| {
                format_problem(SafeTensorError::InvalidHeaderDeserialization(error), bytes)
            })?
        }
        Err(reason) => return Err(format_problem(reason, bytes)),
    };
    let expected = data_length(&header).saturating_add(length + LENGTH as u64);
    if size != expected {
        return Err(format_problem(
            SafeTensorError::MetadataIncompleteBuffer,
            bytes,
        ));
    }
    Ok(header)
}

/// Number of bytes of all tensors together.
fn data_length(header: &Metadata) -> u64 {
    let ends = header.tensors().into_values();
    let ends = ends.map(|tensor| tensor.data_offsets.1 as u64);
    ends.max().unwrap_or(0)
}

fn format_problem(reason: SafeTensorError, bytes: &[u8]) -> SafetensorsProblem {
    let start = bytes.get(..START as usize).unwrap_or(bytes).to_vec();
    SafetensorsProblem::Format { reason, start }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use safetensors::tensor::{Dtype, TensorView};

    use super::*;

    /// A file of a terabyte that takes no room, with these bytes at its start.
    fn sparse(path: &Path, start: &[u8]) {
        fs::write(path, start).expect("written");
        let file = File::options().write(true).open(path).expect("open");
        file.set_len(1 << 40).expect("a sparse file");
    }

    #[test]
    fn a_file_is_read_as_far_as_it_is_valid() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let numbers: Vec<u8> = (0..32).collect();
        let view = TensorView::new(Dtype::F32, vec![8], &numbers).expect("a tensor");
        let valid = safetensors::serialize([("x", view)], None).expect("bytes");
        fs::write(&path, &valid).expect("written");
        assert_eq!(read(&path).expect("valid"), valid);
        let open = SafetensorsFile::open(&path).expect("valid");
        let tensor = open.header().info("x").expect("a tensor");
        let mut part = [0; 5];
        open.read_at(tensor, 27, &mut part).expect("the last five");
        assert_eq!(part, [27, 28, 29, 30, 31]);
        for beyond in [28, u64::MAX] {
            (open.read_at(tensor, beyond, &mut part)).expect_err("there are fewer");
        }

        let with_header =
            |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        let huge = r#"{"x": {"dtype": "U8", "shape": [99], "data_offsets": [0, 99]}}"#;
        for start in [
            Vec::new(),
            vec![0; 8],
            u64::MAX.to_le_bytes().to_vec(),
            LARGEST_HEADER.to_le_bytes().to_vec(),
            with_header("{}"),
            with_header("nothing"),
            with_header(huge),
            valid.clone(),
        ] {
            sparse(&path, &start);
            SafetensorsFile::open(&path).expect_err("it has a terabyte of zeros");
            let error = read(&path).expect_err("it has a terabyte of zeros");
            let SafetensorsProblem::Format { start: found, .. } = error else {
                panic!("{start:?}: {error}");
            };
            assert!(
                found.starts_with(&start[..start.len().min(100)]),
                "{start:?}"
            );
        }

        // All of it is a tensor.
        let size = (1_u64 << 40) - 8 - 100;
        let all = format!(
            r#"{{"x": {{"dtype": "U8", "shape": [{size}], "data_offsets": [0, {size}]}}}}"#
        );
        sparse(&path, &with_header(&format!("{all:100}")));
        if sconce_base::memory_limit::memory_limit().is_some_and(|limit| limit.bytes < 1 << 40) {
            let error = read(&path).expect_err("no memory holds it");
            assert!(error.to_string().contains("more than the"), "{error}");
        }
        for length in [0, 3, 8, valid.len() - 1] {
            fs::write(&path, &valid[..length]).expect("written");
            read(&path).expect_err("it is truncated");
        }
    }
}
