//! The parent of a trial load: starts the child, reads its output, and kills it after the time limit.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{COMMAND, Candidate, child};
use crate::plugin::trial_fault::{Ending, Fault};
use crate::signals;
use crate::subprocess;

/// Interval at which the child is checked while it writes nothing.
const LOOK: Duration = Duration::from_millis(2);

/// Maximum number of bytes kept of each output of the child.
const KEPT: usize = 64 * 1024;

/// Maximum number of lines of its standard error shown in a message.
const TOLD: usize = 8;

/// The outcome of a child.
pub(super) struct TrialOutcome {
    pub(super) result: Result<(), Fault>,
    printed: String,
}

impl TrialOutcome {
    /// The warning for a library that printed to standard output, which is reserved for results.
    pub(super) fn warning(&self, candidates: &[&Candidate]) -> Option<String> {
        let line = self.printed.lines().next()?;
        let files = match candidates {
            [_] => "a plugin",
            _ => "one of the plugins",
        };
        Some(format!(
            "{files} prints to standard output when it is opened (`{}`); in the run that goes to \
             standard error",
            sconce_manifest::diagnostic::shortened(line)
        ))
    }
}

/// Opens libraries in a child process.
///
/// # Errors
///
/// If no child can be started.
pub(super) fn run(candidates: &[&Candidate], limit: Duration) -> io::Result<TrialOutcome> {
    let begin = Instant::now();
    let (says, said) = pipe_with(PipeFlags::CLOEXEC)?;
    // Copies of descriptors for the child to inherit: all others are closed there.
    let mut lent = Vec::new();
    let mut files = Vec::new();
    for candidate in candidates {
        files.push(inherited(candidate, &mut lent)?);
    }
    let mut child = subprocess::command()?
        .arg(COMMAND)
        .args(&files)
        .stdin(Stdio::from(said))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    drop(lent);
    let mut ears = [Ear::new(says)]
        .into_iter()
        .chain(child.stdout.take().map(|pipe| Ear::new(pipe.into())))
        .chain(child.stderr.take().map(|pipe| Ear::new(pipe.into())))
        .collect::<Vec<Ear>>();
    let status = listen(&mut child, &mut ears, begin, limit);
    let [said, printed, words] =
        [0, 1, 2].map(|ear| ears.get(ear).map(Ear::text).unwrap_or_default());
    let status = status?;
    if let Some(reason) = said.strip_prefix(child::UNABLE) {
        return Err(io::Error::other(reason.to_owned()));
    }
    // Whatever happens after this is part of the exit.
    let is_open = said.ends_with(child::DONE);
    let ending = match status {
        None => Some(Ending::TimeOut(limit)),
        Some(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => Some(Ending::Signal(signals::name(signal))),
            (None, Some(child::ENDED)) if is_open => None,
            (None, code) => Some(Ending::Exit(code.unwrap_or(-1))),
        },
    };
    let result = match ending {
        None => Ok(()),
        Some(ending) => Err(Fault {
            ending,
            is_at_exit: is_open,
            words: last_lines(&words, TOLD),
        }),
    };
    Ok(TrialOutcome { result, printed })
}

/// The path under which the child can open a library's file.
fn inherited(candidate: &Candidate, lent: &mut Vec<OwnedFd>) -> io::Result<PathBuf> {
    if !candidate.file.starts_with("/proc/self/fd") {
        return Ok(candidate.file.clone());
    }
    let opened = std::fs::File::open(&candidate.file)?;
    // The copy lacks the close-on-exec flag.
    let copy = rustix::io::dup(&opened)?;
    let file = PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd()));
    lent.push(copy);
    Ok(file)
}

/// Waits for the child to end; `None` if it had to be killed.
fn listen(
    child: &mut Child,
    ears: &mut [Ear],
    begin: Instant,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let is_over = loop {
        hear(ears, LOOK)?;
        let ended = group.map_or(Ok(None), |group| waitid(WaitId::Pid(group), look))?;
        if ended.is_some() {
            break true;
        }
        if begin.elapsed() >= limit {
            break false;
        }
    };
    // Processes started by a constructor must not outlive the trial. The group's ID stays valid until its
    // leader has been waited for.
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait()?;
    hear(ears, Duration::ZERO)?;
    Ok(is_over.then_some(status))
}

/// The reading end of a pipe, and what has been read from it.
struct Ear {
    pipe: Option<std::fs::File>,
    bytes: Vec<u8>,
}

impl Ear {
    fn new(pipe: OwnedFd) -> Ear {
        Ear {
            pipe: Some(pipe.into()),
            bytes: Vec::new(),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Reads what is available.
    fn take(&mut self) {
        let mut buffer = [0; 4096];
        let read = self
            .pipe
            .as_mut()
            .map_or(Ok(0), |pipe| pipe.read(&mut buffer));
        match read {
            Ok(length) if length > 0 => {
                let room = KEPT.saturating_sub(self.bytes.len());
                let taken = buffer.get(..length.min(room)).unwrap_or_default();
                self.bytes.extend_from_slice(taken);
            }
            _ => self.pipe = None,
        }
    }
}

/// Reads from the pipes while data keeps arriving; waits up to `wait` for the first data.
fn hear(ears: &mut [Ear], wait: Duration) -> io::Result<()> {
    let mut wait = wait;
    loop {
        let open: Vec<usize> = (0..ears.len())
            .filter(|&ear| ears.get(ear).is_some_and(|ear| ear.pipe.is_some()))
            .collect();
        let fds = open.iter().filter_map(|&ear| ears.get(ear)?.fd());
        let mut fds: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let timeout = Timespec::try_from(wait).ok();
        let count = match poll(&mut fds, timeout.as_ref()) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (ear, _) in open.into_iter().zip(ready).filter(|(_, ready)| *ready) {
            if let Some(ear) = ears.get_mut(ear) {
                ear.take();
            }
        }
        if count == 0 {
            return Ok(());
        }
        wait = Duration::ZERO;
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(count);
    lines.get(from..).unwrap_or_default().join("\n")
}
