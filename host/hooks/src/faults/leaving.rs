//! Time limit for the process's exit: plugins' exit handlers and destructors that never return.
//!
//! By then everything of the run is written, and its watchdog is gone. Handlers that a library registers during
//! a hook's call (`atexit`, destructors of thread-locals) have not been seen by any trial.

use std::thread;
use std::time::Duration;

use crate::exit;

/// Multiple of the hang limit after which the process is ended.
const PATIENCE: u32 = 3;

/// Limits the time that this process takes to exit: after `limit` a warning is printed, and after `PATIENCE` times
/// that the process is ended without running the plugins' remaining handlers.
pub fn leave(limit: Duration) {
    // Without a thread there is no limit, but the process can still exit.
    drop(thread::Builder::new().name("exit".to_owned()).spawn(move || {
        thread::sleep(limit);
        say(&format!(
            "warning: the process has not exited for {} s: a destructor or exit handler of a plugin does not come \
             back; everything of the run is written\n",
            limit.as_secs_f64()
        ));
        thread::sleep(limit * (PATIENCE - 1));
        say(&format!(
            "error: the process was ended after {} s without its plugins' exit handlers\n",
            (limit * PATIENCE).as_secs_f64()
        ));
        quit();
    }));
}

/// Ends a process that waits in vain, with this message and the exit code of a hang; no handlers run.
pub fn end_hung(message: &str) {
    super::terminal::give_back();
    say(message);
    quit();
}

fn say(text: &str) {
    // Not through std, since another thread may have locked its standard error.
    #[cfg(unix)]
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    #[cfg(not(unix))]
    eprint!("{text}");
}

#[cfg(unix)]
fn quit() {
    // SAFETY: `_exit` has no preconditions; it runs no handlers or destructors.
    unsafe { libc::_exit(i32::from(exit::HANG)) }
}

#[cfg(not(unix))]
fn quit() {
    std::process::abort()
}
