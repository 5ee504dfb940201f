//! A hook's process: its start, its messages and its end.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::super::COMMAND;
use super::super::channel::{Channel, DESCRIPTORS, Silence};
use super::super::ending::Ending;
use super::environment;
use super::orphans;
use super::output::Output;
use super::temporary::TemporaryDirectory;
use crate::plugin::{companions, signature};
use crate::signals;
use crate::subprocess;

/// How long a process may take to exit once its hook has been dropped, if calls have no limit.
const EXIT: Duration = Duration::from_secs(10);

/// The sandbox of a process, as it is started with.
#[derive(Debug)]
pub(super) struct ProcessSandbox {
    /// Its rules, as JSON.
    pub(super) text: String,
    /// More of the environment that it may see.
    pub(super) variables: Vec<String>,
    /// A variable that is added to its environment.
    pub(super) added: Option<(&'static str, String)>,
    /// Where its temporary files go.
    pub(super) temporary: TemporaryDirectory,
    /// The most memory that it may take, in bytes.
    pub(super) memory: Option<u64>,
}

/// A running child.
#[derive(Debug)]
pub(super) struct HookProcess {
    child: Child,
    /// Becomes readable at its end.
    watched: OwnedFd,
    pub(super) channel: Channel,
    pub(super) output: Output,
    /// Marks it, and what it starts.
    mark: String,
    /// Removed once the process has ended.
    _temporary: Option<TemporaryDirectory>,
    /// Whether it has ended as it should: what it has started may stay.
    is_done: bool,
}

impl HookProcess {
    /// Starts a child that will open `library`, in a sandbox or without.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub(super) fn start(
        library: &Path,
        sandbox: Option<ProcessSandbox>,
    ) -> io::Result<HookProcess> {
        // Half of what the process may take is for what it shares with this one.
        let limit = sandbox.as_ref().and_then(|sandbox| sandbox.memory);
        let (channel, child_end) = Channel::new(limit.map(|limit| limit / 2))?;
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        // Copies without the close-on-exec flag, for the child to inherit.
        let mut lent = Vec::new();
        for descriptor in child_end.descriptors() {
            lent.push(rustix::io::dup(descriptor)?);
        }
        let library = inherited(library, &mut lent)?;
        let numbers = lent
            .iter()
            .take(DESCRIPTORS)
            .map(|file| file.as_raw_fd().to_string());
        let mut command = subprocess::command()?;
        if let Some(sandbox) = &sandbox {
            environment::restrict(&mut command, &sandbox.variables);
            command.envs(sandbox.added.iter().map(|(name, value)| (name, value)));
            command.envs(sandbox.temporary.variables());
        }
        if signature::are_demanded() {
            companions::without_variables(&mut command);
        }
        let mark = orphans::mark();
        command.env(orphans::VARIABLE, &mark);
        let (rules, temporary) = match sandbox {
            Some(sandbox) => (sandbox.text, Some(sandbox.temporary)),
            None => (String::new(), None),
        };
        let child = command
            .arg(COMMAND)
            .args(["--parent", &std::process::id().to_string()])
            .args(["--rules", &rules])
            .arg("--library")
            .arg(&library)
            .args(numbers)
            .stdin(Stdio::null())
            .stdout(Stdio::from(writes.try_clone()?))
            .stderr(Stdio::from(writes))
            .process_group(0)
            .spawn()?;
        drop((lent, child_end));
        let output = Output::of(reads);
        let watched = group(&child)
            .ok_or_else(|| io::Error::other("it has no process ID"))
            .and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
        let mut child = child;
        match (watched, output) {
            (Ok(watched), Ok(output)) => Ok(HookProcess {
                child,
                watched,
                channel,
                output,
                mark,
                _temporary: temporary,
                is_done: false,
            }),
            (Err(error), _) | (_, Err(error)) => {
                kill(&mut child);
                Err(error)
            }
        }
    }

    /// Sends a message.
    pub(super) fn send(&mut self, message: &[u8]) -> Result<(), Ending> {
        self.channel
            .send(message)
            .map_err(|error| Ending::Confused(error.to_string()))
    }

    /// Waits for a message until the limit, counted from `begin`, has passed.
    pub(super) fn receive(
        &mut self,
        message: &mut Vec<u8>,
        begin: Instant,
        limit: Option<Duration>,
    ) -> Result<(), Ending> {
        let deadline = limit.and_then(|limit| begin.checked_add(limit));
        let received = self
            .channel
            .receive(message, deadline, Some(self.watched.as_fd()));
        received.map_err(|silence| match silence {
            Silence::Ended => self.ending(),
            Silence::Late => Ending::Late(limit.unwrap_or_default()),
            Silence::System(error) => Ending::Confused(error.to_string()),
        })
    }

    /// How it has ended. Those of its group end, too, while its number is still its own: it has not been waited for.
    fn ending(&mut self) -> Ending {
        if let Some(group) = group(&self.child) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        match self.child.wait() {
            Ok(status) => ending_of(status),
            Err(error) => Ending::Confused(error.to_string()),
        }
    }

    /// Ends the process and what it has started, and returns the last lines that it printed.
    pub(super) fn kill(mut self) -> Vec<String> {
        self.end();
        self.output.last()
    }

    /// Waits for the process to exit by itself, which it is about to.
    pub(super) fn wait(mut self, limit: Option<Duration>) -> (Option<Ending>, Vec<String>) {
        let deadline = Instant::now() + limit.unwrap_or(EXIT);
        let mut nothing = Vec::new();
        let waited = self
            .channel
            .receive(&mut nothing, Some(deadline), Some(self.watched.as_fd()));
        let ending = match waited {
            Err(Silence::Ended) => match self.child.wait() {
                Ok(status) if status.success() => None,
                Ok(status) => Some(ending_of(status)),
                Err(error) => Some(Ending::Confused(error.to_string())),
            },
            _ => Some(Ending::Late(limit.unwrap_or(EXIT))),
        };
        self.is_done = ending.is_none();
        self.end();
        (ending, self.output.last())
    }

    /// Ends the process, and what it has left behind.
    fn end(&mut self) {
        kill(&mut self.child);
        if !self.is_done {
            orphans::end(&self.mark);
            self.is_done = true;
        }
    }
}

impl Drop for HookProcess {
    fn drop(&mut self) {
        self.end();
    }
}

fn ending_of(status: ExitStatus) -> Ending {
    match status.signal() {
        Some(signal) => Ending::Signal(signals::name(signal)),
        None => Ending::Exit(status.code().unwrap_or(-1)),
    }
}

/// The group that a process leads.
fn group(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Kills a process that leads its own group, and the group.
fn kill(child: &mut Child) {
    let group = group(child);
    // Once it has been waited for, its number may be another's.
    if matches!(child.try_wait(), Ok(Some(_))) {
        return;
    }
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The path under which the child can open a library's file.
fn inherited(file: &Path, lent: &mut Vec<OwnedFd>) -> io::Result<PathBuf> {
    if !file.starts_with("/proc/self/fd") {
        return Ok(file.to_owned());
    }
    let opened = std::fs::File::open(file)?;
    let copy = rustix::io::dup(&opened)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd()));
    lent.push(copy);
    Ok(path)
}
