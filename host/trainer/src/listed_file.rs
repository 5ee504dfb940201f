//! Files that a list beside them describes, with size and SHA-256: they are verified while they are read.

use std::path::Path;

use sconce_base::regular_file::read_regular;
use serde::{Deserialize, Serialize};

use crate::digest::fingerprint;

/// Entry of such a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListedFile {
    /// Name of the file, in the directory of the list.
    pub(crate) name: String,
    /// Size in bytes.
    pub(crate) bytes: u64,
    /// SHA-256 in hexadecimal.
    pub(crate) sha256: String,
}

impl ListedFile {
    /// The entry of a file with this content.
    pub(crate) fn of(name: &str, bytes: &[u8]) -> ListedFile {
        ListedFile {
            name: name.to_owned(),
            bytes: bytes.len() as u64,
            sha256: fingerprint(bytes),
        }
    }

    /// Reads and verifies the file. `list` is the name of the list, for messages.
    ///
    /// # Errors
    ///
    /// If it can't be read or is another one: the rest of a sentence about it.
    pub(crate) fn read(&self, directory: &Path, list: &str) -> Result<Vec<u8>, String> {
        let path = directory.join(&self.name);
        let unreadable = |error: std::io::Error| format!("can't be read: {error}");
        // Compared before anything is read: the file may be far larger.
        let found = std::fs::metadata(&path).map_err(unreadable)?.len();
        if found != self.bytes {
            return Err(format!("has {found} bytes, `{list}` says {}", self.bytes));
        }
        let bytes = read_regular(&path).map_err(unreadable)?;
        let found = fingerprint(&bytes);
        if !found.eq_ignore_ascii_case(&self.sha256) {
            return Err(format!(
                "has the SHA-256 {found}, `{list}` says {}",
                self.sha256
            ));
        }
        Ok(bytes)
    }
}
