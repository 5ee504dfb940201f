//! Atomic writing of files and directories. Reading is in [`crate::regular_file`].

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Suffix of a file that is still being written.
pub const PART: &str = ".part";

/// Writes a file atomically: to a temporary file next to `path`, synced and then renamed. A reader
/// of `path` sees either the old file or the new one, each complete, also after a crash.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = directory.join(format!(".{name}{PART}"));
    let written = (|| {
        let mut file = fs_err::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs_err::rename(&beside, path)
    })();
    if written.is_err() {
        // The partial file is useless, and a failure to remove it changes nothing.
        drop(fs_err::remove_file(&beside));
        return written;
    }
    sync_directory(directory)
}

/// Temporary name next to `place` for a directory that is not complete yet, or is being replaced.
pub fn aside(place: &Path, what: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.{what}-{}", std::process::id()))
}

/// Writes a file and syncs it.
pub fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs_err::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Moves the directory `beside` to `place`; returns the directory that now has what was there before.
pub fn put(beside: &Path, place: &Path) -> io::Result<Option<PathBuf>> {
    let parent = place.parent().unwrap_or(Path::new("."));
    if place.symlink_metadata().is_err() {
        fs_err::rename(beside, place)?;
        sync_directory(parent)?;
        return Ok(None);
    }
    if exchange(beside, place).is_ok() {
        sync_directory(parent)?;
        return Ok(Some(beside.to_owned()));
    }
    let old = aside(place, "old");
    fs_err::rename(place, &old)?;
    if let Err(error) = fs_err::rename(beside, place) {
        drop(fs_err::rename(&old, place));
        return Err(error);
    }
    sync_directory(parent)?;
    Ok(Some(old))
}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_one: &Path, _other: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Removes a directory or a file.
pub fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    }
}

/// Syncs a directory: a rename is durable only after that.
#[cfg(unix)]
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
pub fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}

/// How many files this process may have open at once, if the system says.
#[cfg(unix)]
pub fn most_open() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
pub fn most_open() -> Option<u64> {
    None
}

/// Advice for an error whose message says that the limit of open files was reached.
pub fn open_limit_hint(words: &str) -> Option<String> {
    if !["Too many open files", "(os error 24)"]
        .iter()
        .any(|sign| words.contains(sign))
    {
        return None;
    }
    let most = most_open()?;
    // A common limit, or clearly more than what was not enough.
    let enough = most.saturating_mul(4).max(1024);
    Some(format!(
        "this process may have {most} files open at once; `ulimit -n {enough}` before it allows more"
    ))
}

/// Creates a directory if it isn't there, but none above it: if that is gone, so are the other files in it.
pub fn make_directory(directory: &Path) -> io::Result<()> {
    match fs_err::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// If a run's output directory is gone, a message that says so: the reason why nothing can be written to it.
pub fn vanished(directory: &Path) -> Option<String> {
    if !matches!(directory.try_exists(), Ok(false)) {
        return None;
    }
    Some(format!(
        "the output directory `{}` is not there any more: it was removed, renamed or unmounted during the run",
        directory.display()
    ))
}

/// A run's output directory as it was when the run began, whatever its path leads to later.
#[derive(Debug)]
pub struct HeldDirectory {
    path: PathBuf,
    /// Open, so that the system gives its number to no other directory.
    #[cfg(unix)]
    directory: std::fs::File,
}

impl HeldDirectory {
    /// Opens the directory; none where it is not there.
    pub fn of(path: &Path) -> Option<HeldDirectory> {
        Some(HeldDirectory {
            path: path.to_owned(),
            #[cfg(unix)]
            directory: std::fs::File::open(path).ok()?,
        })
    }

    /// If the path leads to this directory no more, a message that says so: nothing more can be written to it.
    pub fn vanished(&self) -> Option<String> {
        let is_same = self.is_same();
        if is_same != Some(false) {
            return vanished(&self.path);
        }
        let now = match self.path_now() {
            Some(path) => format!("; what was saved is in `{}`", path.display()),
            None => String::new(),
        };
        Some(format!(
            "the output directory `{}` is not the one in which the run began: that was removed, renamed or unmounted, and \
             there is another in its place{now}",
            self.path.display()
        ))
    }

    /// Whether the path leads to this directory; none if that is unknown, as where there is nothing.
    #[cfg(unix)]
    fn is_same(&self) -> Option<bool> {
        use std::os::unix::fs::MetadataExt;
        let (held, found) = (
            self.directory.metadata().ok()?,
            std::fs::metadata(&self.path).ok()?,
        );
        Some((held.dev(), held.ino()) == (found.dev(), found.ino()))
    }

    #[cfg(not(unix))]
    fn is_same(&self) -> Option<bool> {
        None
    }

    /// Where the directory is now, if it still is and the system says so.
    #[cfg(target_os = "linux")]
    fn path_now(&self) -> Option<PathBuf> {
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        let path = std::fs::read_link(link).ok()?;
        path.is_dir().then_some(path)
    }

    #[cfg(not(target_os = "linux"))]
    fn path_now(&self) -> Option<PathBuf> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_the_place_of_another_is_not_it() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("run");
        std::fs::create_dir(&path).expect("made");
        let held = HeldDirectory::of(&path).expect("it is there");
        assert_eq!(held.vanished(), None);
        let moved = place.path().join("moved");
        std::fs::rename(&path, &moved).expect("moved");
        let gone = held.vanished().expect("gone");
        assert!(gone.contains("is not there any more"), "{gone}");
        std::fs::create_dir(&path).expect("made again");
        let other = held.vanished().expect("another");
        assert!(other.contains("there is another in its place"), "{other}");
        assert!(
            !cfg!(target_os = "linux") || other.contains("moved`"),
            "{other}"
        );
        // A link to the directory leads to it.
        std::fs::remove_dir(&path).expect("removed");
        std::os::unix::fs::symlink(&moved, &path).expect("linked");
        assert_eq!(held.vanished(), None);
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.json");
        write_atomically(&path, b"one").expect("written");
        write_atomically(&path, b"two").expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
        assert_eq!(
            std::fs::read_dir(directory.path()).expect("read").count(),
            1
        );
        let nowhere = directory.path().join("no/x.json");
        let error = write_atomically(&nowhere, b"one").expect_err("no directory");
        assert!(error.to_string().contains("no/.x.json.part"), "{error}");
    }
}
