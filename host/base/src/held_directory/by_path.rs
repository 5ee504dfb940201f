//! Calls by path, for systems on which a directory can't be held by a descriptor.

use std::fs::{self, File};
use std::io;
use std::path::Path;

#[derive(Clone, Debug, Default)]
pub(super) struct Calls;

#[expect(
    clippy::unused_self,
    reason = "on other systems there is a descriptor in it"
)]
impl Calls {
    pub(super) fn hold(_path: &Path) -> Option<Calls> {
        None
    }

    pub(super) fn create_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    pub(super) fn create_file(&self, path: &Path) -> io::Result<File> {
        File::create(path)
    }

    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    pub(super) fn exchange(&self, _one: &Path, _other: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    pub(super) fn symbolic_link(&self, _target: &Path, _place: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    pub(super) fn remove_empty(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        if path.symlink_metadata()?.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        }
    }
}
