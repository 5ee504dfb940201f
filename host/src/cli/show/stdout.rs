//! Standard output with checked writes.
//!
//! Subcommands print and continue; the first failure is kept here, and [`failure`] reports it at the
//! end, when it becomes the exit code. This way a training whose last lines can't be printed is still
//! saved, and no subcommand can forget to check. A closed pipe means that the reader has seen enough:
//! it is not a failure, but nothing more is written.
//!
//! std's own standard output is unsuitable: it silently discards writes to a closed or read-only
//! descriptor.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::screen;

/// State of standard output.
enum StdoutState {
    Open,
    /// The reader has closed the pipe.
    Closed,
    /// A write failed, for this reason.
    Failed(String),
}

static STATE: Mutex<StdoutState> = Mutex::new(StdoutState::Open);

/// Writes a text, unless an earlier write has failed.
pub(super) fn write(text: &str) {
    let mut state = lock();
    if !matches!(*state, StdoutState::Open) || text.is_empty() || screen::has_name() {
        return;
    }
    if let Err(error) = write_all(text.as_bytes()) {
        *state = match error.kind() {
            io::ErrorKind::BrokenPipe => StdoutState::Closed,
            _ => StdoutState::Failed(error.to_string()),
        };
    }
}

/// Notes that children which inherit standard output print on it: if it was closed, they can't tell.
#[cfg(unix)]
pub(in crate::cli) fn lend() {
    if at_start::was_closed() {
        *lock() = StdoutState::Failed(WAS_CLOSED.to_owned());
    }
}

#[cfg(unix)]
const WAS_CLOSED: &str = "it was closed when the program started";

/// Whether output can still be written: long work that only produces output can stop otherwise.
pub(in crate::cli) fn is_open() -> bool {
    matches!(*lock(), StdoutState::Open)
}

/// Reason why something could not be written.
pub(in crate::cli) fn failure() -> Option<String> {
    match &*lock() {
        StdoutState::Failed(reason) => Some(reason.clone()),
        _ => None,
    }
}

fn lock() -> MutexGuard<'static, StdoutState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copy of the descriptor, made before a hook could close it: the next file opened would take its number,
/// and the results would go there.
#[cfg(unix)]
static COPY: std::sync::OnceLock<std::os::fd::OwnedFd> = std::sync::OnceLock::new();

/// Copies the current standard output; called before any code of a plugin runs.
#[cfg(unix)]
pub(in crate::cli) fn keep() {
    if let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3) {
        // A second call would store the same descriptor.
        drop(COPY.set(copy));
    }
}

/// Does nothing on this system.
#[cfg(not(unix))]
pub(in crate::cli) fn keep() {}

#[cfg(unix)]
fn write_all(bytes: &[u8]) -> io::Result<()> {
    use std::os::fd::AsFd;

    if at_start::was_closed() {
        return Err(io::Error::other(WAS_CLOSED));
    }
    let output = match COPY.get() {
        Some(copy) => copy.as_fd(),
        None => rustix::stdio::stdout(),
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(output, rest) {
            Ok(count @ 1..) => rest = rest.get(count..).unwrap_or_default(),
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => std::thread::sleep(WAIT),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Interval of retries when the reader is slow and the descriptor is non-blocking.
#[cfg(unix)]
const WAIT: std::time::Duration = std::time::Duration::from_millis(5);

#[cfg(not(unix))]
fn write_all(bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;

    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Check that runs before `main`, because std has replaced a closed standard stream by `/dev/null` by
/// then.
#[cfg(target_os = "linux")]
mod at_start {
    use std::sync::atomic::{AtomicBool, Ordering};

    static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

    /// Called by the loader, before std's own initialisation.
    extern "C" fn look() {
        // SAFETY: `F_GETFD` only reads a descriptor's flags, and is valid for a closed descriptor,
        // too.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
    }

    // SAFETY: `.init_array` holds pointers to functions with this ABI, which the loader calls once.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    pub(super) fn was_closed() -> bool {
        WAS_CLOSED.load(Ordering::Relaxed)
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod at_start {
    /// Always false: not detected on this system.
    pub(super) fn was_closed() -> bool {
        false
    }
}
