//! A directory below which files are read: by their relative paths, part by part, and through no link. What is elsewhere stays
//! unread, whatever a run's directory has in it.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};

#[cfg(unix)]
use by_descriptor as calls;
#[cfg(not(unix))]
use by_path as calls;

/// Largest file in bytes that is read.
const LARGEST: u64 = 256 << 20;

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) is_directory: bool,
}

/// By what a file's change is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Since 1970.
    pub(super) seconds: i64,
    nanoseconds: i64,
    pub(super) bytes: u64,
}

/// The directory, opened once.
pub(super) struct Inside {
    path: PathBuf,
    root: calls::Root,
}

impl Inside {
    /// Opens a directory. Its own path may have links.
    pub(super) fn open(path: &Path) -> io::Result<Inside> {
        Ok(Inside {
            path: path.to_owned(),
            root: calls::Root::open(path)?,
        })
    }

    /// Path of the directory, as it was given.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file.
    ///
    /// # Errors
    ///
    /// If a part of its path is a link, the path leads elsewhere, or the file is too large or none.
    pub(super) fn file(&self, relative: &Path) -> io::Result<File> {
        let file = self.root.file(&parts(relative)?)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        if metadata.len() > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(file)
    }

    /// Opens a file that is given with the directory's own path before it.
    pub(super) fn file_at(&self, path: &Path) -> io::Result<File> {
        let relative = path.strip_prefix(&self.path);
        self.file(relative.map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))?)
    }

    /// What is in a directory, by name: files and directories whose names are UTF-8, and no links.
    pub(super) fn entries(&self, relative: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = self.root.entries(&parts(relative)?)?;
        entries.sort();
        Ok(entries)
    }

    /// Stamps of files in a directory, for each of `names`; none of those that are not there.
    pub(super) fn stamps<const N: usize>(
        &self,
        relative: &Path,
        names: [&str; N],
    ) -> [Option<Stamp>; N] {
        match parts(relative).and_then(|parts| self.root.directory(&parts)) {
            Ok(directory) => names.map(|name| calls::stamp(&directory, name)),
            Err(_) => [None; N],
        }
    }
}

/// Parts of a relative path that only leads downwards.
fn parts(relative: &Path) -> io::Result<Vec<&Path>> {
    let parts = relative.components().map(|part| match part {
        Component::Normal(name) => Ok(Path::new(name)),
        _ => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    });
    parts.collect()
}

/// By descriptors: a part is looked up in the directory before it, which no rename can replace meanwhile.
#[cfg(unix)]
mod by_descriptor {
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

    use super::{Entry, Stamp};

    pub(super) struct Root(OwnedFd);

    const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

    impl Root {
        pub(super) fn open(path: &Path) -> io::Result<Root> {
            Ok(Root(openat(CWD, path, DIRECTORY, Mode::empty())?))
        }

        pub(super) fn directory(&self, parts: &[&Path]) -> io::Result<File> {
            let flags = DIRECTORY | OFlags::NOFOLLOW;
            let mut directory = openat(&self.0, ".", DIRECTORY, Mode::empty())?;
            for part in parts {
                directory = openat(&directory, *part, flags, Mode::empty())?;
            }
            Ok(directory.into())
        }

        pub(super) fn file(&self, parts: &[&Path]) -> io::Result<File> {
            let (name, above) = parts.split_last().ok_or(io::ErrorKind::IsADirectory)?;
            let directory = self.directory(above)?;
            // A pipe in a file's place is opened without waiting for its writer.
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            Ok(openat(&directory, *name, flags, Mode::empty())?.into())
        }

        pub(super) fn entries(&self, parts: &[&Path]) -> io::Result<Vec<Entry>> {
            let directory = self.directory(parts)?;
            let mut entries = Vec::new();
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                let kind = match entry.file_type() {
                    FileType::Unknown => kind(&directory, name),
                    kind => kind,
                };
                let is_directory = kind == FileType::Directory;
                let is_shown = is_directory || kind == FileType::RegularFile;
                if let Some(name) = name.to_str()
                    && is_shown
                    && !matches!(name, "." | "..")
                {
                    let name = name.to_owned();
                    entries.push(Entry { name, is_directory });
                }
            }
            Ok(entries)
        }
    }

    /// For file systems that don't list kinds.
    fn kind(directory: &File, name: &OsStr) -> FileType {
        let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        found.map_or(FileType::Unknown, |found| {
            FileType::from_raw_mode(found.st_mode)
        })
    }

    /// Of a regular file.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        clippy::cast_possible_wrap,
        reason = "the types differ from system to system"
    )]
    pub(super) fn stamp(directory: &File, name: &str) -> Option<Stamp> {
        let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        is_file.then_some(Stamp {
            seconds: found.st_mtime as i64,
            nanoseconds: found.st_mtime_nsec as i64,
            bytes: u64::try_from(found.st_size).unwrap_or(0),
        })
    }
}

/// By paths, for systems without descriptors of directories: each part is looked at before the file is opened.
#[cfg(not(unix))]
mod by_path {
    use std::fs::File;
    use std::io;
    use std::path::{Path, PathBuf};
    use std::time::UNIX_EPOCH;

    use super::{Entry, Stamp};

    pub(super) struct Root(PathBuf);

    impl Root {
        pub(super) fn open(path: &Path) -> io::Result<Root> {
            let path = path.canonicalize()?;
            std::fs::read_dir(&path)?;
            Ok(Root(path))
        }

        pub(super) fn directory(&self, parts: &[&Path]) -> io::Result<PathBuf> {
            let mut path = self.0.clone();
            for part in parts {
                path.push(part);
                if path.symlink_metadata()?.is_symlink() {
                    return Err(io::ErrorKind::PermissionDenied.into());
                }
            }
            Ok(path)
        }

        pub(super) fn file(&self, parts: &[&Path]) -> io::Result<File> {
            File::open(self.directory(parts)?)
        }

        pub(super) fn entries(&self, parts: &[&Path]) -> io::Result<Vec<Entry>> {
            let mut entries = Vec::new();
            for entry in std::fs::read_dir(self.directory(parts)?)?.flatten() {
                let kind = entry.file_type()?;
                let is_directory = kind.is_dir();
                if let Ok(name) = entry.file_name().into_string()
                    && (is_directory || kind.is_file())
                {
                    entries.push(Entry { name, is_directory });
                }
            }
            Ok(entries)
        }
    }

    pub(super) fn stamp(directory: &Path, name: &str) -> Option<Stamp> {
        let found = directory.join(name).symlink_metadata().ok()?;
        let since = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        found.is_file().then_some(Stamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: since.subsec_nanos().into(),
            bytes: found.len(),
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_opened_elsewhere() {
        let outside = tempfile::tempdir().expect("a directory");
        std::fs::write(outside.path().join("secret"), b"s").expect("written");
        let place = tempfile::tempdir().expect("a directory");
        let root = place.path().join("runs");
        std::fs::create_dir_all(root.join("a/b")).expect("made");
        std::fs::write(root.join("a/b/file"), b"one").expect("written");
        std::fs::write(place.path().join("above"), b"above").expect("written");
        symlink(outside.path(), root.join("a/link")).expect("linked");
        symlink(outside.path().join("secret"), root.join("a/secret")).expect("linked");
        symlink(root.join("a/b/file"), root.join("a/within")).expect("linked");
        let inside = Inside::open(&root).expect("opened");
        assert!(inside.file(Path::new("a/b/file")).is_ok());
        assert!(inside.file_at(&root.join("a/b/file")).is_ok());
        let above = place.path().join("above");
        for path in [
            "a/link/secret",
            "a/secret",
            "a/within",
            "../above",
            "a/../../above",
            "a/b",
            "",
            "/etc/hostname",
            &above.to_string_lossy(),
        ] {
            assert!(inside.file(Path::new(path)).is_err(), "{path}");
        }
        assert!(inside.file_at(&above).is_err());
        let names = |path| {
            let entries = inside.entries(Path::new(path)).expect("listed");
            entries
                .into_iter()
                .map(|entry| entry.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names("a"), ["b"]);
        assert_eq!(names(""), ["a"]);
        assert!(inside.entries(Path::new("a/link")).is_err());
        let stamps = inside.stamps(Path::new("a"), ["secret", "within", "nothing"]);
        assert_eq!(stamps, [None; 3]);
        let [stamp] = inside.stamps(Path::new("a/b"), ["file"]);
        assert_eq!(stamp.map(|stamp| stamp.bytes), Some(3));
    }
}
