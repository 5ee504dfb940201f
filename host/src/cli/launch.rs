//! `sconce launch`: starts the processes of a run on this machine, and ends all of them if one fails.
//!
//! **States.** All ranks run → one has failed: the others get time to end by themselves, since ranks agree on ends and
//! the first one saves a checkpoint; or none, if a signal killed it → they are asked to end (`SIGTERM`) → they are
//! killed. Once this process has passed on a signal that ends a run, nothing is killed while the ranks save.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Signal, kill_process};

use super::output;
use super::passed_on::{self, Signals, code_of};
use crate::diagnostic::Diagnostic;
use crate::exit;
use crate::kernels::threads;
use crate::session::StartFailure;
use crate::signals;
use crate::subprocess::executable;
use crate::team::{launcher, machine};

/// How often the ranks are looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Time that the others have to end by themselves after a rank ended with an error.
const AGREED_END: Duration = Duration::from_secs(30);

/// Time between `SIGTERM` and `SIGKILL`: what is ended in this way can't save a checkpoint without the rank that is missing.
const GRACE: Duration = Duration::from_secs(3);

/// Longest path of a directory with the ranks' sockets: an address has room for 107 bytes.
const LONGEST: usize = 90;

/// Arguments of `sconce launch`.
#[derive(Debug, Args)]
pub(super) struct LaunchArgs {
    /// Number of processes.
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ranks: u16,
    /// Checks that the processes can talk to each other, as `sconce team` does, instead of training.
    #[arg(long)]
    check: bool,
    /// Run manifest, and further arguments of `sconce run`; with `--check`, those of `sconce team`.
    #[arg(
        value_name = "FILE [ARGUMENT]…",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "check"
    )]
    arguments: Vec<String>,
}

pub(super) fn launch(arguments: &LaunchArgs) -> Result<u8, StartFailure> {
    let refused = |problem: String| StartFailure::usage(vec![Diagnostic::new(problem)]);
    output::lend();
    let passed_on = Signals::install();
    let place = meeting_place().map_err(|error| {
        refused(format!(
            "there is no directory for the ranks to meet: {error}"
        ))
    })?;
    let mut ranks = Ranks::default();
    let started = start(arguments, place.path(), &mut ranks);
    if let Err(error) = started {
        ranks.signal(Signal::KILL);
        ranks.wait_for_all();
        return Err(refused(format!("the ranks can't be started: {error}")));
    }
    Ok(watch(&mut ranks, &passed_on))
}

/// A directory that only this user can enter, with a path short enough for sockets.
fn meeting_place() -> io::Result<tempfile::TempDir> {
    let usual = std::env::temp_dir();
    let parent = if usual.as_os_str().len() > LONGEST - "sconce-XXXXXX/".len() {
        PathBuf::from("/tmp")
    } else {
        usual
    };
    tempfile::Builder::new()
        .prefix("sconce-")
        .rand_bytes(6)
        .tempdir_in(parent)
}

/// Starts all ranks. This thread must live as long as they do: at its end the system ends them.
fn start(arguments: &LaunchArgs, place: &Path, ranks: &mut Ranks) -> io::Result<()> {
    let token = token()?;
    let count = usize::from(arguments.ranks);
    let threads = threads::threads();
    let program = executable()?;
    for rank in 0..count {
        let mut command = Command::new(&program);
        command
            .arg(if arguments.check { "team" } else { "run" })
            .args(&arguments.arguments)
            .env(launcher::RANK, rank.to_string())
            .env(launcher::SIZE, count.to_string())
            .env(launcher::DIRECTORY, place)
            .env(launcher::TOKEN, &token)
            .env(launcher::PARENT, std::process::id().to_string());
        if threads::VARIABLES
            .iter()
            .all(|name| std::env::var_os(name).is_none())
        {
            // The ranks share the processors.
            let each = (threads.usable / count).max(1).to_string();
            for name in threads::VARIABLES {
                command.env(name, &each);
            }
        }
        if rank > 0 {
            command.stdin(Stdio::null());
        }
        ranks.0.push(Rank {
            child: command.spawn()?,
            ended: None,
        });
    }
    Ok(())
}

/// Text that only this launch's processes know.
fn token() -> io::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    fs_err::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// Waits until all ranks have ended; returns the exit code of the first that failed.
fn watch(ranks: &mut Ranks, passed_on: &Signals) -> u8 {
    let mut code = exit::DONE;
    let mut end = End::None;
    while ranks.are_running() {
        thread::sleep(LOOK);
        for signal in passed_on.arrived() {
            ranks.signal(signal);
            end = End::Requested;
        }
        for (rank, status) in ranks.newly_ended() {
            if status.success() {
                continue;
            }
            let by_signal = status.signal();
            // Others fail because the first one did, except that a rank which has lost another may be seen to end before it.
            let has_lost_another = code == exit::TRAINING && matches!(end, End::Terminate(_));
            if code == exit::DONE || (has_lost_another && code_of(status) != exit::TRAINING) {
                code = code_of(status);
                if end != End::Requested || by_signal.is_some() {
                    say(rank, status);
                }
            }
            end = end.after_failure(by_signal.is_some());
        }
        end = end.proceed(ranks);
    }
    code
}

/// How far the end of all ranks has come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    None,
    /// A signal asked for it, which this process has passed on.
    Requested,
    /// A rank has failed; the others are sent `SIGTERM` at this time.
    Terminate(Instant),
    /// They are killed at this time.
    Kill(Instant),
    Killed,
}

impl End {
    fn after_failure(self, by_signal: bool) -> End {
        let now = Instant::now();
        match self {
            // A rank that was asked to end does so with an exit code.
            End::Requested if !by_signal => End::Requested,
            End::None if !by_signal => End::Terminate(now + AGREED_END),
            End::None | End::Requested => End::Terminate(now),
            End::Terminate(time) if by_signal => End::Terminate(time.min(now)),
            other => other,
        }
    }

    /// Does what is due.
    fn proceed(self, ranks: &Ranks) -> End {
        let now = Instant::now();
        match self {
            End::Terminate(time) if time <= now => {
                ranks.signal(Signal::TERM);
                End::Kill(now + GRACE)
            }
            End::Kill(time) if time <= now => {
                ranks.signal(Signal::KILL);
                End::Killed
            }
            other => other,
        }
    }
}

/// Reports a rank that failed.
fn say(rank: usize, status: ExitStatus) {
    let host = machine::name();
    let how = match status.signal() {
        Some(signal) => format!("by signal {signal} ({})", signals::name(signal)),
        None => format!("with exit code {}", code_of(status)),
    };
    output::diagnostics(&[Diagnostic::new(format!("rank {rank} ({host}) ended {how}"))]);
}

/// The processes, by rank.
#[derive(Default)]
struct Ranks(Vec<Rank>);

struct Rank {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Ranks {
    fn are_running(&self) -> bool {
        self.0.iter().any(|rank| rank.ended.is_none())
    }

    /// Sends a signal to all that still run.
    fn signal(&self, signal: Signal) {
        for rank in self.0.iter().filter(|rank| rank.ended.is_none()) {
            passed_on::send(&rank.child, signal);
        }
    }

    /// The ranks that have ended since the last time, in order.
    fn newly_ended(&mut self) -> Vec<(usize, ExitStatus)> {
        let mut ended = Vec::new();
        for (number, rank) in self.0.iter_mut().enumerate() {
            if rank.ended.is_none()
                && let Ok(Some(status)) = rank.child.try_wait()
            {
                rank.ended = Some(status);
                ended.push((number, status));
            }
        }
        // Of those found at the same time, one that was killed failed before those that noticed.
        ended.sort_by_key(|(number, status)| (status.signal().is_none(), *number));
        ended
    }

    fn wait_for_all(&mut self) {
        for rank in &mut self.0 {
            rank.ended = rank.child.wait().ok();
        }
    }
}

/// Makes the system end this process with the launcher that started it, if one did.
///
/// `SIGTERM`, as the launcher sends it: the ranks save a checkpoint together.
pub(super) fn stay_with_launcher() {
    let Some(parent) = std::env::var(launcher::PARENT)
        .ok()
        .and_then(|text| text.parse().ok())
    else {
        return;
    };
    let own = || rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if own() != Some(parent) {
        // The launcher has ended already, or this process is a child of one of its own.
        return;
    }
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    if own() != Some(parent) {
        let this = rustix::process::getpid();
        let _ = kill_process(this, Signal::TERM);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn running(script: &str) -> Rank {
        let child = Command::new("sh").args(["-c", script]).spawn();
        Rank {
            child: child.expect("a shell"),
            ended: None,
        }
    }

    #[test]
    fn the_first_failure_is_the_exit_code() {
        let quiet = Signals(Vec::new());
        for (scripts, code) in [
            (["true", "true"], 0),
            (["exit 4", "sleep 0.3; exit 7"], 4),
            (["exit 7", "sleep 0.3; exit 6"], 6),
            (["kill -9 $$", "sleep 60"], 137),
            (["kill -9 $$", "trap '' TERM; sleep 0.2; exit 3"], 137),
        ] {
            let mut ranks = Ranks(scripts.map(running).into());
            assert_eq!(watch(&mut ranks, &quiet), code, "{scripts:?}");
            assert!(!ranks.are_running());
        }
    }

    #[test]
    fn signals_are_passed_on_and_nothing_is_killed_then() {
        let flag = Arc::new(AtomicBool::new(true));
        let signals = Signals(vec![(flag, Signal::TERM)]);
        // One saves for a while after the other has ended.
        let scripts = [
            "trap 'exit 143' TERM; while :; do sleep 0.05; done",
            "trap 'sleep 1; exit 143' TERM; while :; do sleep 0.05; done",
        ];
        let mut ranks = Ranks(scripts.map(running).into());
        // Until the shells have set their traps.
        thread::sleep(Duration::from_millis(300));
        assert_eq!(watch(&mut ranks, &signals), 143);
        let ended = ranks
            .0
            .iter()
            .map(|rank| rank.ended.and_then(|status| status.code()));
        assert_eq!(ended.collect::<Vec<_>>(), [Some(143), Some(143)]);
    }

    #[test]
    fn a_failure_by_exit_code_leaves_time_and_one_by_signal_none() {
        let now = Instant::now();
        let End::Terminate(time) = End::None.after_failure(false) else {
            panic!("the others are left alone");
        };
        assert!(time >= now + AGREED_END);
        let End::Terminate(sooner) = End::Terminate(time).after_failure(true) else {
            panic!("the others are left alone");
        };
        assert!(sooner < time);
        assert_eq!(End::Requested.after_failure(false), End::Requested);
        assert!(matches!(
            End::Requested.after_failure(true),
            End::Terminate(_)
        ));
    }
}
