//! Atomic writing of single files, and limits of open ones. What a run writes into its directory goes through
//! [`crate::held_directory`]; reading is in [`crate::regular_file`].

use std::fs::File;
use std::io;
use std::path::Path;

use crate::held_directory::HeldDirectory;

/// Writes a file atomically: to a temporary file next to `path`, synced and then renamed. A reader
/// of `path` sees either the old file or the new one, each complete, also after a crash.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    HeldDirectory::unheld(path).write_atomically(path, bytes)
}

/// As [`write_atomically`], with the content that `write` writes, piece by piece.
pub fn write_atomically_by(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    HeldDirectory::unheld(path).write_atomically_by(path, write)
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

#[cfg(test)]
mod tests {
    use super::*;

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
