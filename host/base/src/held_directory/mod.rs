//! A run's output directory, opened once: what the host writes below it goes to that directory, whatever its path leads to
//! later.
//!
//! **Parts.** [`HeldDirectory`] writes files and directories completely or not at all. `unix` has the system's calls, by
//! descriptor; `by_path` those of systems without them. A directory that is not held ([`HeldDirectory::unheld`]) is
//! written to by path.
//!
//! Paths are given in full, as messages show them. One below the held directory is taken relative to its descriptor; any
//! other as it is, such as that of another run's checkpoint.

#[cfg(not(unix))]
mod by_path;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod unix;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[cfg(not(unix))]
use by_path::Calls;
#[cfg(unix)]
use unix::Calls;

/// Suffix of a file that is still being written.
pub const PART: &str = ".part";

/// A run's output directory, by which its files are written.
#[derive(Clone, Debug)]
pub struct HeldDirectory {
    path: PathBuf,
    calls: Calls,
    is_held: bool,
}

impl HeldDirectory {
    /// Opens the directory; where it is not there, or the system has no descriptors of directories, it is not held.
    pub fn hold(path: &Path) -> HeldDirectory {
        let calls = Calls::hold(path);
        HeldDirectory {
            path: path.to_owned(),
            is_held: calls.is_some(),
            calls: calls.unwrap_or_default(),
        }
    }

    /// Takes the directory by its path.
    pub fn unheld(path: &Path) -> HeldDirectory {
        HeldDirectory {
            path: path.to_owned(),
            calls: Calls::default(),
            is_held: false,
        }
    }

    /// Path of the directory when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it was opened.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Writes a file atomically: to a temporary file next to `path`, synced and then renamed. A reader of `path` sees
    /// either the old file or the new one, each complete, also after a crash.
    ///
    /// # Errors
    ///
    /// If it can't be written; an earlier file is then unchanged.
    pub fn write_atomically(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.write_atomically_by(path, |file| file.write_all(bytes))
    }

    /// As [`write_atomically`](HeldDirectory::write_atomically), with the content that `write` writes, piece by piece.
    ///
    /// # Errors
    ///
    /// If it can't be written, or `write` fails; an earlier file is then unchanged.
    pub fn write_atomically_by(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let directory = parent(path);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = directory.join(format!(".{name}{PART}"));
        let written = self
            .write_synced_by(&beside, write)
            .and_then(|()| self.rename(&beside, path));
        if written.is_err() {
            // The partial file is useless, and a failure to remove it changes nothing.
            drop(self.remove(&beside));
            return written;
        }
        self.sync(directory)
    }

    /// Writes a file and syncs it.
    ///
    /// # Errors
    ///
    /// If it can't be written.
    pub fn write_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.write_synced_by(path, |file| file.write_all(bytes))
    }

    fn write_synced_by(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let written = self.calls.create_file(path).and_then(|mut file| {
            write(&mut file)?;
            file.sync_all()
        });
        written.map_err(|error| named("write", path, &error))
    }

    /// Creates a directory.
    ///
    /// # Errors
    ///
    /// If it can't be created, or is there.
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        let created = self.calls.create_directory(path);
        created.map_err(|error| named("create the directory", path, &error))
    }

    /// Creates a directory if it isn't there, but none above it: if that is gone, so are the other files in it. The name of
    /// a new one is on disk when it returns.
    ///
    /// # Errors
    ///
    /// If it can't be created.
    pub fn make_directory(&self, path: &Path) -> io::Result<()> {
        match self.create_directory(path) {
            Ok(()) => self.sync(parent(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Renames a file or a directory.
    ///
    /// # Errors
    ///
    /// If it can't be renamed.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let what = format!("rename `{}` to", from.display());
        let renamed = self.calls.rename(from, to);
        renamed.map_err(|error| named(&what, to, &error))
    }

    /// Moves the directory `beside` to `place`; returns the directory that now has what was there before.
    ///
    /// # Errors
    ///
    /// If it can't be moved; what is at `place` is then unchanged.
    pub fn put(&self, beside: &Path, place: &Path) -> io::Result<Option<PathBuf>> {
        if !self.exists(place) {
            self.rename(beside, place)?;
            self.sync(parent(place))?;
            return Ok(None);
        }
        if self.calls.exchange(beside, place).is_ok() {
            self.sync(parent(place))?;
            return Ok(Some(beside.to_owned()));
        }
        let old = aside(place, "old");
        self.rename(place, &old)?;
        if let Err(error) = self.rename(beside, place) {
            drop(self.rename(&old, place));
            return Err(error);
        }
        self.sync(parent(place))?;
        Ok(Some(old))
    }

    /// Gives a file a second name: a hard link or, where the file system has none, a synced copy.
    ///
    /// # Errors
    ///
    /// If it can't be read or written.
    pub fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.calls.hard_link(from, to).is_ok() {
            return Ok(());
        }
        let copied = self.calls.open(from).and_then(|mut file| {
            let mut copy = self.calls.create_file(to)?;
            io::copy(&mut file, &mut copy)?;
            copy.sync_all()
        });
        let what = format!("copy `{}` to", from.display());
        copied.map_err(|error| named(&what, to, &error))
    }

    /// Makes a symbolic link at `place`.
    ///
    /// # Errors
    ///
    /// If it can't be made, as on file systems that have none.
    pub fn link_to(&self, target: &Path, place: &Path) -> io::Result<()> {
        let linked = self.calls.symbolic_link(target, place);
        linked.map_err(|error| named("make the link", place, &error))
    }

    /// Whether there is something at a path, also a link that leads nowhere.
    pub fn exists(&self, path: &Path) -> bool {
        self.calls.exists(path)
    }

    /// Removes a file, or a directory with all that is in it. Links in it are not followed.
    ///
    /// # Errors
    ///
    /// If it can't be removed, or is not there.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.calls.remove(path);
        removed.map_err(|error| named("remove", path, &error))
    }

    /// Removes a directory if it is empty.
    ///
    /// # Errors
    ///
    /// If it is not empty, or can't be removed.
    pub fn remove_empty(&self, path: &Path) -> io::Result<()> {
        let removed = self.calls.remove_empty(path);
        removed.map_err(|error| named("remove the directory", path, &error))
    }

    /// Syncs a directory: a rename in it is durable only after that.
    ///
    /// # Errors
    ///
    /// If it can't be synced.
    #[cfg(unix)]
    pub fn sync(&self, directory: &Path) -> io::Result<()> {
        let synced = self.calls.open(directory).and_then(|file| file.sync_all());
        synced.map_err(|error| named("sync the directory", directory, &error))
    }

    #[cfg(not(unix))]
    pub fn sync(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }

    /// If the path leads to this directory no more, a message that says so: nothing more is to be written to it.
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
        let held = rustix::fs::fstat(self.calls.directory()?).ok()?;
        let found = rustix::fs::stat(&self.path).ok()?;
        Some((held.st_dev, held.st_ino) == (found.st_dev, found.st_ino))
    }

    #[cfg(not(unix))]
    fn is_same(&self) -> Option<bool> {
        None
    }

    /// Where the directory is now, if it still is and the system says so.
    #[cfg(target_os = "linux")]
    fn path_now(&self) -> Option<PathBuf> {
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", self.calls.directory()?.as_raw_fd());
        let path = std::fs::read_link(link).ok()?;
        path.is_dir().then_some(path)
    }

    #[cfg(not(target_os = "linux"))]
    fn path_now(&self) -> Option<PathBuf> {
        None
    }
}

/// The directory that a path is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// An error that says what failed, and where.
fn named(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("can't {what} `{}`: {error}", path.display()),
    )
}

/// Temporary name next to `place` for a directory that is not complete yet, or is being replaced.
pub fn aside(place: &Path, what: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.{what}-{}", std::process::id()))
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
