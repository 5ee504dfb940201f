//! Reads the bytes of a plugin's file, up to the maximum size of a library.
//!
//! A plugin directory may contain other libraries, including large and sparse files; inspecting these should
//! only read the pages with headers and tables. So large files are mapped. Small ones are read, since
//! truncating a mapped file ends the process with SIGBUS, and plugins that are being rebuilt or overwritten
//! are small.

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::refusal::Cause;
use sconce_manifest::digest::hexadecimal;

/// Maximum size of a plugin library: 1 GiB. A private copy of it stays in memory.
pub(in crate::plugin) const LARGEST: u64 = 1 << 30;

/// Size above which files are mapped for inspection: 64 MiB.
const MAPPED: u64 = 64 << 20;

/// The bytes of a file, read or mapped for inspection.
pub(in crate::plugin) enum FileBytes {
    Read(Vec<u8>),
    #[cfg(unix)]
    Mapped(mapping::Mapping),
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            FileBytes::Read(bytes) => bytes,
            #[cfg(unix)]
            FileBytes::Mapped(mapping) => mapping.bytes(),
        }
    }
}

/// Returns the bytes of a file for a short inspection.
///
/// # Errors
///
/// If the file can't be read, is not a regular file, or is larger than [`LARGEST`].
pub(in crate::plugin) fn look(path: &Path) -> Result<FileBytes, Cause> {
    let (file, size) = open(path)?;
    #[cfg(unix)]
    if size > MAPPED
        && let Ok(mapping) = mapping::Mapping::of(&file, size)
    {
        return Ok(FileBytes::Mapped(mapping));
    }
    whole(file, size).map(FileBytes::Read)
}

/// Reads a file into private memory of this process.
///
/// # Errors
///
/// As for [`look`].
pub(in crate::plugin) fn read(path: &Path) -> Result<Vec<u8>, Cause> {
    let (file, size) = open(path)?;
    whole(file, size)
}

/// Computes the fingerprint of a file, reading it in chunks.
///
/// # Errors
///
/// As for [`look`].
pub(in crate::plugin) fn sha256(path: &Path) -> Result<String, Cause> {
    let (file, _) = open(path)?;
    let mut file = file.take(LARGEST);
    let mut hash = Sha256::new();
    let mut piece = vec![0; 256 * 1024];
    loop {
        let count = file.read(&mut piece).map_err(unreadable)?;
        if count == 0 {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(piece.get(..count).unwrap_or_default());
    }
}

fn whole(file: File, size: u64) -> Result<Vec<u8>, Cause> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // Read with a limit: the file may be growing.
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    let count = read.map_err(unreadable)? as u64;
    if count > LARGEST {
        return Err(too_large(count));
    }
    Ok(bytes)
}

fn open(path: &Path) -> Result<(File, u64), Cause> {
    // Checked before opening: opening a pipe without a writer would block.
    check(&std::fs::metadata(path).map_err(unreadable)?)?;
    let file = File::open(path).map_err(unreadable)?;
    let size = check(&file.metadata().map_err(unreadable)?)?;
    Ok((file, size))
}

/// Checks that a file may be a library, and returns its size.
fn check(metadata: &std::fs::Metadata) -> Result<u64, Cause> {
    if metadata.is_dir() {
        return Err(Cause::NotAFile("a directory"));
    }
    if !metadata.is_file() {
        return Err(Cause::NotAFile("a device, pipe or socket"));
    }
    match metadata.len() {
        size if size > LARGEST => Err(too_large(size)),
        size => Ok(size),
    }
}

fn too_large(size: u64) -> Cause {
    Cause::TooLarge {
        size,
        largest: LARGEST,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: std::io::Error) -> Cause {
    Cause::Read(error.to_string())
}

#[cfg(unix)]
mod mapping {
    use std::fs::File;
    use std::ptr::{self, NonNull};

    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

    /// A mapped file, whose pages are read on demand.
    pub(in crate::plugin) struct Mapping {
        begin: NonNull<u8>,
        size: usize,
    }

    impl Mapping {
        pub(super) fn of(file: &File, size: u64) -> std::io::Result<Mapping> {
            let size = usize::try_from(size).map_err(std::io::Error::other)?;
            let flags = (ProtFlags::READ, MapFlags::PRIVATE);
            // SAFETY: a new private mapping at an address chosen by the system overlaps no existing memory.
            let begin = unsafe { mmap(ptr::null_mut(), size, flags.0, flags.1, file, 0)? };
            match NonNull::new(begin.cast()) {
                Some(begin) => Ok(Mapping { begin, size }),
                None => Err(std::io::Error::other("a mapping at address 0")),
            }
        }

        pub(super) fn bytes(&self) -> &[u8] {
            // SAFETY: the range stays mapped for reading as long as `self` lives. Another process may change
            // the file and with it bytes that were inspected already; what is loaded later is compared with
            // the inspected data byte by byte, in private memory.
            unsafe { std::slice::from_raw_parts(self.begin.as_ptr(), self.size) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: unmaps this value's own mapping, to which no borrow can remain. A failure only leaves
            // it mapped.
            let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::inspect;
    use crate::plugin::test_libraries::{has_compiler, plugin};

    #[test]
    fn a_file_larger_than_any_library_is_refused_unread() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("holes.so");
        let file = File::create(&path).expect("made");
        // A sparse file takes no space; file systems without sparse files return an error.
        if file.set_len(5 << 30).is_err() {
            return;
        }
        let found = [
            look(&path).map(drop),
            read(&path).map(drop),
            sha256(&path).map(drop),
        ];
        for cause in found {
            assert_eq!(cause, Err(too_large(5 << 30)));
        }
        assert_eq!(
            inspect(&path).expect_err("refused").cause,
            too_large(5 << 30)
        );
    }

    #[test]
    fn a_large_file_is_mapped_and_looks_as_one_that_is_read() {
        if !has_compiler() {
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("plugin.so");
        plugin(&path, "large", &["one"]);
        assert_eq!(
            sha256(&path),
            read(&path).map(|bytes| sconce_manifest::digest::fingerprint(&bytes))
        );
        let small = inspect(&path).expect("a plugin");
        let file = File::options().write(true).open(&path).expect("a file");
        file.set_len(MAPPED + 1).expect("holes");
        #[cfg(unix)]
        assert!(matches!(look(&path), Ok(FileBytes::Mapped(_))));
        let large = inspect(&path).expect("a plugin with holes behind it");
        assert_eq!((&large.metadata, large.size), (&small.metadata, MAPPED + 1));
    }
}
