//! Image files that are decoded whenever they are requested.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use super::decode;
use super::format::DecodedFormat;
use crate::DataError;
use crate::error::unreadable;
use crate::files::data_files::{FileContent, HashCache, is_recording};
use crate::files::watched_file::{FileStamp, ReadProblem};
use crate::images::pixels::{ReadImage, decoding_threads};

/// Image files, of which only the paths are in memory.
#[derive(Debug)]
pub(super) struct ImageFiles {
    files: Vec<ImageFile>,
    form: DecodedFormat,
}

/// An image's file as it was found.
#[derive(Debug)]
struct ImageFile {
    path: PathBuf,
    stamp: FileStamp,
    /// None where nothing is recorded: in predictions each file is read once.
    content: Option<FileContent>,
}

impl ImageFile {
    fn of(path: PathBuf) -> Result<ImageFile, DataError> {
        let metadata = fs::metadata(&path).map_err(|error| unreadable(&path, error))?;
        Ok(ImageFile {
            stamp: FileStamp::of(&metadata),
            path,
            content: None,
        })
    }

    /// Hashes the file, unless its hash is known from an earlier start.
    fn hash(&mut self, cache: &HashCache) -> Result<Metadata, DataError> {
        let metadata = fs::metadata(&self.path).map_err(|error| unreadable(&self.path, error))?;
        self.content = Some(if let Some(hash) = cache.get(&metadata) {
            let bytes = metadata.len();
            FileContent { bytes, hash }
        } else {
            let read = self.stamp.read(&self.path);
            FileContent::of(&read.map_err(|problem| problem.of_file(&self.path))?)
        });
        Ok(metadata)
    }

    fn read(&self) -> Result<Vec<u8>, ReadProblem> {
        let bytes = self.stamp.read(&self.path)?;
        match self.content {
            Some(content) if content != FileContent::of(&bytes) => Err(ReadProblem::Changed),
            _ => Ok(bytes),
        }
    }
}

impl ImageFiles {
    /// Prepares to read these files in the directory `place`, which must stay as they are now.
    pub(super) fn new(
        files: Vec<PathBuf>,
        form: DecodedFormat,
        place: &Path,
    ) -> Result<ImageFiles, DataError> {
        let files = files.into_iter().map(ImageFile::of);
        let mut files: Vec<ImageFile> = files.collect::<Result<_, _>>()?;
        if is_recording() {
            hash_all(&mut files, place)?;
        }
        Ok(ImageFiles { files, form })
    }

    /// Returns what the files are, in their order; nothing where nothing is recorded.
    pub(super) fn contents(&self) -> Vec<FileContent> {
        self.files.iter().filter_map(|file| file.content).collect()
    }
}

impl ReadImage for ImageFiles {
    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<(), DataError> {
        let Some(image) = self.files.get(index) else {
            let removed = ReadProblem::Removed;
            return Err(removed.of_sample(Path::new(""), index));
        };
        let file = &image.path;
        let bytes = image
            .read()
            .map_err(|problem| problem.of_sample(file, index))?;
        let decoded = decode::one(file, &bytes, pixels, self.form);
        decoded.map_err(|problem| DataError::Sample {
            file: file.clone(),
            sample: index,
            problem: problem.to_text(self.form),
        })
    }
}

/// Hashes files that are to be read on demand, by all threads: nothing else is computed then.
fn hash_all(files: &mut [ImageFile], place: &Path) -> Result<(), DataError> {
    let total = files.iter().map(|file| file.stamp.length()).sum();
    let mut cache = HashCache::open(place, total)?;
    let known = &cache;
    let part = files.len().div_ceil(decoding_threads()).max(1);
    let hash = |files: &mut [ImageFile]| -> Result<Vec<Metadata>, DataError> {
        files.iter_mut().map(|file| file.hash(known)).collect()
    };
    let versions: Vec<Metadata> = std::thread::scope(|scope| {
        let threads: Vec<_> = (files.chunks_mut(part))
            .map(|files| scope.spawn(|| hash(files)))
            .collect();
        let finished = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let versions: Result<Vec<Vec<Metadata>>, DataError> = finished.collect();
        Ok::<_, DataError>(versions?.into_iter().flatten().collect())
    })?;
    for (file, version) in files.iter().zip(&versions) {
        if let Some(content) = file.content {
            cache.put(version, content.hash);
        }
    }
    cache.save();
    Ok(())
}
