//! Signals: the first asks the run to end soon, a later one ends it at once.

use crate::exit;
use crate::run::{Interrupt, Signal};

/// Lets signals raise a flag. A `SIGHUP` that this process was started to ignore, as by `nohup`, stays ignored.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a handler that says something")]
pub(super) fn install() -> Interrupt {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::low_level;

    let interrupt = Interrupt::default();
    let signals = [
        (SIGINT, Signal::Interrupt),
        (SIGTERM, Signal::Terminate),
        (SIGHUP, Signal::Hangup),
    ];
    for (number, signal) in signals {
        if number == SIGHUP && is_ignored(number) {
            continue;
        }
        let flag = interrupt.clone();
        let handler = move || heed(&flag, signal);
        // SAFETY: the handler looks at atomics and the clock, writes to file descriptors, sets the terminal's modes
        // and may end the process at once: all of it may be done in a handler of signals.
        let registered = unsafe { low_level::register(number, handler) };
        // A system that lets none be registered ends the process, as without us.
        drop(registered);
    }
    interrupt
}

/// What a signal comes to; called in its handler.
#[cfg(unix)]
fn heed(interrupt: &Interrupt, signal: crate::run::Signal) {
    use crate::run::Meaning;

    match interrupt.raise(signal) {
        Meaning::EndSoon => say(
            b"sconce: finishing the iteration or validation under way, then saving a \
              checkpoint; once more, a second from now or later, to end at once\n",
        ),
        Meaning::Copy => {}
        Meaning::Wait => say(
            b"sconce: the checkpoint `interrupted` is being written; once more, a second from \
              now or later, to end at once without it\n",
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
fn is_ignored(signal: i32) -> bool {
    // SAFETY: numbers and pointers, for which zeros are good.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only reads, to a place that is ours.
    let read = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    read == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Writing more than the file-size limit allows becomes an error of the write, rather than the
/// process's end.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a handler that does nothing")]
pub(super) fn let_writes_fail() {
    // SAFETY: the handler does nothing.
    drop(unsafe { signal_hook::low_level::register(signal_hook::consts::SIGXFSZ, || {}) });
}

/// There is no such limit.
#[cfg(not(unix))]
pub(super) fn let_writes_fail() {}

/// Says something from within a handler of signals. A closed standard error is no reason for more.
#[cfg(unix)]
fn say(text: &[u8]) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text);
}

/// A flag that nothing raises.
#[cfg(not(unix))]
pub(super) fn install() -> Interrupt {
    Interrupt::default()
}

/// The exit code of a run that a signal ended.
pub(super) fn code_of(signal: Signal) -> u8 {
    match signal {
        Signal::Interrupt => exit::INTERRUPTED,
        Signal::Terminate => exit::TERMINATED,
        Signal::Hangup => exit::HUNG_UP,
    }
}
