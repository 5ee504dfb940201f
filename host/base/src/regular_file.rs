//! Opening of regular files only: reading a pipe or a device may never end.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::path::Path;

use crate::memory_limit::{MemoryLimit, memory_limit};

/// Reads a regular file; see [`open_regular`]. One that is larger than the memory that this process may use is an error before
/// anything is read.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    read_more(file, &mut bytes, u64::MAX)?;
    Ok(bytes)
}

/// Reads a regular file of at most `most` bytes; see [`read_regular`].
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let mut bytes = Vec::new();
    read_more(file, &mut bytes, most)?;
    Ok(bytes)
}

/// Reads what is left of a file of which `bytes` have been read. It must have at most `most` bytes and fit into memory.
pub fn read_more(file: File, bytes: &mut Vec<u8>, most: u64) -> io::Result<()> {
    let length = file.metadata()?.len();
    let too_large = |problem| io::Error::new(io::ErrorKind::FileTooLarge, problem);
    if length > most {
        let problem = format!("it has {length} bytes, and at most {most} are expected");
        return Err(too_large(problem));
    }
    // Small files are not worth a look at the system's tables.
    if length > SMALL
        && let Some(limit) = memory_limit()
        && length > limit.bytes
    {
        let MemoryLimit { bytes, source } = limit;
        return Err(too_large(format!(
            "it has {length} bytes, more than the {bytes} of memory that this process may use ({source})"
        )));
    }
    let left = length.saturating_sub(bytes.len() as u64);
    bytes.try_reserve_exact(usize::try_from(left).unwrap_or(usize::MAX))?;
    // It may have grown, and a pipe has no length.
    file.take(most.saturating_add(1)).read_to_end(bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large(format!("it has more than {most} bytes")));
    }
    Ok(())
}

/// Size in bytes of files that are read without a comparison with the memory.
const SMALL: u64 = 64 << 20;

/// Fills `buffer` with the bytes of a file from `start` on, whatever has been read of it.
///
/// # Errors
///
/// If they can't be read, or there are fewer.
#[cfg(unix)]
pub fn read_exact_at(file: &File, start: u64, buffer: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, start)
}

#[cfg(windows)]
pub fn read_exact_at(file: &File, mut start: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, start)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                buffer = buffer.get_mut(count..).unwrap_or_default();
                start += count as u64;
            }
        }
    }
    Ok(())
}

/// Opens a regular file, or a pipe passed to this process, e.g. `/dev/stdin` or `/dev/fd/63`.
///
/// Other named pipes and devices are refused: opening a pipe waits for a writer, and a device may never
/// end or may have side effects.
pub fn open_regular(path: &Path) -> io::Result<File> {
    refuse_special(path, std::fs::metadata(path)?.file_type())?;
    let file = open_without_waiting(path)?;
    // The path may have been replaced since the first check.
    refuse_special(path, file.metadata()?.file_type())?;
    Ok(file)
}

fn refuse_special(path: &Path, kind: FileType) -> io::Result<()> {
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    match special(kind) {
        None => Ok(()),
        Some(NAMED_PIPE) if is_given(path) => Ok(()),
        Some(what) => Err(io::Error::other(format!(
            "it is {what}, and only regular files are read"
        ))),
    }
}

const NAMED_PIPE: &str = "a named pipe (FIFO)";

/// Describes the target of a path if it is neither a file nor a directory.
#[cfg(unix)]
pub fn special(kind: FileType) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        Some(NAMED_PIPE)
    } else if kind.is_socket() {
        Some("a socket")
    } else if kind.is_block_device() || kind.is_char_device() {
        Some("a device")
    } else {
        None
    }
}

#[cfg(not(unix))]
pub fn special(_kind: FileType) -> Option<&'static str> {
    None
}

/// Whether a path denotes a file descriptor passed to this process.
pub fn is_given(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || ["/dev/fd", "/proc/self/fd"]
            .iter()
            .any(|given| path.starts_with(given))
}

/// Opens a file without waiting for a writer, in case a pipe has replaced it.
#[cfg(unix)]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    if is_given(path) {
        return File::open(path);
    }
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn only_regular_files_are_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), b"one").expect("written");
        std::os::unix::fs::symlink(path("file"), path("link")).expect("a link");
        assert_eq!(read_regular(&path("link")).expect("read"), b"one");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), mode).expect("a pipe");
        std::os::unix::fs::symlink(path("pipe"), path("to-pipe")).expect("a link");
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).expect("a socket");
        for (path, words) in [
            (path("pipe"), "a named pipe (FIFO), and only regular files"),
            (path("to-pipe"), "a named pipe"),
            (path("socket"), "a socket"),
            ("/dev/zero".into(), "a device"),
            (path("."), "directory"),
            (path("nowhere"), "No such file"),
        ] {
            let error = read_regular(&path).expect_err(words).to_string();
            assert!(error.contains(words), "{}: {error}", path.display());
        }
    }
}
