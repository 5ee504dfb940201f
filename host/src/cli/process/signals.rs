//! Signal handlers: the first signal requests a stop, a later one ends the run immediately.

use crate::exit;
use crate::run::{Interrupt, StopSignal};

/// Installs the handlers. A `SIGHUP` that was ignored when this process started, as with `nohup`, stays
/// ignored.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a handler that says something")]
pub(in crate::cli) fn install() -> Interrupt {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    use signal_hook::low_level;

    let interrupt = Interrupt::default();
    let signals = [
        (SIGINT, StopSignal::Interrupt),
        (SIGTERM, StopSignal::Terminate),
        (SIGHUP, StopSignal::Hangup),
        (SIGUSR1, StopSignal::User),
    ];
    for (number, signal) in signals {
        if number == SIGHUP && is_ignored(number) {
            continue;
        }
        let flag = interrupt.clone();
        let handler = move || handle(&flag, signal);
        // SAFETY: the handler only accesses atomics and the clock, writes to file descriptors, sets the terminal's
        // modes and may end the process: all of this is async-signal-safe.
        let registered = unsafe { low_level::register(number, handler) };
        // If the system refuses, the signal keeps its default action and ends the process.
        drop(registered);
    }
    interrupt
}

/// Handles a signal; runs in the signal handler.
#[cfg(unix)]
fn handle(interrupt: &Interrupt, signal: crate::run::StopSignal) {
    use crate::run::Meaning;

    match interrupt.raise(signal) {
        Meaning::EndSoon => say(
            b"sconce: finishing the iteration or validation under way, then saving a \
              checkpoint; another signal, a second from now or later, ends the run at once\n",
        ),
        Meaning::Copy => {}
        Meaning::Wait => say(
            b"sconce: the checkpoint `interrupted` is being written; another signal, a second \
              from now or later, ends the run at once, without it\n",
        ),
        Meaning::EndNow => {
            crate::ui::leave();
            say(b"sconce: ended at once; complete checkpoints are kept\n");
            signal_hook::low_level::exit(code_of(signal).into());
        }
    }
}

/// Whether this process ignores a signal.
#[cfg(unix)]
#[expect(unsafe_code, reason = "asks the system")]
pub(in crate::cli) fn is_ignored(signal: i32) -> bool {
    // SAFETY: `sigaction` consists of integers and pointers, for which all zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with a null new action the call only reads, and it writes the old one to `action`,
    // which is ours.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    read == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Makes a write beyond the file-size limit fail with an error instead of ending the process.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a handler that does nothing")]
pub(in crate::cli) fn let_writes_fail() {
    // SAFETY: the handler does nothing, so it is async-signal-safe.
    drop(unsafe { signal_hook::low_level::register(signal_hook::consts::SIGXFSZ, || {}) });
}

/// Does nothing: this system has no such limit.
#[cfg(not(unix))]
pub(in crate::cli) fn let_writes_fail() {}

/// Writes a message from a signal handler. A closed standard error is ignored.
#[cfg(unix)]
fn say(text: &[u8]) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text);
}

/// Returns a flag that is never raised.
#[cfg(not(unix))]
pub(in crate::cli) fn install() -> Interrupt {
    Interrupt::default()
}

/// Exit code of a run that a signal ended.
pub(in crate::cli) fn code_of(signal: StopSignal) -> u8 {
    match signal {
        StopSignal::Interrupt => exit::INTERRUPTED,
        StopSignal::Terminate => exit::TERMINATED,
        StopSignal::Hangup => exit::HUNG_UP,
        StopSignal::User => exit::USER,
        StopSignal::Until => exit::DONE,
    }
}
