//! Standard output, every write of which is checked.
//!
//! Subcommands print and go on; the first failure is kept here, and [`failure`] reports it at the end,
//! when it becomes the exit code. So a training whose last lines can't be printed is still saved, and
//! no subcommand can forget to look. A closed pipe is the reader's way to say "enough": not a failure,
//! but nothing more is written.
//!
//! std's own standard output does not serve: it takes a closed or read-only descriptor for a place
//! where everything may go.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether what is printed still arrives.
enum State {
    Open,
    /// The reader has closed its end.
    Closed,
    /// A write failed, for this reason.
    Failed(String),
}

static STATE: Mutex<State> = Mutex::new(State::Open);

/// Writes a text, unless an earlier write has failed.
pub(super) fn write(text: &str) {
    let mut state = lock();
    if !matches!(*state, State::Open) || text.is_empty() {
        return;
    }
    if let Err(error) = write_all(text.as_bytes()) {
        *state = match error.kind() {
            io::ErrorKind::BrokenPipe => State::Closed,
            _ => State::Failed(error.to_string()),
        };
    }
}

/// Whether anything more that is written arrives: a long work for the reader alone can end here.
pub(super) fn is_open() -> bool {
    matches!(*lock(), State::Open)
}

/// Why something could not be written.
pub(super) fn failure() -> Option<String> {
    match &*lock() {
        State::Failed(reason) => Some(reason.clone()),
        _ => None,
    }
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A copy of the descriptor, from before a hook could close it; what is opened next would get its number,
/// and the results would go there.
#[cfg(unix)]
static COPY: std::sync::OnceLock<std::os::fd::OwnedFd> = std::sync::OnceLock::new();

/// Takes standard output as it is now; called before any code of a plugin runs.
#[cfg(unix)]
pub(super) fn keep() {
    if let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3) {
        // A second call would keep the same.
        drop(COPY.set(copy));
    }
}

/// There is nothing to keep.
#[cfg(not(unix))]
pub(super) fn keep() {}

#[cfg(unix)]
fn write_all(bytes: &[u8]) -> io::Result<()> {
    use std::os::fd::AsFd;

    if at_start::was_closed() {
        return Err(io::Error::other("it was closed when the program started"));
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

/// How long a reader that is behind is waited for, where the descriptor itself doesn't wait.
#[cfg(unix)]
const WAIT: std::time::Duration = std::time::Duration::from_millis(5);

#[cfg(not(unix))]
fn write_all(bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;

    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// std opens `/dev/null` in the place of a closed standard stream before `main` begins, so that must be
/// looked at earlier.
#[cfg(target_os = "linux")]
mod at_start {
    use std::sync::atomic::{AtomicBool, Ordering};

    static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

    /// Called by the loader, before std's own preparations.
    extern "C" fn look() {
        // SAFETY: asks for the flags of a descriptor, which changes nothing.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
    }

    // SAFETY: the section holds pointers to functions of this type, which the loader calls once.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    pub(super) fn was_closed() -> bool {
        WAS_CLOSED.load(Ordering::Relaxed)
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod at_start {
    /// Not known on this system.
    pub(super) fn was_closed() -> bool {
        false
    }
}
