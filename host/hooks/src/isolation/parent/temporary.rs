//! The directory for temporary files of a sandboxed hook's process: its own, and removed with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The variables by which programs find such a directory, here and in Python (`tempfile`).
const VARIABLES: [&str; 3] = ["TMPDIR", "TEMP", "TMP"];

/// A directory that only this user may enter.
#[derive(Debug)]
pub(super) struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Makes one where the system, or `TMPDIR`, says.
    ///
    /// # Errors
    ///
    /// If it can't be made, for the user.
    pub(super) fn new() -> Result<TemporaryDirectory, String> {
        let made = tempfile::Builder::new().prefix("sconce-hook-").tempdir();
        let made = made.and_then(|made| made.keep().canonicalize());
        made.map(TemporaryDirectory).map_err(|error| {
            format!(
                "no directory for its temporary files can be made: {error}; `TMPDIR` says where"
            )
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What tells the process of it.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        VARIABLES.into_iter().map(|name| (name, self.path()))
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            sconce_manifest::screen::message(&format!(
                "warning: a hook's temporary files are left in {}: {error}\n",
                self.0.display()
            ));
        }
    }
}

/// Removes a directory that no process uses any longer. It goes by paths, not by descriptors as the standard library does:
/// the system's limit of a path's length bounds how deep a hook can have this process go.
fn remove(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_removed_with_what_is_in_it_and_nothing_that_links_lead_to() {
        let outside = tempfile::tempdir().expect("a directory");
        fs::write(outside.path().join("kept"), "x").expect("written");
        let directory = TemporaryDirectory::new().expect("a directory");
        let path = directory.path().to_owned();
        fs::create_dir_all(path.join("a/b")).expect("made");
        fs::write(path.join("a/b/c"), "x").expect("written");
        std::os::unix::fs::symlink(outside.path(), path.join("a/link")).expect("a link");
        drop(directory);
        assert!(!path.exists());
        assert!(outside.path().join("kept").exists());
    }

    /// Deeper than a path can be, as a process makes it that goes down step by step.
    #[test]
    fn one_that_is_too_deep_is_an_error() {
        use rustix::fs::{Mode, OFlags, mkdirat, openat};
        let place = tempfile::tempdir().expect("a directory");
        let mut here =
            rustix::fs::open(place.path(), OFlags::DIRECTORY, Mode::empty()).expect("open");
        let name = "d".repeat(200);
        for _ in 0..40 {
            mkdirat(&here, name.as_str(), Mode::RWXU).expect("made");
            here = openat(&here, name.as_str(), OFlags::DIRECTORY, Mode::empty()).expect("open");
        }
        let error = remove(place.path()).expect_err("it is too deep");
        assert_eq!(error.kind(), io::ErrorKind::InvalidFilename, "{error}");
    }
}
