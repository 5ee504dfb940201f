//! Files: written so that they are complete or absent, and read only where they are regular files.

use std::fs::{File, FileType};
use std::io::{self, Read, Write};
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

/// Reads a regular file; see [`open_regular`].
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file, or a pipe that this process was given, as `/dev/stdin` and `/dev/fd/63` may be. To
/// open a named pipe waits for somebody to write into it, a device may never end or do something: none of
/// them is opened.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    refuse_special(path, std::fs::metadata(path)?.file_type())?;
    let file = open_without_waiting(path)?;
    // The path may lead elsewhere by now.
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

/// What a path leads to that is neither a file nor a directory.
#[cfg(unix)]
pub(crate) fn special(kind: FileType) -> Option<&'static str> {
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
pub(crate) fn special(_kind: FileType) -> Option<&'static str> {
    None
}

/// Whether a path is that of a file which this process was started with.
pub(crate) fn is_given(path: &Path) -> bool {
    path == Path::new("/dev/stdin")
        || ["/dev/fd", "/proc/self/fd"]
            .iter()
            .any(|given| path.starts_with(given))
}

/// Should a pipe have taken the file's place, this does not wait for its writer.
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

/// The renaming itself is a change of the directory.
#[cfg(unix)]
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}

/// How many files this process may have open at once, where the system says.
#[cfg(unix)]
pub(crate) fn most_open() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
pub(crate) fn most_open() -> Option<u64> {
    None
}

/// What to do about an error, given its words, where the reason is the limit of open files.
pub(crate) fn open_limit_hint(words: &str) -> Option<String> {
    if !["Too many open files", "(os error 24)"]
        .iter()
        .any(|sign| words.contains(sign))
    {
        return None;
    }
    let most = most_open()?;
    Some(format!(
        "this process may have {most} files open at once; `ulimit -n 1024` before it allows more"
    ))
}

/// That a run's output directory is not there any more, where that is so: the reason of whatever can't be written
/// to it.
pub(crate) fn vanished(directory: &Path) -> Option<String> {
    if !matches!(directory.try_exists(), Ok(false)) {
        return None;
    }
    Some(format!(
        "the output directory `{}` is not there any more: it was removed, renamed or unmounted during the run",
        directory.display()
    ))
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
