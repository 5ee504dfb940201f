//! Hashes of files that are read on demand, kept from one start to the next in the user's cache directory.
//!
//! An entry counts if device, inode, size and both times (of modification and of change, in nanoseconds) are as they were:
//! tools can restore the first time after an edit, but nothing sets the second. As in git, a file that was modified less than
//! [`RACY`] before it was hashed is not kept, since it could change again within the resolution of its times.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};

use super::ContentHash;
use crate::DataError;
use sconce_base::regular_file::read_regular;

/// Environment variable that switches the cache off.
const VARIABLE: &str = "SCONCE_DATA_HASH";

/// Size in bytes below which nothing is kept: hashing takes a few hundredths of a second.
const LEAST: u64 = 64 << 20;

/// Age of a modification below which a hash is not kept.
const RACY: Duration = Duration::from_secs(2);

/// Whether hashes of earlier starts are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// `always` in the environment variable: files are hashed at each start.
    Never,
    /// `cached`, the default.
    Cached,
}

impl CacheUse {
    /// Reads the environment variable.
    pub(crate) fn from_environment() -> Result<CacheUse, DataError> {
        let Some(found) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
            return Ok(CacheUse::Cached);
        };
        match found.to_str() {
            Some("always") => Ok(CacheUse::Never),
            Some("cached") => Ok(CacheUse::Cached),
            _ => Err(DataError::HashSetting {
                found: found.to_string_lossy().into_owned(),
            }),
        }
    }
}

/// What identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    #[cfg(unix)]
    #[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
    fn of(metadata: &Metadata) -> Option<FileVersion> {
        use std::os::unix::fs::MetadataExt;
        Some(FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Elsewhere no time is there that can't be set.
    #[cfg(not(unix))]
    fn of(_metadata: &Metadata) -> Option<FileVersion> {
        None
    }

    /// Whether a file hashed at this time could have changed since without another time.
    fn is_racy(&self, hashed: SystemTime) -> bool {
        let limit = hashed.checked_sub(RACY);
        let limit = limit.and_then(|limit| limit.duration_since(UNIX_EPOCH).ok());
        let limit = limit.map_or(0, |limit| limit.as_secs().cast_signed());
        self.modified.0 >= limit || self.changed.0 >= limit
    }
}

/// Kept hashes of a file, or of a directory's files.
#[derive(Debug, Default)]
pub(crate) struct HashCache {
    /// None if nothing is kept.
    file: Option<PathBuf>,
    known: BTreeMap<FileVersion, ContentHash>,
    new: BTreeMap<FileVersion, ContentHash>,
}

impl HashCache {
    /// Opens what is kept of the data at `path`, which have `size` bytes.
    ///
    /// # Errors
    ///
    /// If the environment variable has no valid value.
    pub(crate) fn open(path: &Path, size: u64) -> Result<HashCache, DataError> {
        let is_kept = CacheUse::from_environment()? == CacheUse::Cached && size >= LEAST;
        let base = etcetera::choose_base_strategy().ok().filter(|_| is_kept);
        let directory = base.map(|base| base.cache_dir().join("sconce").join("data-hashes"));
        Ok(directory.map_or_else(HashCache::default, |directory| {
            HashCache::in_directory(&directory, path)
        }))
    }

    fn in_directory(directory: &Path, path: &Path) -> HashCache {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let name = ContentHash::of(path.as_os_str().as_encoded_bytes()).digits();
        let file = directory.join(name);
        // What can't be read is hashed again.
        let kept = read_regular(&file).ok();
        let kept: Option<Vec<(FileVersion, [u8; 32])>> =
            kept.and_then(|bytes| postcard::from_bytes(&bytes).ok());
        let kept = kept.unwrap_or_default().into_iter();
        HashCache {
            file: Some(file),
            known: kept
                .map(|(version, hash)| (version, ContentHash(hash)))
                .collect(),
            ..HashCache::default()
        }
    }

    /// Returns the hash of a file, if it was kept of this version.
    pub(crate) fn get(&self, metadata: &Metadata) -> Option<ContentHash> {
        self.known.get(&FileVersion::of(metadata)?).copied()
    }

    /// Keeps the hash of a version, whether it was read or had been kept.
    pub(crate) fn put(&mut self, metadata: &Metadata, hash: ContentHash) {
        self.put_at(SystemTime::now(), metadata, hash);
    }

    fn put_at(&mut self, now: SystemTime, metadata: &Metadata, hash: ContentHash) {
        let version = FileVersion::of(metadata);
        if let Some(version) = version.filter(|version| !version.is_racy(now)) {
            self.new.insert(version, hash);
        }
    }

    /// Writes what was put, in place of what was kept. A cache that can't be written is only slower.
    pub(crate) fn save(&self) {
        let Some(file) = &self.file else { return };
        if self.new == self.known {
            return;
        }
        let kept = self.new.iter().map(|(&version, hash)| (version, hash.0));
        let kept: Vec<(FileVersion, [u8; 32])> = kept.collect();
        let write = || {
            let directory = file.parent()?;
            fs::create_dir_all(directory).ok()?;
            let beside = directory.join(format!(".{}.new", std::process::id()));
            let mut output = fs::File::create(&beside).ok()?;
            output.write_all(&postcard::to_allocvec(&kept).ok()?).ok()?;
            fs::rename(&beside, file).ok()
        };
        let _ = write();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_known_until_anything_of_it_changes() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, kept) = (directory.path().join("data"), directory.path().join("kept"));
        fs::write(&file, b"0123456789").expect("written");
        let before = fs::metadata(&file).expect("a file");
        let hash = ContentHash::of(b"0123456789");
        let in_cache = || HashCache::in_directory(&kept, &file);

        // It could change again within the resolution of its times.
        let mut cache = in_cache();
        cache.put_at(SystemTime::now(), &before, hash);
        cache.save();
        assert_eq!(in_cache().get(&before), None);
        let later = SystemTime::now() + Duration::from_secs(5);
        cache.put_at(later, &before, hash);
        cache.save();
        assert_eq!(in_cache().get(&before), Some(hash));

        // An edit of the same size, after which the time is restored.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(&file, b"9876543210").expect("written");
        let edited = fs::File::options().write(true).open(&file).expect("open");
        edited
            .set_modified(before.modified().expect("a time"))
            .expect("set");
        let after = fs::metadata(&file).expect("a file");
        assert_eq!(after.modified().ok(), before.modified().ok());
        assert_eq!(in_cache().get(&after), None);

        // A damaged cache is one that knows nothing.
        let entry = fs::read_dir(&kept).expect("a directory").next();
        fs::write(entry.expect("a file").expect("it").path(), b"\xff\xff\xff").expect("written");
        assert_eq!(in_cache().get(&before), None);
    }

    #[test]
    fn small_data_are_not_kept() {
        let cache = HashCache::open(Path::new("data"), LEAST - 1).expect("a cache");
        assert_eq!(cache.file, None);
    }
}
