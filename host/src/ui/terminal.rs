//! The terminal while the view uses it: entered once, and restored however the process ends.
//!
//! In the meantime standard error, and standard output if it is the same terminal, are redirected to an
//! unnamed file: writers (the host, a hook, a library, or a process that one of them starts) can neither
//! disturb the view nor be blocked by it. The view shows the file's last lines, and all of it is written to
//! the terminal when that is restored.
//!
//! [`leave`] is also called by signal handlers and by the watchdog: it takes no lock, allocates no memory,
//! and only uses system calls.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{fcntl_dupfd_cloexec, pread, write};
use rustix::stdio::{dup2_stderr, dup2_stdout, stderr, stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::faults;

/// Enters the alternate screen, clears it and hides the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[2J\x1b[?25l";

/// Resets colours, shows the cursor, and leaves the alternate screen.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// Clears the screen before it is redrawn.
const CLEAR: &[u8] = b"\x1b[0m\x1b[2J";

/// State to restore; never dropped, because signal handlers use it.
struct SavedTerminal {
    /// The terminal that standard error referred to.
    screen: OwnedFd,
    /// The same for standard output, if it is a terminal.
    output: Option<OwnedFd>,
    /// Modes of the terminal.
    modes: Termios,
    /// What was written in the meantime.
    written: File,
}

static HELD: OnceLock<SavedTerminal> = OnceLock::new();

/// Whether the view is using the terminal.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// Takes over the terminal.
///
/// # Errors
///
/// If a step fails; then the terminal is as before.
pub(super) fn enter() -> io::Result<()> {
    io::stdout().flush()?;
    let modes = tcgetattr(stdin())?;
    let output = if io::stdout().is_terminal() {
        Some(fcntl_dupfd_cloexec(stdout(), 3)?)
    } else {
        None
    };
    let held = SavedTerminal {
        screen: fcntl_dupfd_cloexec(stderr(), 3)?,
        output,
        modes,
        written: tempfile::tempfile()?,
    };
    if HELD.set(held).is_err() {
        return Err(io::Error::other("this process has had its view"));
    }
    let Some(held) = HELD.get() else {
        return Ok(());
    };
    faults::before_reports(leave);
    IS_HELD.store(true, Ordering::SeqCst);
    let result = take(held);
    if result.is_err() {
        leave();
    }
    result
}

fn take(held: &SavedTerminal) -> io::Result<()> {
    let mut modes = held.modes.clone();
    modes.make_raw();
    tcsetattr(stdin(), OptionalActions::Now, &modes)?;
    write_all(&held.screen, ENTER);
    dup2_stderr(&held.written)?;
    if held.output.is_some() {
        dup2_stdout(&held.written)?;
    }
    Ok(())
}

/// Restores the terminal, and writes to it everything written in the meantime. Does nothing if the view isn't
/// using it.
pub(crate) fn leave() {
    if !IS_HELD.swap(false, Ordering::SeqCst) {
        return;
    }
    let Some(held) = HELD.get() else { return };
    write_all(&held.screen, LEAVE);
    // Unread keys were not meant for the shell. Errors here can't be handled.
    let _ = tcsetattr(stdin(), OptionalActions::Flush, &held.modes);
    let _ = dup2_stderr(&held.screen);
    if let Some(output) = &held.output {
        let _ = dup2_stdout(output);
    }
    let mut place = 0;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = pread(&held.written, &mut buffer, place) {
        write_all(&held.screen, buffer.get(..count).unwrap_or_default());
        place += count as u64;
    }
}

fn write_all(to: &OwnedFd, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(to, rest) {
            Ok(count @ 1..) => rest = rest.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            // The terminal is gone.
            _ => return,
        }
    }
}

/// Reads what was written to standard error and output from offset `place` on, as much as fits. Returns the
/// number of bytes.
pub(super) fn written(place: u64, room: &mut [u8]) -> usize {
    let Some(held) = HELD.get() else { return 0 };
    pread(&held.written, room, place).unwrap_or(0)
}

/// Columns and lines; `None` if the view isn't using the terminal.
pub(super) fn size() -> Option<(u16, u16)> {
    let held = HELD.get().filter(|_| IS_HELD.load(Ordering::SeqCst))?;
    let size = tcgetwinsize(&held.screen).ok()?;
    Some((size.ws_col, size.ws_row))
}

/// Writes to the screen; discards output once the terminal has been restored.
#[derive(Debug)]
pub(super) struct Screen;

impl Screen {
    /// Clears the screen.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.write_all(CLEAR)
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match HELD.get() {
            Some(held) if IS_HELD.load(Ordering::SeqCst) => Ok(write(&held.screen, bytes)?),
            _ => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
