//! The child of a trial load: opens libraries, reports progress, and exits as a run does.
//!
//! An exiting process runs more of its libraries' code: destructors, functions given to `atexit`, those of
//! thread-locals. They are tried as well: a child that completed them exits with a code of its own, which a
//! library that exits there with another code does not know.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, Signal};
use rustix::stdio;

use crate::plugin::library::Library;
use sconce_base::files;

/// Written to the pipe each time a library has been opened.
pub(super) const OPENED: &str = "opened\n";

/// Written to the pipe after all libraries.
pub(super) const DONE: &str = "all libraries are open\n";

/// Written, followed by the reason, if the child can't even start.
pub(super) const UNABLE: &str = "unable: ";

/// Exit code of a child that ran to completion: no library would choose it by accident.
pub(super) const ENDED: i32 = 87;

/// Minimum descriptor number for the pipe, if the limit on open files permits. Libraries that close
/// descriptors unknown to them start at lower numbers.
const HIDDEN: u64 = 100;

/// Opens the libraries and ends the process. Problems that do not end the process are reported when the run
/// opens the library.
pub(super) fn answer(libraries: &[PathBuf]) -> ! {
    // If the parent ends, no one is waiting for this process any more.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // A crash here is a result; no core dump is wanted.
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = rustix::process::setrlimit(Resource::Core, nothing);
    // The standard library's handlers for stack overflows would swallow a raised signal.
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: sets the default action, while this is the only thread.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // Standard input is the pipe to the parent. It is moved to another descriptor, so that libraries neither
    // know it nor read from it.
    let mut pipe = match hide_pipe() {
        Ok(pipe) => pipe,
        Err(error) => {
            let words = format!("{UNABLE}{error}");
            let _ = rustix::io::write(stdio::stdin(), words.as_bytes());
            end(1)
        }
    };
    for library in libraries {
        if let Ok(opened) = Library::open_quietly(library) {
            drop(opened.describe());
        }
        if pipe.write_all(OPENED.as_bytes()).is_err() {
            end(1);
        }
    }
    if pipe.write_all(DONE.as_bytes()).is_err() {
        end(1);
    }
    exit()
}

/// Moves the pipe to the parent off standard input, which then reads from `/dev/null`.
fn hide_pipe() -> std::io::Result<File> {
    let limit = files::most_open().unwrap_or(u64::MAX);
    let number = i32::try_from(HIDDEN.min(limit.saturating_sub(1))).unwrap_or(3);
    let pipe = fcntl_dupfd_cloexec(stdio::stdin(), number)
        .or_else(|_| fcntl_dupfd_cloexec(stdio::stdin(), 3))?;
    stdio::dup2_stdin(&File::open("/dev/null")?)?;
    Ok(pipe.into())
}

/// Exits as a run does, running everything that libraries have registered for the exit.
#[expect(clippy::exit, reason = "what a process does at its exit is tried")]
fn exit() -> ! {
    std::process::exit(ENDED)
}

/// Ends the process immediately.
fn end(code: i32) -> ! {
    // SAFETY: `_exit` ends this process without running any more of its code.
    unsafe { libc::_exit(code) }
}
