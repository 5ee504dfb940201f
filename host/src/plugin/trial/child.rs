//! The child of a trial load: opens libraries, says so, and exits as a run does.
//!
//! A process that exits runs more of its libraries' code: destructors, functions given to `atexit`, those of
//! thread-locals. They get their trial too; that they came to their end says an exit code of its own, which a
//! library that ends the process with another one in them does not know.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, Signal};
use rustix::stdio;

use crate::files;
use crate::plugin::library::Library;

/// What the child says when it has opened a library.
pub(super) const OPENED: &str = "opened\n";

/// What the child says last.
pub(super) const DONE: &str = "all libraries are open\n";

/// What the child says where it can't even begin, before the reason.
pub(super) const UNABLE: &str = "unable: ";

/// The exit code of a child that has come to its end: no library chooses it by accident.
pub(super) const ENDED: i32 = 87;

/// The number that the pipe gets at the least, where the limit of open files lets it: libraries that close what they
/// don't know begin lower.
const HIDDEN: u64 = 100;

/// Opens the libraries and ends the process. What is wrong with a library but does not end the
/// process is told when it is opened in earnest.
pub(super) fn answer(libraries: &[PathBuf]) -> ! {
    // The parent's end is this process's: nobody waits for it any more.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // A crash here is an answer, not something to keep.
    let nothing = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = rustix::process::setrlimit(Resource::Core, nothing);
    // std's handlers for stack overflows would let a raised signal pass.
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default action, on the only thread.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // Standard input is the pipe to the parent. It gets another number, which libraries don't
    // know, and they read nothing there.
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

/// Takes the pipe to the parent off standard input, which leads nowhere from now on.
fn hide_pipe() -> std::io::Result<File> {
    let limit = files::most_open().unwrap_or(u64::MAX);
    let number = i32::try_from(HIDDEN.min(limit.saturating_sub(1))).unwrap_or(3);
    let pipe = fcntl_dupfd_cloexec(stdio::stdin(), number)
        .or_else(|_| fcntl_dupfd_cloexec(stdio::stdin(), 3))?;
    stdio::dup2_stdin(&File::open("/dev/null")?)?;
    Ok(pipe.into())
}

/// Exits as a run does, by way of everything that libraries have to be called at the end.
#[expect(clippy::exit, reason = "what a process does at its exit is tried")]
fn exit() -> ! {
    std::process::exit(ENDED)
}

/// Ends the process at once.
fn end(code: i32) -> ! {
    // SAFETY: ends this process without running anything more of it.
    unsafe { libc::_exit(code) }
}
