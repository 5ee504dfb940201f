//! Image files that are decoded whenever they are requested.

use std::path::{Path, PathBuf};

use super::decode::{self, DecodedFormat};
use crate::DataError;
use crate::file::unreadable;
use crate::pixels::ReadImage;
use crate::watched_file::{FileStamp, ReadProblem};

/// Image files, of which only the paths are in memory.
#[derive(Debug)]
pub(super) struct ImageFiles {
    files: Vec<(PathBuf, FileStamp)>,
    form: DecodedFormat,
}

impl ImageFiles {
    /// Prepares to read these files, which must stay as they are now.
    pub(super) fn new(files: Vec<PathBuf>, form: DecodedFormat) -> Result<ImageFiles, DataError> {
        let stamped = |file: PathBuf| match std::fs::metadata(&file) {
            Ok(metadata) => Ok((file, FileStamp::of(&metadata))),
            Err(error) => Err(unreadable(&file, error)),
        };
        Ok(ImageFiles {
            files: files.into_iter().map(stamped).collect::<Result<_, _>>()?,
            form,
        })
    }
}

impl ReadImage for ImageFiles {
    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<(), DataError> {
        let Some((file, stamp)) = self.files.get(index) else {
            let removed = ReadProblem::Removed;
            return Err(removed.of_sample(Path::new(""), index));
        };
        let read = stamp.read(file);
        let bytes = read.map_err(|problem| problem.of_sample(file, index))?;
        let decoded = decode::one(file, &bytes, pixels, self.form);
        decoded.map_err(|problem| DataError::Sample {
            file: file.clone(),
            sample: index,
            problem: problem.to_text(self.form),
        })
    }
}
