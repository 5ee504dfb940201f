//! A checkpoint's directory, written completely or not at all.
//!
//! It is written next to its final path, synced file by file, and then renamed. An existing
//! checkpoint of the same tag is exchanged atomically if the system supports it; otherwise the old
//! one is briefly renamed to a name from which [`Store::recover`](super::Store::recover) restores
//! it.

use std::io;
use std::path::{Path, PathBuf};

use candle_core::Tensor;
use sconce_base::regular_file::{read_at_most, read_regular};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::form::Files;
use super::index::{self, Index};
use super::layout;
use super::{Checkpoint, CheckpointError};
use crate::data::Preprocessing;
use crate::data::preprocessing::PREPROCESSING;
use crate::digest::fingerprint;
use sconce_base::held_directory::{HeldDirectory, aside};

/// The hash by which the contents of a checkpoint's directory are referred to; `None` if it has no index.
pub fn hash_of(directory: &Path) -> Option<String> {
    let index = read_regular(&directory.join(index::NAME)).ok()?;
    Some(fingerprint(&index))
}

/// A checkpoint on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Size of all files in bytes.
    pub bytes: u64,
    /// SHA-256 of its index, by which states refer to it.
    pub sha256: String,
}

/// Writes a checkpoint to `place`, whose parent exists. Also returns the directory of the earlier checkpoint that it has
/// replaced, if any. After an error nothing of it is left, and the earlier one is unchanged.
pub(super) fn write(
    run: &HeldDirectory,
    place: &Path,
    files: &Files,
) -> Result<(Saved, Option<PathBuf>), CheckpointError> {
    let beside = aside(place, "new");
    let written = write_beside(run, &beside, files).and_then(|saved| {
        let earlier = run.put(&beside, place)?;
        Ok((saved, earlier))
    });
    written.map_err(|source| {
        let free = place.parent().and_then(free_bytes);
        // The partial directory is useless, and so is the reason why it can't be removed.
        drop(run.remove(&beside));
        CheckpointError::Write {
            source,
            needed: files.bytes(),
            free,
        }
    })
}

fn write_beside(run: &HeldDirectory, beside: &Path, files: &Files) -> io::Result<Saved> {
    // A killed process with the same process ID may have left one.
    drop(run.remove(beside));
    run.create_directory(beside)?;
    let entries = || files.all.iter().map(|(name, bytes)| (*name, &**bytes));
    // Fingerprints are computed while the disk is writing.
    let index = std::thread::scope(|scope| {
        let take = || Index::of(entries(), &files.host, files.format);
        let taking = std::thread::Builder::new().spawn_scoped(scope, take);
        for (name, bytes) in entries() {
            run.write_synced(&beside.join(name), bytes)?;
        }
        match taking {
            Ok(taking) => taking
                .join()
                .map_err(|_| io::Error::other("the thread that took fingerprints panicked")),
            // The system refused to start a thread.
            Err(_) => Ok(take()),
        }
    })?;
    let mut text = serde_json::to_vec_pretty(&index)?;
    text.push(b'\n');
    run.write_synced(&beside.join(index::NAME), &text)?;
    run.sync(beside)?;
    Ok(Saved {
        bytes: index.total() + text.len() as u64,
        sha256: fingerprint(&text),
    })
}

/// Creates a directory that shares the files of another one; they never change once written.
pub(super) fn link_all(run: &HeldDirectory, from: &Path, to: &Path) -> io::Result<()> {
    let files = fs_err::read_dir(from)?;
    run.create_directory(to)?;
    for file in files {
        let file = file?;
        run.link_or_copy(&file.path(), &to.join(file.file_name()))?;
    }
    run.sync(to)
}

/// Bytes available to this user on the file system of `path`.
#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    system.f_bavail.checked_mul(system.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_path: &Path) -> Option<u64> {
    None
}

/// Reads the checkpoint in a directory, verifying every byte.
pub fn read(directory: &Path) -> Result<Checkpoint, CheckpointError> {
    let index = complete(directory)?;
    if index.has(PREPROCESSING) {
        // Only verified: a run that resumes learns it from its data.
        index.file(directory, PREPROCESSING)?;
    }
    parse(directory, |name| index.file(directory, name))
}

/// The files of a checkpoint, by name, for processes that can't read its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawFiles {
    directory: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

/// Reads the files of the checkpoint in a directory, verifying every byte.
///
/// # Errors
///
/// As for [`read`].
pub fn read_raw(directory: &Path) -> Result<RawFiles, CheckpointError> {
    let index = complete(directory)?;
    let files = index
        .names()
        .map(|name| Ok((name.to_owned(), index.file(directory, name)?)));
    Ok(RawFiles {
        files: files.collect::<Result<_, CheckpointError>>()?,
        directory: directory.to_owned(),
    })
}

impl RawFiles {
    /// The checkpoint in these files.
    ///
    /// # Errors
    ///
    /// If a file is not what it should be.
    pub fn parse(&self) -> Result<Checkpoint, CheckpointError> {
        parse(&self.directory, |name| {
            let file = self.files.iter().find(|(known, _)| known == name);
            let file = file.ok_or_else(|| damaged(&self.directory, name, "is missing"))?;
            Ok(file.1.clone())
        })
    }
}

/// The index of a checkpoint from which a run can resume.
pub(super) fn complete(directory: &Path) -> Result<Index, CheckpointError> {
    let index = Index::read(directory)?;
    if index.has(layout::TRAINING) {
        return Ok(index);
    }
    Err(CheckpointError::Damaged {
        path: directory.to_owned(),
        reason: "it has the parameters alone, from which no run can resume".to_owned(),
    })
}

fn parse(
    directory: &Path,
    file: impl Fn(&str) -> Result<Vec<u8>, CheckpointError>,
) -> Result<Checkpoint, CheckpointError> {
    Files::parse(file, |name, reason| damaged(directory, name, &reason))
}

pub(super) fn damaged(directory: &Path, name: &str, reason: &str) -> CheckpointError {
    CheckpointError::Damaged {
        path: directory.to_owned(),
        reason: format!("`{name}`: {reason}"),
    }
}

/// Reads only the parameters of the checkpoint in a directory, by their own names.
pub fn parameters(directory: &Path) -> Result<Vec<(String, Tensor)>, CheckpointError> {
    let index = Index::read(directory)?;
    let bytes = index.file(directory, layout::PARAMETERS)?;
    layout::tensors(&bytes).map_err(|reason| CheckpointError::Damaged {
        path: directory.to_owned(),
        reason: format!("`{}`: {reason}", layout::PARAMETERS),
    })
}

/// Reads what was learnt from the training data with the checkpoint in a directory; none if the task didn't say.
///
/// # Errors
///
/// If the checkpoint is damaged, or what it has of it can't be used.
pub fn preprocessing(directory: &Path) -> Result<Option<Preprocessing>, CheckpointError> {
    let index = Index::read(directory)?;
    if !index.has(PREPROCESSING) {
        return Ok(None);
    }
    let read = |name: &str| index.file(directory, name).map_err(io::Error::other);
    let found = Preprocessing::from_files(read);
    found
        .map(Some)
        .map_err(|error| damaged(directory, PREPROCESSING, &error.to_string()))
}

/// Reads the file of a name that all checkpoints of a run share, beside the one in a directory; none if it isn't there.
///
/// # Errors
///
/// If it can't be read, or is larger than `most` bytes.
pub fn shared_file(directory: &Path, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    // The contents that a tag had before are in a directory of their own.
    let around = directory.ancestors().skip(1).take(2);
    let mut files = around.map(|around| around.join(name));
    match files.find(|file| file.is_file()) {
        Some(file) => read_at_most(&file, most).map(Some),
        None => Ok(None),
    }
}

/// Reads the manifest of the run that saved the checkpoint in a directory; null if it had none.
///
/// # Errors
///
/// If the checkpoint is damaged.
pub fn manifest(directory: &Path) -> Result<Value, CheckpointError> {
    let bytes = Index::read(directory)?.file(directory, layout::MANIFEST)?;
    layout::parsed(&bytes).map_err(|reason| damaged(directory, layout::MANIFEST, &reason))
}

/// Time at which a checkpoint was saved, taken from its index: copies that share the files have the
/// same time.
pub(super) fn saved_at(directory: &Path) -> Option<std::time::SystemTime> {
    let index = std::fs::metadata(directory.join(index::NAME));
    index.and_then(|index| index.modified()).ok()
}

/// Whether the directory looks like a complete checkpoint; the contents of its files are not
/// verified.
pub(super) fn is_finished(directory: &Path) -> bool {
    Index::read(directory).is_ok()
}
