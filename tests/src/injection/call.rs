//! System calls that change files, and what in a run's directory they are about.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use super::listener::Stopped;

/// What a call's arguments say; the numbers are places among them.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A descriptor of the file that is written.
    Write(usize),
    /// A descriptor of the file or directory that is made durable.
    Sync(usize),
    /// A path, relative to a directory's descriptor if the call has one, and how it is opened.
    Open {
        at: Option<usize>,
        path: usize,
        flags: usize,
    },
    /// A path, relative to a directory's descriptor if the call has one, that appears or goes.
    Name { at: Option<usize>, path: usize },
    /// Two of them.
    Names {
        from: (Option<usize>, usize),
        to: (Option<usize>, usize),
    },
}

/// Number, name and arguments of the calls.
pub(super) const CALLS: &[(libc::c_long, &str, Kind)] = &[
    (libc::SYS_write, "write", Kind::Write(0)),
    (libc::SYS_pwrite64, "pwrite", Kind::Write(0)),
    (libc::SYS_writev, "writev", Kind::Write(0)),
    (libc::SYS_pwritev, "pwritev", Kind::Write(0)),
    (libc::SYS_pwritev2, "pwritev", Kind::Write(0)),
    (libc::SYS_ftruncate, "ftruncate", Kind::Write(0)),
    (libc::SYS_fallocate, "fallocate", Kind::Write(0)),
    (libc::SYS_sendfile, "sendfile", Kind::Write(0)),
    (libc::SYS_copy_file_range, "copy", Kind::Write(2)),
    (libc::SYS_fsync, "fsync", Kind::Sync(0)),
    (libc::SYS_fdatasync, "fsync", Kind::Sync(0)),
    #[cfg(target_arch = "x86_64")]
    (
        libc::SYS_open,
        "open",
        Kind::Open {
            at: None,
            path: 0,
            flags: 1,
        },
    ),
    (
        libc::SYS_openat,
        "open",
        Kind::Open {
            at: Some(0),
            path: 1,
            flags: 2,
        },
    ),
    // Its flags are behind a pointer, where a filter can't look: each is stopped.
    (libc::SYS_openat2, "open", name(Some(0), 1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, "open", name(None, 0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, "mkdir", name(None, 0)),
    (libc::SYS_mkdirat, "mkdir", name(Some(0), 1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, "unlink", name(None, 0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink", name(None, 0)),
    (libc::SYS_unlinkat, "unlink", name(Some(0), 1)),
    (libc::SYS_truncate, "truncate", name(None, 0)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, "symlink", name(None, 1)),
    (libc::SYS_symlinkat, "symlink", name(Some(1), 2)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_link, "link", names((None, 0), (None, 1))),
    (libc::SYS_linkat, "link", names((Some(0), 1), (Some(2), 3))),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename", names((None, 0), (None, 1))),
    #[cfg(target_arch = "x86_64")]
    (
        libc::SYS_renameat,
        "rename",
        names((Some(0), 1), (Some(2), 3)),
    ),
    (
        libc::SYS_renameat2,
        "rename",
        names((Some(0), 1), (Some(2), 3)),
    ),
];

const fn name(at: Option<usize>, path: usize) -> Kind {
    Kind::Name { at, path }
}

const fn names(from: (Option<usize>, usize), to: (Option<usize>, usize)) -> Kind {
    Kind::Names { from, to }
}

/// A call that changes something in a run's directory.
pub(super) struct Call {
    /// Name of the call.
    pub(super) name: &'static str,
    /// What it is about, relative to the run's directory.
    pub(super) path: String,
    /// For a call that makes something durable: where its file or directory can be opened.
    pub(super) synced: Option<PathBuf>,
}

impl Call {
    /// What a stopped call would do in `directory`; `None` if nothing.
    pub(super) fn of(stopped: &Stopped, directory: &Path) -> Option<Call> {
        let (_, name, kind) = CALLS
            .iter()
            .find(|(number, ..)| *number == stopped.number)?;
        let path = |(at, path)| path_of(stopped, at, path);
        let inside = |path: &Path| Some(path.strip_prefix(directory).ok()?.to_owned());
        let (place, synced) = match *kind {
            Kind::Write(argument) => (inside(&opened(stopped, argument)?)?, None),
            Kind::Sync(argument) => {
                let place = inside(&opened(stopped, argument)?)?;
                (place, Some(descriptor(stopped, argument)))
            }
            Kind::Open { at, path: name, .. } | Kind::Name { at, path: name } => {
                (inside(&path((at, name))?)?, None)
            }
            Kind::Names { from, to } => {
                let (from, to) = (inside(&path(from)?), inside(&path(to)?));
                let shown = |path: Option<PathBuf>| path.unwrap_or_else(|| PathBuf::from("…"));
                if from.is_none() && to.is_none() {
                    return None;
                }
                let both = format!("{} to {}", shown(from).display(), shown(to).display());
                (PathBuf::from(both), None)
            }
        };
        Some(Call {
            name,
            path: place.display().to_string(),
            synced,
        })
    }
}

/// Where a thread's open file can be opened.
fn descriptor(stopped: &Stopped, argument: usize) -> PathBuf {
    let number = stopped.arguments.get(argument).copied().unwrap_or_default() as i32;
    PathBuf::from(format!("/proc/{}/fd/{number}", stopped.thread))
}

/// Path of an open file; of what is not in a directory, a text that isn't one.
fn opened(stopped: &Stopped, argument: usize) -> Option<PathBuf> {
    fs::read_link(descriptor(stopped, argument)).ok()
}

/// An absolute path, from a path's text and perhaps a directory's descriptor.
fn path_of(stopped: &Stopped, at: Option<usize>, argument: usize) -> Option<PathBuf> {
    let address = stopped.arguments.get(argument)?;
    let memory = File::open(format!("/proc/{}/mem", stopped.thread)).ok()?;
    let mut text = [0; libc::PATH_MAX as usize];
    // It may end where the memory does.
    let length = memory.read_at(&mut text, *address).ok()?;
    let text = text.get(..length)?.split(|&byte| byte == 0).next()?;
    let relative = PathBuf::from(OsString::from_vec(text.to_vec()));
    let base = match at.and_then(|at| stopped.arguments.get(at)) {
        Some(&number) if number as i32 != libc::AT_FDCWD => opened(stopped, at?)?,
        _ => fs::read_link(format!("/proc/{}/cwd", stopped.thread)).ok()?,
    };
    let absolute = base.join(relative);
    let parts = absolute.components();
    Some(parts.filter(|part| *part != Component::CurDir).collect())
}

/// A place in a run: the same in each run of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The call's name.
    pub call: &'static str,
    /// What it is about, relative to the run's directory; process IDs are left out.
    pub path: String,
    /// How many such calls on this path were made before.
    pub ordinal: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() {
            "."
        } else {
            &self.path
        };
        write!(f, "{} {path} #{}", self.call, self.ordinal + 1)
    }
}

/// Names the points of one run.
#[derive(Default)]
pub(super) struct Points(HashMap<(&'static str, String), u32>);

impl Points {
    pub(super) fn next(&mut self, call: &Call) -> Point {
        let path = without_process(&call.path);
        let count = self.0.entry((call.name, path.clone())).or_default();
        let ordinal = *count;
        *count += 1;
        Point {
            call: call.name,
            path,
            ordinal,
        }
    }
}

/// A path whose temporary names (`.epoch-1.new-4711`) have no process IDs.
fn without_process(path: &str) -> String {
    let mut rest = path;
    let mut text = String::new();
    while let Some(at) = [".new-", ".old-"]
        .iter()
        .filter_map(|mark| Some(rest.find(mark)? + mark.len()))
        .min()
    {
        let (head, tail) = rest.split_at(at);
        text.push_str(head);
        rest = tail.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    text + rest
}
