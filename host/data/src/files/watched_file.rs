//! Files that are read during training, and must be the same then as before it.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::data_files::{ContentHash, ContentHasher, HashCache, is_recording, note_hash};
use crate::DataError;
use crate::error::unreadable;
use sconce_base::regular_file::{open_regular, read_exact_at};

/// Size in bytes of the pieces in which a file is hashed.
const PIECE: u64 = 1 << 20;

/// Size and time of the last change of a file, by which changes are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    length: u64,
    /// None where the file system has no such times.
    modified: Option<SystemTime>,
}

impl FileStamp {
    /// The stamp of a file as it is.
    pub(crate) fn of(metadata: &Metadata) -> FileStamp {
        FileStamp {
            length: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }

    /// Number of bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads a complete file that had this stamp before.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>, ReadProblem> {
        let mut file = open_regular(path)?;
        let mut bytes = Vec::new();
        // A file that has grown is not read to its end.
        let most = self.length.saturating_add(1);
        file.by_ref().take(most).read_to_end(&mut bytes)?;
        if FileStamp::of(&file.metadata()?) != *self {
            return Err(ReadProblem::Changed);
        }
        Ok(bytes)
    }
}

/// A reason why a file that was there before training can't be read any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadProblem {
    /// The file is not the one that it was.
    #[error("the file has changed since training began; leave data alone while they are read")]
    Changed,
    /// The file is gone.
    #[error("the file was there when training began, and has been removed")]
    Removed,
    /// The system can't read it.
    #[error("{0}")]
    System(io::Error),
}

impl From<io::Error> for ReadProblem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => ReadProblem::Removed,
            _ => ReadProblem::System(error),
        }
    }
}

impl ReadProblem {
    /// The error of a file that is read before training.
    pub(crate) fn of_file(self, file: &Path) -> DataError {
        let source = match self {
            ReadProblem::System(error) => error,
            other => io::Error::other(other.to_string()),
        };
        unreadable(file, source)
    }

    /// The error of the sample with this index, from 0 in the order of the files.
    pub(crate) fn of_sample(self, file: &Path, sample: usize) -> DataError {
        DataError::Sample {
            file: file.to_owned(),
            sample,
            problem: self.to_string(),
        }
    }
}

/// An open file of which several threads read parts.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    file: File,
    path: PathBuf,
    stamp: FileStamp,
}

impl WatchedFile {
    /// Opens a regular file. A pipe passed to this process, which can only be read once, is none: `None`.
    pub(crate) fn open(path: &Path) -> io::Result<Option<WatchedFile>> {
        let file = open_regular(path)?;
        let metadata = file.metadata()?;
        let stamp = FileStamp::of(&metadata);
        Ok(metadata.is_file().then(|| WatchedFile {
            file,
            path: path.to_owned(),
            stamp,
        }))
    }

    /// Notes the file as one of those that data are read from. Unless its hash is known from an earlier start, it is read once.
    ///
    /// # Errors
    ///
    /// If it can't be read, or has changed since it was opened.
    pub(crate) fn note(&self) -> Result<(), DataError> {
        if !is_recording() {
            return Ok(());
        }
        let failed = |problem: ReadProblem| problem.of_file(&self.path);
        let metadata = self.file.metadata().map_err(|error| failed(error.into()))?;
        let mut cache = HashCache::open(&self.path, self.length())?;
        let hash = match cache.get(&metadata) {
            Some(hash) => hash,
            None => self.hash().map_err(failed)?,
        };
        cache.put(&metadata, hash);
        cache.save();
        note_hash(&self.path, self.length(), hash);
        Ok(())
    }

    fn hash(&self) -> Result<ContentHash, ReadProblem> {
        let mut hasher = ContentHasher::default();
        let mut piece = vec![0; PIECE.min(self.length()) as usize];
        let mut start = 0;
        while start < self.length() {
            piece.truncate((self.length() - start).min(PIECE) as usize);
            self.read_at(start, &mut piece)?;
            hasher.update(&piece);
            start += piece.len() as u64;
        }
        Ok(hasher.finish())
    }

    /// Path that the file was opened at.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of bytes.
    pub(crate) fn length(&self) -> u64 {
        self.stamp.length
    }

    /// Fills `buffer` with the bytes from `start` on.
    ///
    /// # Errors
    ///
    /// If the file has changed since it was opened, or there are fewer bytes.
    pub(crate) fn read_at(&self, start: u64, buffer: &mut [u8]) -> Result<(), ReadProblem> {
        let result = read_exact_at(&self.file, start, buffer);
        if FileStamp::of(&self.file.metadata()?) != self.stamp {
            return Err(ReadProblem::Changed);
        }
        Ok(result?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn parts_are_read_until_the_file_changes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, b"0123456789").expect("written");
        let file = WatchedFile::open(&path).expect("open").expect("a file");
        assert_eq!((file.length(), file.path()), (10, path.as_path()));
        let mut buffer = [0; 3];
        file.read_at(7, &mut buffer).expect("the last three");
        assert_eq!(&buffer, b"789");
        let beyond = file.read_at(8, &mut buffer).expect_err("two are left");
        assert!(matches!(beyond, ReadProblem::System(_)), "{beyond}");
        file.read_at(u64::MAX, &mut buffer).expect_err("none is");

        fs::write(&path, b"0123456789abc").expect("written");
        let error = file.read_at(0, &mut buffer).expect_err("it has grown");
        assert!(matches!(error, ReadProblem::Changed), "{error}");
        fs::write(&path, b"").expect("written");
        let error = file.read_at(0, &mut buffer).expect_err("it is empty");
        assert!(matches!(error, ReadProblem::Changed), "{error}");
    }

    #[test]
    fn a_complete_file_is_read_unless_it_has_changed_or_is_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, b"one").expect("written");
        let stamp = FileStamp::of(&fs::metadata(&path).expect("metadata"));
        assert_eq!(stamp.read(&path).expect("the same"), b"one");
        // The same size at another time.
        let later = stamp.modified.expect("a time") + Duration::from_secs(5);
        fs::write(&path, b"two").expect("written");
        let file = File::options().write(true).open(&path).expect("open");
        file.set_modified(later).expect("set");
        let error = stamp.read(&path).expect_err("it has changed");
        assert!(matches!(error, ReadProblem::Changed), "{error}");
        fs::remove_file(&path).expect("removed");
        let error = stamp.read(&path).expect_err("it is gone");
        assert!(matches!(error, ReadProblem::Removed), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_is_not_read_in_parts() {
        assert!(WatchedFile::open(Path::new("/dev/null")).is_err());
        let (reader, _writer) = io::pipe().expect("a pipe");
        let number = std::os::fd::AsRawFd::as_raw_fd(&reader);
        let path = PathBuf::from(format!("/dev/fd/{number}"));
        assert!(WatchedFile::open(&path).expect("open").is_none());
    }
}
