//! The bytes of a plugin's file, never more than a library can have.
//!
//! A directory of plugins may hold other libraries, large ones too, and files with holes: to look at one of those
//! only its pages with headers and tables are to be read. So large files are mapped. Small ones are read: a mapping
//! of a file that is cut short meanwhile ends the process with SIGBUS, and a plugin that is being rebuilt or copied
//! over is a small one.

use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::Cause;
use crate::digest::hexadecimal;

/// The size of the largest library that is taken for a plugin: 1 GiB. A private copy of it stays in memory.
pub(super) const LARGEST: u64 = 1 << 30;

/// Files larger than this are mapped for a look at them: 64 MiB.
const MAPPED: u64 = 64 << 20;

/// The bytes of a file, for a look at it.
pub(super) enum Bytes {
    Read(Vec<u8>),
    #[cfg(unix)]
    Mapped(mapping::Mapping),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Read(bytes) => bytes,
            #[cfg(unix)]
            Bytes::Mapped(mapping) => mapping.bytes(),
        }
    }
}

/// The bytes of a file, for a look at it that is over soon.
///
/// # Errors
///
/// What can't be read, is no file, or is larger than [`LARGEST`].
pub(super) fn look(path: &Path) -> Result<Bytes, Cause> {
    let (file, size) = open(path)?;
    #[cfg(unix)]
    if size > MAPPED
        && let Ok(mapping) = mapping::Mapping::of(&file, size)
    {
        return Ok(Bytes::Mapped(mapping));
    }
    whole(file, size).map(Bytes::Read)
}

/// The bytes of a file, in memory of this process alone.
///
/// # Errors
///
/// As of [`look`].
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Cause> {
    let (file, size) = open(path)?;
    whole(file, size)
}

/// The fingerprint of a file, which is read piece by piece.
///
/// # Errors
///
/// As of [`look`].
pub(super) fn sha256(path: &Path) -> Result<String, Cause> {
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
    // It may be growing.
    let read = file.take(LARGEST + 1).read_to_end(&mut bytes);
    let count = read.map_err(unreadable)? as u64;
    if count > LARGEST {
        return Err(too_large(count));
    }
    Ok(bytes)
}

fn open(path: &Path) -> Result<(File, u64), Cause> {
    // Before it is opened: a pipe without a writer would not come back.
    check(&std::fs::metadata(path).map_err(unreadable)?)?;
    let file = File::open(path).map_err(unreadable)?;
    let size = check(&file.metadata().map_err(unreadable)?)?;
    Ok((file, size))
}

/// The size of what may be a library.
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

    /// A file's pages, read when they are looked at.
    pub(in crate::plugin) struct Mapping {
        begin: NonNull<u8>,
        size: usize,
    }

    impl Mapping {
        pub(super) fn of(file: &File, size: u64) -> std::io::Result<Mapping> {
            let size = usize::try_from(size).map_err(std::io::Error::other)?;
            let flags = (ProtFlags::READ, MapFlags::PRIVATE);
            // SAFETY: a fresh mapping at a place of the system's choice.
            let begin = unsafe { mmap(ptr::null_mut(), size, flags.0, flags.1, file, 0)? };
            match NonNull::new(begin.cast()) {
                Some(begin) => Ok(Mapping { begin, size }),
                None => Err(std::io::Error::other("a mapping at address 0")),
            }
        }

        pub(super) fn bytes(&self) -> &[u8] {
            // SAFETY: mapped for reading as long as this lives. Another process that writes to the file could
            // change what has been looked at already: what is loaded later is compared with the look, byte for
            // byte, in memory of this process alone.
            unsafe { std::slice::from_raw_parts(self.begin.as_ptr(), self.size) }
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: this mapping, which is not used any more. That it stays does no harm.
            let _ = unsafe { munmap(self.begin.as_ptr().cast(), self.size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::inspect;
    use super::super::test_libraries::{has_compiler, plugin};
    use super::*;

    #[test]
    fn a_file_larger_than_any_library_is_refused_unread() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("holes.so");
        let file = File::create(&path).expect("made");
        // A file with holes takes no room; a file system that has none says so.
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
            read(&path).map(|bytes| crate::digest::fingerprint(&bytes))
        );
        let small = inspect(&path).expect("a plugin");
        let file = File::options().write(true).open(&path).expect("a file");
        file.set_len(MAPPED + 1).expect("holes");
        #[cfg(unix)]
        assert!(matches!(look(&path), Ok(Bytes::Mapped(_))));
        let large = inspect(&path).expect("a plugin with holes behind it");
        assert_eq!((&large.metadata, large.size), (&small.metadata, MAPPED + 1));
    }
}
