//! The end of the command: the first signal that asks for it.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

use crate::cli::process::signals::is_ignored;
use crate::exit;

/// Signals that end the command, with its exit codes.
const SIGNALS: [(i32, u8); 3] = [
    (SIGINT, exit::INTERRUPTED),
    (SIGTERM, exit::TERMINATED),
    (SIGHUP, exit::HUNG_UP),
];

/// What a signal wakes.
pub(super) struct End {
    woken: UnixStream,
    code: Arc<AtomicUsize>,
}

impl End {
    /// From here on signals are noted. A `SIGHUP` that was ignored when this process started, as with `nohup`, stays ignored.
    pub(super) fn prepare() -> io::Result<End> {
        let (woken, waking) = UnixStream::pair()?;
        let code = Arc::new(AtomicUsize::new(usize::from(exit::DONE)));
        for (signal, its_code) in SIGNALS {
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            // In this order: the code is there when the byte is.
            flag::register_usize(signal, Arc::clone(&code), usize::from(its_code))?;
            pipe::register(signal, waking.try_clone()?)?;
        }
        Ok(End { woken, code })
    }

    /// Waits for a signal; returns the exit code for it.
    pub(super) fn wait(mut self) -> u8 {
        let mut byte = [0];
        while matches!(self.woken.read(&mut byte), Err(error) if error.kind() == io::ErrorKind::Interrupted)
        {
        }
        u8::try_from(self.code.load(Ordering::SeqCst)).unwrap_or(exit::DONE)
    }
}
