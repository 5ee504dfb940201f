//! `sconce launch`: starts the processes of a run on this machine, ends all of them if one fails, and starts them again if
//! that is asked for. `sconce run --restarts` does the same with a single process.
//!
//! - `ranks`: the processes
//! - `watch`: waiting for their ends, and how the run has ended
//! - `restarts`: what follows an accident
//!
//! **Flow.** For each attempt a new directory to meet in, where ranks also leave notes for this process (`team::meeting`);
//! then [`start`], [`watch`](watch::watch), and [`Attempt::next`].

mod ranks;
mod restarts;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use rustix::process::{Signal, kill_process};

use self::ranks::{Rank, Ranks};
use self::restarts::{Attempt, RestartArgs};
use crate::cli::process::passed_on::Signals;
use crate::cli::resume;
use crate::cli::show::output;
use crate::diagnostic::Diagnostic;
use crate::kernels::threads;
use crate::launcher::{self, Launch};
use crate::session::StartFailure;
use crate::subprocess::executable;
use crate::team::meeting::Told;

/// Longest path of a directory with the ranks' sockets: an address has room for 107 bytes.
const LONGEST: usize = 90;

/// Arguments of `sconce launch`.
#[derive(Debug, Args)]
pub(in crate::cli) struct LaunchArgs {
    /// Number of processes.
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ranks: u16,
    /// Checks that the processes can talk to each other, as `sconce team` does, instead of training.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    restarts: RestartArgs,
    /// Run manifest, and further arguments of `sconce run`; with `--check`, those of `sconce team`.
    #[arg(
        value_name = "FILE [ARGUMENT]…",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "check"
    )]
    arguments: Vec<String>,
}

pub(in crate::cli) fn launch(arguments: &LaunchArgs) -> Result<u8, StartFailure> {
    let RestartArgs {
        restarts,
        min_ranks,
    } = arguments.restarts;
    let launched = Launched {
        command: if arguments.check { "team" } else { "run" },
        size: usize::from(arguments.ranks),
        least: min_ranks,
        restarts: restarts.unwrap_or(0),
    };
    launched.supervise(arguments.arguments.clone())
}

/// `sconce run --restarts`: the run of this command line is another process's, which this one starts again after accidents.
///
/// # Errors
///
/// If this process is one of several that a launcher has started: they end together, and must begin together.
pub(in crate::cli) fn run_with_restarts(restarts: u32) -> Result<u8, StartFailure> {
    if let Some(Launch { launcher, .. }) = Launch::of_this_process().filter(|it| it.size > 1) {
        let problem = format!(
            "`--restarts` is for a single process, and `{launcher}` has started several, which begin together"
        );
        let hint = "on one machine, `sconce launch -n N --restarts N run.json`; in a queue, have it start the job again \
                    with `--resume`";
        let problem = Diagnostic::new(problem).hint(hint);
        return Err(StartFailure::usage(vec![problem]));
    }
    let launched = Launched {
        command: "run",
        size: 1,
        least: None,
        restarts,
    };
    // After the program and the command.
    let words = resume::all_own_words().skip(2);
    launched.supervise(without_restarts(words))
}

/// Removes `--restarts` from the arguments of `sconce run`.
fn without_restarts(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words = words;
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "--restarts" {
            words.next();
        } else if !word.starts_with("--restarts=") {
            kept.push(word);
        }
    }
    kept
}

/// What is launched.
#[derive(Clone, Copy, Debug)]
struct Launched<'a> {
    /// The command of each process.
    command: &'a str,
    /// Number of processes at the beginning.
    size: usize,
    /// Number of processes that are enough after others were killed.
    least: Option<std::num::NonZeroUsize>,
    /// How often they are started again.
    restarts: u32,
}

impl Launched<'_> {
    /// Starts the processes, and starts them again until the run has ended otherwise than by an accident. Returns the exit code.
    fn supervise(self, words: Vec<String>) -> Result<u8, StartFailure> {
        let refused = |problem: String| StartFailure::usage(vec![Diagnostic::new(problem)]);
        output::lend();
        let passed_on = Signals::install();
        let mut attempt = Attempt {
            size: self.size,
            words,
            left: self.restarts,
        };
        loop {
            let place = meeting_place().map_err(|error| {
                refused(format!(
                    "there is no directory for the ranks to meet: {error}"
                ))
            })?;
            let mut ranks = Ranks::default();
            if let Err(error) = self.start(&attempt, place.path(), &mut ranks) {
                ranks.signal(Signal::KILL);
                ranks.wait_for_all();
                return Err(refused(format!("the ranks can't be started: {error}")));
            }
            let told = Told(place.path());
            let ending = watch::watch(&mut ranks, &passed_on, told);
            match attempt.next(ending, told.run().as_ref(), self.least) {
                Some(next) => attempt = next,
                None => return Ok(ending.code),
            }
            attempt.announce(self.restarts);
        }
    }

    /// Starts all ranks. This thread must live as long as they do: at its end the system ends them.
    fn start(self, attempt: &Attempt, place: &Path, ranks: &mut Ranks) -> io::Result<()> {
        let token = token()?;
        let threads = threads::threads();
        let program = executable()?;
        let own_words = serde_json::to_string(&resume::own_words())?;
        for rank in 0..attempt.size {
            let mut command = Command::new(&program);
            command
                .arg(self.command)
                .args(&attempt.words)
                .env(launcher::RANK, rank.to_string())
                .env(launcher::SIZE, attempt.size.to_string())
                .env(launcher::DIRECTORY, place)
                .env(launcher::TOKEN, &token)
                .env(launcher::WORDS, &own_words)
                .env(launcher::PARENT, std::process::id().to_string());
            if let Some(least) = self.least {
                command.env(launcher::LEAST, least.to_string());
            }
            if threads::VARIABLES
                .iter()
                .all(|name| std::env::var_os(name).is_none())
                && self.size > 1
            {
                // The ranks share the processors; fewer ranks after a restart have no more, since results depend on it.
                let each = (threads.usable / self.size).max(1).to_string();
                for name in threads::VARIABLES {
                    command.env(name, &each);
                }
            }
            if rank > 0 {
                command.stdin(Stdio::null());
            }
            ranks.0.push(Rank::of(command.spawn()?));
        }
        Ok(())
    }
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

/// Text that only this launch's processes know.
fn token() -> io::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    fs_err::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_le_bytes(bytes)))
}

/// Makes the system end this process with the launcher that started it, if one did.
///
/// `SIGTERM`, as the launcher sends it: the ranks save a checkpoint together.
pub(in crate::cli) fn stay_with_launcher() {
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
    use super::*;

    #[test]
    fn the_processes_of_a_run_with_restarts_have_none_of_their_own() {
        let words = [
            "run.json",
            "--restarts",
            "3",
            "--set",
            "seed=1",
            "--restarts=2",
        ];
        let kept = without_restarts(words.map(str::to_owned).into_iter());
        assert_eq!(kept, ["run.json", "--set", "seed=1"]);
    }
}
