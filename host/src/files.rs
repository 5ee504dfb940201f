//! Files that are there whole or not at all.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// How the name of a file ends that is not whole yet.
pub(crate) const PART: &str = ".part";

/// Writes a file beside its place, brings it to the disk and then renames it: whoever reads the
/// place finds the old file or the new one, whole, also after a crash.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
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
        // What is left of it is of no use; that it can't be removed is of no interest either.
        drop(fs_err::remove_file(&beside));
        return written;
    }
    sync_directory(directory)
}

/// The renaming itself is a change of the directory.
#[cfg(unix)]
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.json");
        write_whole(&path, b"one").expect("written");
        write_whole(&path, b"two").expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
        assert_eq!(
            std::fs::read_dir(directory.path()).expect("read").count(),
            1
        );
        let nowhere = directory.path().join("no/x.json");
        let error = write_whole(&nowhere, b"one").expect_err("no directory");
        assert!(error.to_string().contains("no/.x.json.part"), "{error}");
    }
}
