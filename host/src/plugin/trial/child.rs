//! The child of a trial load: opens libraries, says so, and ends.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, Signal};
use rustix::stdio;

use crate::plugin::library::Library;

/// What the child says when it has opened a library.
pub(super) const OPENED: &str = "opened\n";

/// What the child says last.
pub(super) const DONE: &str = "all libraries are open\n";

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
    let pipe = fcntl_dupfd_cloexec(stdio::stdin(), 100).map(File::from);
    let empty = File::open("/dev/null");
    let (Ok(mut pipe), Ok(empty)) = (pipe, empty) else {
        end(1)
    };
    if stdio::dup2_stdin(&empty).is_err() {
        end(1);
    }
    for library in libraries {
        if let Ok(opened) = Library::open_quietly(library) {
            drop(opened.describe());
        }
        if pipe.write_all(OPENED.as_bytes()).is_err() {
            end(1);
        }
    }
    let said = pipe.write_all(DONE.as_bytes());
    end(i32::from(said.is_err()))
}

/// Ends the process at once: the word has been said, whatever destructors do.
fn end(code: i32) -> ! {
    // SAFETY: ends this process without running anything more of it.
    unsafe { libc::_exit(code) }
}
