//! File of the breadcrumbs in a run's directory: the [`Trail`], then the names of the hooks.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::suspects::Suspect;
use super::trail::{Crumb, MAGIC, Trail};

/// Name of the file, which exists only during a run.
const NAME: &str = ".breadcrumbs";

/// Size in bytes of the part that holds the [`Trail`], in whole pages.
const SIZE: usize = 4096;

const _: () = assert!(size_of::<Trail>() <= SIZE);

pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Creates the file and maps its [`Trail`] for the lifetime of this process.
pub(super) fn create(directory: &Path, hooks: &[Suspect]) -> io::Result<&'static Trail> {
    let path = path(directory);
    // Always a new file: an earlier process, or a forked copy, may still have the previous one
    // mapped.
    if let Err(error) = std::fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = fs_err::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    // Written rather than left sparse: a full disk is then an error here instead of a signal later.
    file.write_all(&[0; SIZE])?;
    for hook in hooks {
        let one_line = |text: &str| text.replace(['\n', '\t'], " ");
        writeln!(file, "{}\t{}", one_line(&hook.name), one_line(&hook.file))?;
    }
    let trail = map(file.file())?;
    trail.end();
    trail
        .pid
        .store(u64::from(std::process::id()), Ordering::Relaxed);
    trail.magic.store(MAGIC, Ordering::Release);
    Ok(trail)
}

#[cfg(target_os = "linux")]
fn map(file: &std::fs::File) -> io::Result<&'static Trail> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    // SAFETY: a new mapping, never unmapped, of a file that is at least this large. Other processes
    // may write to the file, which atomics tolerate, and every bit pattern is valid for them.
    unsafe {
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        let place = mmap(std::ptr::null_mut(), SIZE, flags, MapFlags::SHARED, file, 0)?;
        Ok(&*place.cast::<Trail>())
    }
}

#[cfg(not(target_os = "linux"))]
fn map(_file: &std::fs::File) -> io::Result<&'static Trail> {
    Err(io::Error::other("Sconce keeps breadcrumbs on Linux alone"))
}

/// State left behind by a run that did not finish.
pub(super) struct Unfinished {
    pub(super) pid: u64,
    pub(super) crumb: Crumb,
    /// Hook that was being called.
    pub(super) hook: Option<Suspect>,
    pub(super) checkpoint: Option<String>,
}

/// Reads the file of a run that did not finish; `None` if there is none, or it is not a breadcrumbs
/// file.
pub(super) fn read(directory: &Path) -> Option<Unfinished> {
    let bytes = std::fs::read(path(directory)).ok()?;
    let (numbers, names) = bytes.split_at_checked(SIZE)?;
    let trail = Trail::from_bytes(numbers)?;
    if trail.has_ended() {
        return None;
    }
    let crumb = trail.read();
    let names = String::from_utf8_lossy(names);
    let hook = crumb
        .hook
        .and_then(|hook| names.lines().nth(hook.position()));
    let hook = hook.and_then(|line| line.split_once('\t'));
    let mut path = vec![0; SIZE];
    let length = trail.checkpoint(&mut path);
    path.truncate(length);
    Some(Unfinished {
        pid: trail.pid.load(Ordering::Relaxed),
        crumb,
        hook: hook.map(|(name, file)| Suspect {
            name: name.to_owned(),
            file: file.to_owned(),
            ..Suspect::default()
        }),
        checkpoint: (length > 0).then(|| String::from_utf8_lossy(&path).into_owned()),
    })
}
