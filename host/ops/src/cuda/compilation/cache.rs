//! Compiled kernels on disk, so that they are compiled once per machine.
//!
//! A file is named by the digest of the source, the options, the compiler's version and the capability; its first line is the digest of
//! the rest. What is loaded runs on the device with the rights of this process: the directory is therefore the user's own and closed to
//! others, and files that others could have written, or whose digest is wrong, are not read but replaced.
#![expect(unsafe_code, reason = "the user's number, from the C library")]

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use sha2::{Digest, Sha256};

/// Environment variable that names another directory; empty: nothing is kept.
const VARIABLE: &str = "SCONCE_KERNEL_CACHE";

/// Where the kernels of this key are kept; `None` where there is no place for it.
pub(super) fn path(family: &str, key: &str) -> Option<PathBuf> {
    let directory = match env::var_os(VARIABLE) {
        Some(directory) if directory.is_empty() => return None,
        Some(directory) => PathBuf::from(directory),
        None => user_cache()?.join("sconce").join("kernels"),
    };
    Some(directory.join(format!("{family}-{key}.kernels")))
}

/// As the XDG base directory specification has it.
fn user_cache() -> Option<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))
}

/// SHA-256, in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    let mut digits = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a string doesn't fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// What is kept at `path`, if it is there, intact, and nobody else could have written it.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    if !is_private(path.parent()?) || !is_private(path) {
        return None;
    }
    let mut kept = fs::read(path).ok()?;
    let end = kept.iter().position(|&byte| byte == b'\n')?;
    let image = kept.split_off(end + 1);
    (kept[..end] == *digest(&image).as_bytes()).then_some(image)
}

/// Keeps an image at `path`: complete or not at all.
pub(super) fn write(path: &Path, image: &[u8]) -> io::Result<()> {
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    make_private(directory)?;
    if !is_private(directory) {
        return Ok(());
    }
    let temporary = path.with_extension(format!("{}.part", process::id()));
    let result = new_private(&temporary).and_then(|mut file| {
        file.write_all(format!("{}\n", digest(image)).as_bytes())?;
        file.write_all(image)?;
        fs::rename(&temporary, path)
    });
    if result.is_err() {
        drop(fs::remove_file(&temporary));
    }
    result
}

/// Whether the file or directory is this user's and nobody else may write to it.
#[cfg(unix)]
fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: the function has no preconditions and can't fail.
    let user = unsafe { libc::geteuid() };
    fs::symlink_metadata(path).is_ok_and(|found| {
        !found.file_type().is_symlink() && found.uid() == user && found.mode() & 0o022 == 0
    })
}

#[cfg(unix)]
fn make_private(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
}

#[cfg(unix)]
fn new_private(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    drop(fs::remove_file(path));
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

// Elsewhere a user's cache is the user's own by where it is.

#[cfg(not(unix))]
fn is_private(path: &Path) -> bool {
    path.exists()
}

#[cfg(not(unix))]
fn make_private(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)
}

#[cfg(not(unix))]
fn new_private(path: &Path) -> io::Result<fs::File> {
    fs::File::create(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_kept_is_read_again_unless_it_was_tampered_with() -> io::Result<()> {
        let directory = env::temp_dir().join(format!("sconce-kernels-{}", process::id()));
        let path = directory.join("family-0.kernels");
        assert_eq!(read(&path), None);
        write(&path, b"\x7fELF\n\0\n")?;
        assert_eq!(read(&path).as_deref(), Some(&b"\x7fELF\n\0\n"[..]));
        let mode = fs::metadata(&path)?.permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        // By others.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        assert_eq!(read(&path), None);
        write(&path, b"another")?;
        assert_eq!(read(&path).as_deref(), Some(&b"another"[..]));
        // Truncated.
        let kept = fs::read(&path)?;
        fs::write(&path, &kept[..kept.len() - 1])?;
        assert_eq!(read(&path), None);
        // In a directory that others may write to.
        write(&path, b"third")?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777))?;
        assert_eq!(read(&path), None);
        fs::remove_dir_all(&directory)
    }
}
