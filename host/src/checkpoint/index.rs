//! `index.json`, the last file of a checkpoint: sizes and SHA-256 of all others.
//!
//! It is written once they are synced: a checkpoint without it was never finished, and one whose
//! files don't match it is damaged.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::digest::fingerprint;
use sconce_data::regular_file::{read_at_most, read_regular};

/// Name of the index file.
pub(super) const NAME: &str = "index.json";

/// Size in bytes above which an index is not read: that of some hundred thousand files.
const LARGEST: u64 = 64 << 20;

/// Contents of `index.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Index {
    /// Version of the format.
    pub(super) format: u32,
    /// Host that wrote it.
    pub(super) host: String,
    /// All other files, in the order of writing.
    files: Vec<FileEntry>,
}

/// Entry for one file.
#[derive(Debug, Serialize, Deserialize)]
struct FileEntry {
    name: String,
    bytes: u64,
    sha256: String,
}

/// Fields that every version of the index has.
#[derive(Deserialize)]
struct Version {
    format: u32,
    #[serde(default)]
    host: String,
}

impl Index {
    /// Computes the index of files by name.
    pub(super) fn of<'a>(
        files: impl Iterator<Item = (&'a str, &'a [u8])>,
        host: &str,
        format: u32,
    ) -> Index {
        let entry = |(name, bytes): (&str, &[u8])| FileEntry {
            name: name.to_owned(),
            bytes: bytes.len() as u64,
            sha256: fingerprint(bytes),
        };
        Index {
            format,
            host: host.to_owned(),
            files: files.map(entry).collect(),
        }
    }

    /// Reads the index of the checkpoint in a directory.
    pub(super) fn read(directory: &Path) -> Result<Index, CheckpointError> {
        let damaged = |reason: String| CheckpointError::Damaged {
            path: directory.to_owned(),
            reason,
        };
        let text = match read_at_most(&directory.join(NAME), LARGEST) {
            Ok(text) => text,
            Err(_) if !directory.is_dir() => {
                return Err(CheckpointError::Missing {
                    path: directory.to_owned(),
                });
            }
            Err(error) => return Err(damaged(format!("`{NAME}` can't be read: {error}"))),
        };
        let version: Version = serde_json::from_slice(&text)
            .map_err(|error| damaged(format!("`{NAME}` can't be read: {error}")))?;
        if !(super::OLDEST_FORMAT..=super::FORMAT).contains(&version.format) {
            return Err(CheckpointError::Format {
                path: directory.to_owned(),
                found: version.format,
                host: version.host,
            });
        }
        serde_json::from_slice(&text)
            .map_err(|error| damaged(format!("`{NAME}` can't be read: {error}")))
    }

    /// Whether the index lists a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.files.iter().any(|entry| entry.name == name)
    }

    /// Names of the files.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|entry| entry.name.as_str())
    }

    /// Reads one of the files and verifies it.
    pub(super) fn file(&self, directory: &Path, name: &str) -> Result<Vec<u8>, CheckpointError> {
        let damaged = |what: String| CheckpointError::Damaged {
            path: directory.to_owned(),
            reason: format!("`{name}` {what}"),
        };
        let entry = self.files.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| damaged(format!("is not in `{NAME}`")))?;
        let path = directory.join(name);
        let unreadable = |error: std::io::Error| damaged(format!("can't be read: {error}"));
        // Compared before anything is read: the file may be far larger.
        let found = std::fs::metadata(&path).map_err(unreadable)?.len();
        if found != entry.bytes {
            let expected = entry.bytes;
            return Err(damaged(format!(
                "has {found} bytes, `{NAME}` says {expected}"
            )));
        }
        let bytes = read_regular(&path).map_err(unreadable)?;
        let found = fingerprint(&bytes);
        if !found.eq_ignore_ascii_case(&entry.sha256) {
            return Err(damaged(format!(
                "has the SHA-256 {found}, `{NAME}` says {}",
                entry.sha256
            )));
        }
        Ok(bytes)
    }

    /// Whether all files are there with their sizes; their contents are not verified.
    pub(super) fn is_there(&self, directory: &Path) -> bool {
        self.files.iter().all(|entry| {
            let file = std::fs::metadata(directory.join(&entry.name));
            file.is_ok_and(|file| file.is_file() && file.len() == entry.bytes)
        })
    }

    /// Total size in bytes of all files except the index itself.
    pub(super) fn total(&self) -> u64 {
        self.files.iter().map(|entry| entry.bytes).sum()
    }
}
