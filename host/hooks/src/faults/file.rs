//! File of the breadcrumbs: the [`Trail`], then the names of the hooks.
//!
//! It is in the run's directory. If a hook has a process of its own, the file is in the user's directory for the state of
//! programs, under the hash of the run's directory: a sandbox may write into that, and a file that becomes shorter ends whoever
//! has mapped it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use etcetera::BaseStrategy;
use sconce_base::regular_file::read_at_most;
use sconce_manifest::digest::fingerprint;

use super::suspects::Suspect;
use super::trail::{Crumb, MAGIC, Trail};

/// Name of the file in the run's directory, where it exists only during a run.
const NAME: &str = ".breadcrumbs";

/// Size in bytes of the part that holds the [`Trail`], in whole pages.
const SIZE: usize = 4096;

/// Size in bytes of the largest file that is read.
const LARGEST: u64 = 16 << 20;

const _: () = assert!(size_of::<Trail>() <= SIZE);

fn inside(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Path of the file outside the run's directory; none if the user has no place for it.
fn outside(directory: &Path) -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    let base = base.state_dir().unwrap_or_else(|| base.cache_dir());
    let directory = std::fs::canonicalize(directory).ok()?;
    let name = fingerprint(directory.as_os_str().as_encoded_bytes());
    Some(base.join("sconce").join("breadcrumbs").join(name))
}

/// Creates the file and maps its [`Trail`] for the lifetime of this process; returns its path, too.
pub(super) fn create(directory: &Path, hooks: &[Suspect]) -> io::Result<(&'static Trail, PathBuf)> {
    let (inside, outside) = (inside(directory), outside(directory));
    let is_outside = hooks.iter().any(|hook| hook.is_isolated);
    let (path, other) = if is_outside {
        let none = "no directory for them outside the run's, which its hooks can write to";
        (outside.ok_or_else(|| io::Error::other(none))?, Some(inside))
    } else {
        (inside, outside)
    };
    if let Some(other) = other {
        // That of an earlier run. There is none where this user can't write.
        drop(std::fs::remove_file(other));
    }
    // Always a new file: an earlier process, or a forked copy, may still have the previous one
    // mapped.
    if let Err(error) = std::fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    if let Some(parent) = path.parent().filter(|_| is_outside) {
        fs_err::create_dir_all(parent)?;
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
    Ok((trail, path))
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
    // The one that hooks can't write to comes first.
    let mut places = outside(directory).into_iter().chain([inside(directory)]);
    let bytes = places.find_map(|path| read_at_most(&path, LARGEST).ok())?;
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
