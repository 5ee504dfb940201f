//! This program's executable run as a child process: started, watched, and killed at its time
//! limit.
//!
//! Where the code is a library in another program, such as Python, that one is of no use as a child: the library names the
//! program that belongs to it ([`set_program`]).

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::launcher;

/// Interval at which a child is polled.
const LOOK: Duration = Duration::from_millis(2);

/// How many of the last lines on standard error are reported.
const TOLD: usize = 8;

/// What [`set_program`] named.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// What [`set_code`] named.
static CODE: OnceLock<PathBuf> = OnceLock::new();

/// Names the program `sconce` that children are, in a process that is another program. The first call holds for the
/// process.
pub fn set_program(path: &Path) {
    let _ = PROGRAM.set(path.to_owned());
}

/// Whether [`set_program`] has named a program: where this one is not `sconce` itself, whether children can be it.
pub fn is_program_known() -> bool {
    PROGRAM.get().is_some()
}

/// Names the file with this program's code, where that is a library which it opens. The first call holds for the process.
pub fn set_code(path: &Path) {
    let _ = CODE.set(path.to_owned());
}

/// Path of the file with this program's code: its executable, unless [`set_code`] has named another.
///
/// # Errors
///
/// If the system does not say.
pub fn code() -> io::Result<PathBuf> {
    CODE.get().cloned().map_or_else(executable, Ok)
}

/// Path of this program's executable, which relative places of an installation start at; if the file has been replaced, that of
/// the running image.
///
/// # Errors
///
/// If the system does not say.
pub fn executable() -> io::Result<PathBuf> {
    if let Some(program) = PROGRAM.get() {
        return Ok(program.clone());
    }
    let own = std::env::current_exe()?;
    Ok(if own.is_file() {
        own
    } else {
        "/proc/self/exe".into()
    })
}

/// A command that runs this program as a child of its own. It is not one of the processes that a launcher started, and
/// does not learn from the environment that this one is.
///
/// # Errors
///
/// If the system does not say where the program is.
pub fn command() -> io::Result<Command> {
    let mut command = Command::new(executable()?);
    launcher::hide_from(&mut command);
    Ok(command)
}

/// Waits for the end of a process that leads its own group; `None` if it had to be killed.
///
/// # Errors
///
/// If the system refuses to wait for it.
pub fn watch(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if begin.elapsed() >= limit {
            break None;
        }
        std::thread::sleep(LOOK);
    };
    // Kill its children too: none may outlive it.
    end_group(child);
    if status.is_none() {
        let _ = child.kill();
        child.wait()?;
    }
    Ok(status)
}

#[cfg(unix)]
fn end_group(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};

    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn end_group(_child: &Child) {}

/// Describes the end of a child that gave no answer.
pub fn ending(status: Option<ExitStatus>, limit: Duration) -> String {
    let Some(status) = status else {
        return format!("not done after {} s: it hung", limit.as_secs_f64());
    };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("crashed ({})", crate::signals::name(signal));
    }
    let code = status.code().unwrap_or(-1);
    format!("the process exited with {code} without an answer")
}

/// Last lines of a child's standard error, blank ones left out.
pub fn last_lines(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(TOLD);
    lines.get(from..).unwrap_or_default().to_vec()
}
