//! The end of the process: exit handlers and destructors of plugins that don't come back.
//!
//! Everything of the run is written by then, and its watchdog is gone. What a library registers in a hook's call
//! (`atexit`, destructors of thread-locals) no trial has seen.

use std::thread;
use std::time::Duration;

use crate::exit;

/// The process is ended at this multiple of the time after which a hang is reported.
const PATIENCE: u32 = 3;

/// From now on this process exits: where that takes longer than the limit it is reported, and in the end done without
/// the plugins' say.
pub(crate) fn leave(limit: Duration) {
    // Where the system gives no thread there is no watch, which is no reason not to exit.
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

fn say(text: &str) {
    // Not by way of std, whose standard error another thread may have locked.
    #[cfg(unix)]
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    #[cfg(not(unix))]
    eprint!("{text}");
}

#[cfg(unix)]
fn quit() {
    // SAFETY: ends this process without running anything more of it.
    unsafe { libc::_exit(i32::from(exit::HANG)) }
}

#[cfg(not(unix))]
fn quit() {
    std::process::abort()
}
