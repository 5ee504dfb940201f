//! The breadcrumbs' file in a run's directory: the numbers, then the names of the hooks.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::suspects::Suspect;
use super::trail::{Crumb, MAGIC, Trail};

/// Its name; it is there while a run is under way.
const NAME: &str = ".breadcrumbs";

/// The numbers' part of the file, in whole pages.
const SIZE: usize = 4096;

const _: () = assert!(size_of::<Trail>() <= SIZE);

pub(super) fn path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Makes the file and the numbers in it, which stay as long as this process.
pub(super) fn create(directory: &Path, hooks: &[Suspect]) -> io::Result<&'static Trail> {
    let path = path(directory);
    // A file of its own: an earlier process, or a forked one, may still have the last one.
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
    // Written rather than left out: where the disk is full it is an error here and no signal later.
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
    // SAFETY: a fresh mapping, which is never unmapped, of a file that has this size. Others may
    // write to the file, which the atomic numbers allow; all bits are good for them.
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

/// What a run that did not come to its end has left.
pub(super) struct Left {
    pub(super) pid: u64,
    pub(super) crumb: Crumb,
    /// The hook that was being called.
    pub(super) hook: Option<Suspect>,
    pub(super) checkpoint: Option<String>,
}

/// Reads the file of a run that did not come to its end; nothing where there is none, or where it
/// is another's.
pub(super) fn read(directory: &Path) -> Option<Left> {
    let bytes = std::fs::read(path(directory)).ok()?;
    let (numbers, names) = bytes.split_at_checked(SIZE)?;
    let trail = Trail::from_bytes(numbers)?;
    if trail.has_ended() {
        return None;
    }
    let crumb = trail.read();
    let names = String::from_utf8_lossy(names);
    let hook = crumb.hook.and_then(|hook| names.lines().nth(hook));
    let hook = hook.and_then(|line| line.split_once('\t'));
    let mut path = vec![0; SIZE];
    let length = trail.checkpoint(&mut path);
    path.truncate(length);
    Some(Left {
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
