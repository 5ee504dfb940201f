//! Signals: the first asks the run to end soon, the second ends it at once.

use crate::run::Interrupt;

/// Lets signals raise a flag.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a handler that says something")]
pub(super) fn install() -> Interrupt {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::low_level;

    use crate::run::Signal;

    let interrupt = Interrupt::default();
    for (number, signal) in [(SIGINT, Signal::Interrupt), (SIGTERM, Signal::Terminate)] {
        let flag = interrupt.clone();
        let handler = move || {
            if flag.raise(signal) {
                crate::ui::leave();
                say(b"sconce: ended at once; the checkpoints that were whole are\n");
                low_level::exit(super::run::code_of(signal).into());
            }
            say(
                b"sconce: finishing the iteration or validation under way, then saving a \
                  checkpoint; once more to end at once\n",
            );
        };
        // SAFETY: the handler looks at atomics, writes to file descriptors, sets the terminal's modes
        // and may end the process at once: all of it may be done in a handler of signals.
        let registered = unsafe { low_level::register(number, handler) };
        // A system that lets none be registered ends the process, as without us.
        drop(registered);
    }
    interrupt
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
