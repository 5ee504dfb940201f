//! `index.json`, the last file of a checkpoint: sizes and SHA-256 of all others.
//!
//! It is written once they are synced: a checkpoint without it was never finished, and one whose
//! files don't match it is damaged.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::listed_file::ListedFile;
use sconce_base::regular_file::read_at_most;

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
    files: Vec<ListedFile>,
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
        Index {
            format,
            host: host.to_owned(),
            files: files
                .map(|(name, bytes)| ListedFile::of(name, bytes))
                .collect(),
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
        if !(1..=super::FORMAT).contains(&version.format) {
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
        entry.read(directory, NAME).map_err(damaged)
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
