//! Calls by descriptor: what is below the directory is named relative to it, so that its path isn't followed again.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, linkat, mkdirat, openat, renameat, statat,
    symlinkat, unlinkat,
};

/// An open directory with its path, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Option<(PathBuf, Arc<OwnedFd>)>);

impl Calls {
    pub(super) fn hold(path: &Path) -> Option<Calls> {
        let directory = openat(
            CWD,
            path,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        Some(Calls(Some((path.to_owned(), Arc::new(directory.ok()?)))))
    }

    pub(super) fn directory(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|(_, directory)| directory.as_fd())
    }

    /// The descriptor and the name by which a path is reached.
    fn at<'a>(&'a self, path: &'a Path) -> (BorrowedFd<'a>, &'a Path) {
        let held = self.0.as_ref();
        let inside = held
            .and_then(|(base, directory)| Some((directory.as_fd(), path.strip_prefix(base).ok()?)));
        match inside {
            Some((directory, name)) if name.as_os_str().is_empty() => (directory, Path::new(".")),
            Some(inside) => inside,
            None => (CWD, path),
        }
    }

    pub(super) fn create_directory(&self, path: &Path) -> io::Result<()> {
        let (directory, name) = self.at(path);
        Ok(mkdirat(directory, name, Mode::from_raw_mode(0o777))?)
    }

    /// Opens a new file, or an empty one in the place of an earlier one.
    pub(super) fn create_file(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let (directory, name) = self.at(path);
        Ok(openat(directory, name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    /// Opens a file or a directory to read it.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        let (directory, name) = self.at(path);
        Ok(openat(directory, name, OFlags::CLOEXEC, Mode::empty())?.into())
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.at(from), self.at(to));
        Ok(renameat(from.0, from.1, to.0, to.1)?)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        use rustix::fs::{RenameFlags, renameat_with};
        let (one, other) = (self.at(one), self.at(other));
        Ok(renameat_with(
            one.0,
            one.1,
            other.0,
            other.1,
            RenameFlags::EXCHANGE,
        )?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn exchange(&self, _one: &Path, _other: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.at(from), self.at(to));
        Ok(linkat(from.0, from.1, to.0, to.1, AtFlags::empty())?)
    }

    pub(super) fn symbolic_link(&self, target: &Path, place: &Path) -> io::Result<()> {
        let (directory, name) = self.at(place);
        Ok(symlinkat(target, directory, name)?)
    }

    /// Whether there is something, also a link that leads nowhere.
    pub(super) fn exists(&self, path: &Path) -> bool {
        let (directory, name) = self.at(path);
        statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    pub(super) fn remove_empty(&self, path: &Path) -> io::Result<()> {
        let (directory, name) = self.at(path);
        Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?)
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let (directory, name) = self.at(path);
        remove_at(directory, name)
    }
}

/// Removes a file, or a directory with all that is in it; of a link, the link.
fn remove_at(directory: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return Ok(unlinkat(directory, name, AtFlags::empty())?);
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner = openat(directory, name, flags, Mode::empty())?;
    // Names first: what a directory lists while it changes is not defined.
    let entries = Dir::read_from(&inner)?.collect::<Result<Vec<_>, _>>()?;
    for entry in entries {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            remove_at(inner.as_fd(), Path::new(name))?;
        }
    }
    Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}
