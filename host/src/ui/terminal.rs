//! The terminal while the view has it: entered once, and given back however the process ends.
//!
//! Meanwhile standard error, and standard output where it is the same terminal, lead to a file
//! without a name: whoever writes to them (the host, a hook, a library, a process that one of them
//! starts) can't tear the view, and can't be kept waiting by it. The view shows the file's last
//! lines, and when the terminal is given back all of it is written there.
//!
//! [`leave`] is also called by handlers of signals and by the watchdog: it takes no lock, asks for no
//! memory, and does everything by system calls.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{fcntl_dupfd_cloexec, pread, write};
use rustix::stdio::{dup2_stderr, dup2_stdout, stderr, stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::faults;

/// The other screen, empty, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[2J\x1b[?25l";

/// Colours and cursor as they were, and the screen too.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// Everything off the screen, before all of it is drawn again.
const CLEAR: &[u8] = b"\x1b[0m\x1b[2J";

/// What there is to give back; never dropped, for the sake of signals' handlers.
struct Held {
    /// The terminal, behind standard error.
    screen: OwnedFd,
    /// The same behind standard output, if it is a terminal.
    output: Option<OwnedFd>,
    /// Its modes.
    modes: Termios,
    /// What was written meanwhile.
    written: File,
}

static HELD: OnceLock<Held> = OnceLock::new();

/// Whether the view has the terminal.
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// Takes the terminal.
///
/// # Errors
///
/// Where something of it can't be done; then the terminal is as it was.
pub(super) fn enter() -> io::Result<()> {
    io::stdout().flush()?;
    let modes = tcgetattr(stdin())?;
    let output = if io::stdout().is_terminal() {
        Some(fcntl_dupfd_cloexec(stdout(), 3)?)
    } else {
        None
    };
    let held = Held {
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

fn take(held: &Held) -> io::Result<()> {
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

/// Gives the terminal back, with everything that was written meanwhile. Does nothing where the view
/// doesn't have it.
pub(crate) fn leave() {
    if !IS_HELD.swap(false, Ordering::SeqCst) {
        return;
    }
    let Some(held) = HELD.get() else { return };
    write_all(&held.screen, LEAVE);
    // Keys that nobody has read were not meant for the shell. What fails here fails for good.
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
            // A terminal that is gone.
            _ => return,
        }
    }
}

/// The bytes that were written to standard error and output from a place on, as many as there is
/// room for.
pub(super) fn written(place: u64, room: &mut [u8]) -> usize {
    let Some(held) = HELD.get() else { return 0 };
    pread(&held.written, room, place).unwrap_or(0)
}

/// Columns and lines; nothing where the view doesn't have the terminal.
pub(super) fn size() -> Option<(u16, u16)> {
    let held = HELD.get().filter(|_| IS_HELD.load(Ordering::SeqCst))?;
    let size = tcgetwinsize(&held.screen).ok()?;
    Some((size.ws_col, size.ws_row))
}

/// The screen, for drawing. What is drawn after the end is gone.
#[derive(Debug)]
pub(super) struct Screen;

impl Screen {
    /// Takes everything off it.
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
