//! The terminal on standard error: scrolling messages with one status line below them, redrawn in
//! place.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::printable;

/// Current status line; static because there is one standard error.
static STATUS: Mutex<String> = Mutex::new(String::new());

/// Width of the terminal in columns; 0 if standard error is not a terminal that can clear a line.
pub fn columns() -> u16 {
    static IS_SCREEN: OnceLock<bool> = OnceLock::new();
    let is_screen = IS_SCREEN.get_or_init(|| {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        std::io::stderr().is_terminal() && !is_dumb
    });
    if *is_screen { width() } else { 0 }
}

/// Name of this process among others whose messages appear on the same screen; empty if there are none.
static NAME: Mutex<String> = Mutex::new(String::new());

/// From now on, lines of messages begin with this name; an empty one ends that.
pub fn speak_as(name: &str) {
    let mut known = NAME.lock().unwrap_or_else(PoisonError::into_inner);
    name.clone_into(&mut known);
}

/// Whether lines of messages begin with a name, as another process prints the results.
pub fn has_name() -> bool {
    !NAME
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .is_empty()
}

/// The lines, each after this process's name if it has one.
pub fn named(lines: &str) -> String {
    let name = NAME.lock().unwrap_or_else(PoisonError::into_inner);
    if name.is_empty() {
        return lines.to_owned();
    }
    let lines = lines.split_inclusive('\n');
    lines.flat_map(|line| [name.as_str(), ": ", line]).collect()
}

/// Current width: it changes with the window.
#[cfg(unix)]
fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok()
        .map_or(80, |size| if size.ws_col == 0 { 80 } else { size.ws_col })
}

#[cfg(not(unix))]
fn width() -> u16 {
    80
}

/// Writes the lines of a message above the status line.
pub fn message(lines: &str) {
    let status = lock();
    let lines = named(lines);
    let text = if status.is_empty() {
        lines
    } else {
        above(&lines, &status)
    };
    write(&text);
}

/// Shows a status line below all messages, or removes it.
pub fn status(text: &str) {
    let columns = columns();
    if columns == 0 {
        return;
    }
    let mut status = lock();
    let new = fitting(text, columns);
    if *status != new {
        write(&format!("{CLEAR}{new}"));
        *status = new;
    }
}

/// Returns the cursor to the start of the line and clears the line.
const CLEAR: &str = "\r\x1b[K";

fn above(lines: &str, status: &str) -> String {
    format!("{CLEAR}{lines}{status}")
}

/// Cuts a text to the width of one line. The last column stays free: some terminals wrap as soon as
/// it is filled.
fn fitting(text: &str, columns: u16) -> String {
    let most = usize::from(columns.saturating_sub(1));
    printable::stripped(text).chars().take(most).collect()
}

fn lock() -> MutexGuard<'static, String> {
    STATUS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(text: &str) {
    // A closed standard error must not end the training.
    drop(std::io::stderr().lock().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_above_the_status() {
        assert_eq!(above("a\nb\n", "50 %"), "\r\x1b[Ka\nb\n50 %");
    }

    #[test]
    fn a_status_is_one_line() {
        assert_eq!(fitting("a\nb\x1b[2Jc", 80), "ab[2Jc");
        assert_eq!(fitting("█████", 4), "███");
    }
}
