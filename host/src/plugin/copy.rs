//! The bytes that were looked at are the bytes that are loaded: from a private copy.
//!
//! Between the look at a file and its loading, and during a run, anybody may write another build to
//! the same place; the system maps a library page by page when it is needed, and would go on with
//! pages of the new file. So a library is loaded from a copy in memory that nobody can change.
//!
//! A library that looks for others relative to its own file (`$ORIGIN`) would not find them from a
//! copy: it is loaded where it lies, once its bytes have been compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::{Cause, Inspected, Refusal, file};
#[cfg(target_os = "linux")]
use crate::files;

/// The file descriptors that copies leave free: the trial's pipes, the run's lock, checkpoints and tables.
#[cfg(target_os = "linux")]
const SPARE: u64 = 16;

/// The files to load in place of plugins' files, by their fingerprints.
static COPIES: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Where a plugin's bytes are loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The file to open.
    pub(crate) file: PathBuf,
    /// Why it is the plugin's own file, where that is nobody's wish.
    pub(crate) warning: Option<String>,
}

/// The private copy of a plugin; the same bytes have the same copy as long as this process lives.
pub(crate) fn of(plugin: &Inspected) -> Result<Source, Refusal> {
    let refuse = |cause| Refusal::new(&plugin.path, cause);
    let mut copies = match COPIES.lock() {
        Ok(copies) => copies,
        Err(poisoned) => poisoned.into_inner(),
    };
    let known = |copies: &BTreeMap<String, PathBuf>| {
        let file = copies.get(plugin.known_sha256()?)?;
        Some(Source {
            file: file.clone(),
            warning: None,
        })
    };
    if let Some(source) = known(&copies) {
        return Ok(source);
    }
    let bytes = file::read(&plugin.path).map_err(refuse)?;
    if !plugin.has(&bytes) {
        return Err(refuse(Cause::Changed));
    }
    // Another file may have had the same bytes.
    if let Some(source) = known(&copies) {
        return Ok(source);
    }
    // The system's loader looks a bare file name up in its own directories.
    let own = std::fs::canonicalize(&plugin.path)
        .map_err(|error| refuse(Cause::Read(error.to_string())))?;
    if plugin.looks_beside {
        return Ok(Source {
            file: own,
            warning: None,
        });
    }
    match in_memory(&plugin.path, &bytes) {
        Ok(file) => {
            copies.insert(plugin.sha256().to_owned(), file.clone());
            Ok(Source {
                file,
                warning: None,
            })
        }
        Err(error) => Ok(Source {
            file: own,
            warning: Some(format!(
                "`{}` is loaded where it lies, and must not be replaced during the run: no private \
                 copy can be made ({error})",
                plugin.path.display()
            )),
        }),
    }
}

/// A file in memory with these bytes, which nobody can change; it stays as long as this process.
#[cfg(target_os = "linux")]
fn in_memory(path: &Path, bytes: &[u8]) -> std::io::Result<PathBuf> {
    use std::io::Write;
    use std::os::fd::{AsRawFd, IntoRawFd};

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 don't know the flag, and need none.
    let file =
        memfd_create(&*name, flags | MemfdFlags::EXEC).or_else(|_| memfd_create(&*name, flags))?;
    leaves_room(file.as_raw_fd())?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    fcntl_add_seals(
        &file,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // `/proc` may not be there.
    std::fs::metadata(&path)?;
    // Never closed: the loader knows the library by this number.
    let _ = file.into_raw_fd();
    Ok(path)
}

/// Whether enough files can be opened beside the one with this number, which stays open.
#[cfg(target_os = "linux")]
fn leaves_room(number: std::os::fd::RawFd) -> std::io::Result<()> {
    match files::most_open() {
        Some(most) if u64::try_from(number).unwrap_or(0) + SPARE >= most => {
            let reason = format!("there is little room for open files: `ulimit -n` is {most}");
            Err(std::io::Error::other(reason))
        }
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn in_memory(_path: &Path, _bytes: &[u8]) -> std::io::Result<PathBuf> {
    Err(std::io::Error::other("this system has no files in memory"))
}

#[cfg(test)]
mod tests {
    use super::super::inspect;
    use super::super::test_libraries::{has_compiler, plugin};
    use super::*;

    #[test]
    fn what_was_looked_at_is_what_is_loaded() {
        if !has_compiler() {
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("plugin.so");
        let write = |name: &str| plugin(&path, name, &["one"]);
        // Its fingerprint is asked for while the file is the one that was looked at, when it is another, or never.
        for asked in ["before", "after", "never"] {
            write("first");
            let looked_at = inspect(&path).expect("a plugin");
            assert_eq!(looked_at.known_sha256(), None, "nobody needs it yet");
            if asked == "before" {
                assert_eq!(looked_at.sha256().len(), 64);
            }
            write("other");
            if asked == "after" {
                assert_eq!(looked_at.sha256().len(), 64);
            }
            let refusal = of(&looked_at).expect_err(asked);
            assert_eq!(refusal.cause, Cause::Changed);
        }
        write("first");
        let looked_at = inspect(&path).expect("a plugin");
        let source = of(&looked_at).expect("the same file");
        assert!(looked_at.known_sha256().is_some(), "it is known by now");
        write("other");
        assert_eq!(of(&looked_at).expect("the copy is there"), source);
    }
}
