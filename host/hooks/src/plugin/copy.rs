//! Loads a plugin from a private copy, so that the bytes inspected are the bytes loaded.
//!
//! Between inspection and loading, and during a run, someone may overwrite a plugin's file with another
//! build; the system maps a library page by page on demand, and would continue with pages of the new file. So
//! a library is loaded from a sealed copy in memory that no one can change.
//!
//! A library that looks for others relative to its own file (`$ORIGIN`) would not find them from a copy: it
//! is loaded from its own path, after its bytes have been compared.
//!
//! A copy that has been opened stays as long as the process: the loader knows the library by the copy's path. One that is
//! only looked at is closed with its last `PrivateCopy`.

use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use super::gates::file;
use super::{Cause, Inspected, PluginRefusal};
#[cfg(target_os = "linux")]
use sconce_base::files;

/// File descriptors that the copies leave free. They are for the trial's pipes, the run's lock, checkpoints
/// and tables.
#[cfg(target_os = "linux")]
const SPARE: u64 = 16;

/// Copies that are open, by the fingerprints of their plugins.
static COPIES: Mutex<BTreeMap<String, Weak<PrivateCopy>>> = Mutex::new(BTreeMap::new());

/// A file in memory that no one can change.
#[derive(Debug)]
pub(crate) struct PrivateCopy {
    path: PathBuf,
    #[cfg(target_os = "linux")]
    _open: OwnedFd,
}

/// The file that a plugin is loaded from.
#[derive(Clone, Debug)]
pub struct LoadableFile {
    /// The file to open.
    pub file: PathBuf,
    /// The reason why it is the plugin's own file, if a copy was intended.
    pub warning: Option<String>,
    copy: Option<Arc<PrivateCopy>>,
}

impl LoadableFile {
    fn copied(copy: Arc<PrivateCopy>) -> LoadableFile {
        LoadableFile {
            file: copy.path.clone(),
            warning: None,
            copy: Some(copy),
        }
    }

    /// Keeps the copy for the lifetime of this process, since it is about to be opened.
    pub fn keep(&self) {
        std::mem::forget(self.copy.clone());
    }
}

/// Returns the private copy of a plugin that is to be loaded; equal bytes share one copy for the lifetime of this process.
pub fn of(plugin: &Inspected) -> Result<LoadableFile, PluginRefusal> {
    let file = looked_at(plugin)?;
    file.keep();
    Ok(file)
}

/// As [`of`], for a plugin that may yet be refused: the copy is closed if it is not [kept](LoadableFile::keep).
pub(crate) fn looked_at(plugin: &Inspected) -> Result<LoadableFile, PluginRefusal> {
    let refuse = |cause| PluginRefusal::new(&plugin.path, cause);
    let mut copies = match COPIES.lock() {
        Ok(copies) => copies,
        Err(poisoned) => poisoned.into_inner(),
    };
    let known = |copies: &BTreeMap<String, Weak<PrivateCopy>>| {
        let copy = copies.get(plugin.known_sha256()?)?.upgrade()?;
        Some(LoadableFile::copied(copy))
    };
    if let Some(source) = known(&copies) {
        return Ok(source);
    }
    let bytes = file::read(&plugin.path).map_err(refuse)?;
    if !plugin.has(&bytes) {
        return Err(refuse(Cause::Changed));
    }
    // `has` has just computed the fingerprint: another file may have had the same bytes.
    if let Some(source) = known(&copies) {
        return Ok(source);
    }
    // The system's loader would look up a bare file name in its own directories.
    let own = std::fs::canonicalize(&plugin.path)
        .map_err(|error| refuse(Cause::Read(error.to_string())))?;
    if plugin.looks_beside {
        return Ok(LoadableFile {
            file: own,
            warning: None,
            copy: None,
        });
    }
    match in_memory(&plugin.path, &bytes) {
        Ok(copy) => {
            let copy = Arc::new(copy);
            copies.insert(plugin.sha256().to_owned(), Arc::downgrade(&copy));
            Ok(LoadableFile::copied(copy))
        }
        Err(error) => Ok(LoadableFile {
            file: own,
            copy: None,
            warning: Some(format!(
                "`{}` is loaded where it lies, and must not be replaced during the run: no private \
                 copy can be made ({error})",
                plugin.path.display()
            )),
        }),
    }
}

/// Creates an immutable file in memory with these bytes.
#[cfg(target_os = "linux")]
fn in_memory(path: &Path, bytes: &[u8]) -> std::io::Result<PrivateCopy> {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 neither know nor need this flag.
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
    // `/proc` may not be mounted.
    std::fs::metadata(&path)?;
    Ok(PrivateCopy {
        path,
        _open: file.into(),
    })
}

/// Checks that enough files can still be opened besides this descriptor, which stays open.
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
fn in_memory(_path: &Path, _bytes: &[u8]) -> std::io::Result<PrivateCopy> {
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
        // Computes the fingerprint while the file is still the inspected one, after it was replaced, or
        // never.
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
        let again = of(&looked_at).expect("the copy is there");
        assert_eq!(again.file, source.file);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_copy_that_is_only_looked_at_is_closed() {
        if !has_compiler() {
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("plugin.so");
        plugin(&path, "looked-at", &["one"]);
        let inspected = inspect(&path).expect("a plugin");
        // Descriptors are this process's, in which other tests run: told by the copy's name.
        let open = || {
            let entries = std::fs::read_dir("/proc/self/fd")
                .expect("descriptors")
                .flatten();
            let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            let mut copies =
                targets.filter(|target| target.to_string_lossy().contains("memfd:plugin.so"));
            copies.next().is_some()
        };
        let looked = looked_at(&inspected).expect("a copy");
        let shared = looked_at(&inspected).expect("the same copy");
        assert_eq!(looked.file, shared.file);
        drop(looked);
        assert!(shared.file.exists());
        drop(shared);
        let kept = looked_at(&inspected).expect("a new copy");
        kept.keep();
        let path = kept.file.clone();
        drop(kept);
        assert!(path.exists() && open());
    }
}
