//! Which files a data set was read from, by the hash of what was read: so that data that have changed are noticed.
//!
//! **Parts**
//! - `hash`: [`ContentHash`], BLAKE3 as `b3sum` prints it, of a file or of a directory's files.
//! - `split_record`: how a load divided the samples. `recording`: that, and the list of files read by a load. Readers of all kinds of data note their files there.
//! - `hash_cache`: hashes of large files that are read on demand, kept from one start to the next.
//! - `comparison`: [`file_changes`], what to tell a person about two lists. `listing`: a list as `b3sum` writes and checks it.
//!
//! **Flow.** [`load`](crate::load()) opens a recording. A file that is read whole is hashed in memory, as the very bytes that are
//! parsed; one that is decompressed, as it passes by; an image when it is decoded. A file that stays on disk and is read in
//! parts is hashed in a pass at the start, and must then keep its size and time. The recording ends as [`DataFile`]s in
//! [`Splits`](crate::Splits).

mod comparison;
mod hash;
mod hash_cache;
mod listing;
mod recording;
mod split_record;

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use comparison::file_changes;
pub use hash::ContentHash;
pub(crate) use hash::ContentHasher;
pub(crate) use hash_cache::{CacheUse, HashCache};
pub use listing::{listing, with_listed_members};
pub(crate) use recording::{
    HashingFile, Recorded, RowHasher, is_recording, note, note_directory, note_hash, note_rows,
    note_split, recorded,
};

pub use split_record::{HashOf, PerPart, SplitRecord};

use crate::DataError;
use crate::error::unreadable;
use sconce_base::regular_file::open_regular;

/// A file or directory that data were read from, with the hash of what was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    /// Path as in the manifest.
    pub name: String,
    /// Size in bytes, of all files in a directory.
    pub bytes: u64,
    /// Number of files in a directory; none for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Hash of the content: what `b3sum` prints for a file, or [that of a directory](ContentHash::of_directory).
    pub hash: ContentHash,
    /// Hash of the fields that are used, of a table: the same if only the way in which the table is written changes, such as
    /// line ends, quotes or a byte-order mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<ContentHash>,
    /// The files of a directory, if they are known.
    #[serde(skip)]
    members: Arc<[Member]>,
}

/// A file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    /// Path relative to the directory, with `/` between its parts.
    name: String,
    content: FileContent,
}

/// Size in bytes and hash of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileContent {
    pub(crate) bytes: u64,
    pub(crate) hash: ContentHash,
}

impl FileContent {
    /// The content of a file that was read whole.
    pub(crate) fn of(bytes: &[u8]) -> FileContent {
        FileContent {
            bytes: bytes.len() as u64,
            hash: ContentHash::of(bytes),
        }
    }
}

impl DataFile {
    /// Hashes a file, for tasks that read files of their own.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub fn of(path: &Path) -> Result<DataFile, DataError> {
        let hashed = open_regular(path).and_then(ContentHash::of_reader);
        let (hash, bytes) = hashed.map_err(|error| unreadable(path, error))?;
        Ok(DataFile::new(path.display().to_string(), bytes, hash))
    }

    /// Describes content that a task has read itself: its name in messages, its size in bytes and its hash.
    pub fn new(name: String, bytes: u64, hash: ContentHash) -> DataFile {
        DataFile {
            name,
            bytes,
            files: None,
            hash,
            rows: None,
            members: Arc::new([]),
        }
    }

    fn directory(name: String, members: Vec<Member>) -> DataFile {
        let hashes = members.iter();
        let hashes = hashes.map(|member| (member.name.as_str(), member.content.hash));
        DataFile {
            files: Some(members.len() as u64),
            hash: ContentHash::of_directory(hashes),
            bytes: members.iter().map(|member| member.content.bytes).sum(),
            members: members.into(),
            ..DataFile::new(name, 0, ContentHash::of(&[]))
        }
    }
}

#[cfg(test)]
mod tests;
