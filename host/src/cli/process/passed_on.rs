//! Signals that a command passes on to the processes that it has started, and their ends as exit codes.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use super::signals::is_ignored;

/// Signals that are passed on; all of them end a run.
const PASSED_ON: [(i32, Signal); 4] = [
    (SIGINT, Signal::INT),
    (SIGTERM, Signal::TERM),
    (SIGHUP, Signal::HUP),
    (SIGUSR1, Signal::USR1),
];

/// Signals that have arrived and are to be passed on.
pub(in crate::cli) struct Signals(pub(in crate::cli) Vec<(Arc<AtomicBool>, Signal)>);

impl Signals {
    /// From here on, no signal ends this process before those it has started. A `SIGHUP` that was ignored when this
    /// process started, as with `nohup`, stays ignored.
    pub(in crate::cli) fn install() -> Signals {
        let mut flags = Vec::new();
        for (number, signal) in PASSED_ON {
            let flag = Arc::new(AtomicBool::new(false));
            if number == SIGHUP && is_ignored(number) {
                continue;
            }
            // If the system refuses, the signal keeps its default action and ends this process, and so the others.
            if signal_hook::flag::register(number, Arc::clone(&flag)).is_ok() {
                flags.push((flag, signal));
            }
        }
        Signals(flags)
    }

    /// The signals that have arrived since the last time.
    pub(in crate::cli) fn arrived(&self) -> impl Iterator<Item = Signal> {
        let arrived = self
            .0
            .iter()
            .filter(|(flag, _)| flag.swap(false, Ordering::Relaxed));
        arrived.map(|(_, signal)| *signal)
    }
}

/// Sends a signal to a process that has not been waited for, so that its number is still its own.
pub(in crate::cli) fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// The exit code for a process's end, as shells have it.
pub(in crate::cli) fn code_of(status: ExitStatus) -> u8 {
    let code = match status.signal() {
        Some(signal) => 128 + signal,
        None => status.code().unwrap_or(1),
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}
