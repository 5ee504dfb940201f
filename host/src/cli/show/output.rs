//! Printing: results to standard output, everything else to standard error.
//!
//! Printed names and texts may come from plugins, data and checkpoints, so all of them are made
//! [printable](crate::printable) here. Writes are checked in [`stdout`](super::stdout); [`finish`] turns a
//! failure into the exit code.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use serde::Serialize;

use super::stdout;
use crate::diagnostic::{Diagnostic, render};
use crate::{exit, printable, screen};

/// Prints a line of results. Characters that would break the line are escaped.
pub(in crate::cli) fn line(text: &str) {
    stdout::write(&format!("{}\n", printable::one_line(text)));
}

/// Prints a part of a text, without a line feed after it.
pub(in crate::cli) fn part(text: &str) {
    stdout::write(&printable::lines(text));
}

/// Prints a multi-line text that the program composed.
pub(in crate::cli) fn block(text: &str) {
    stdout::write(&format!("{}\n", printable::lines(text)));
}

/// Prints a text with the program's own colour codes; untrusted text in it must already be printable.
pub(in crate::cli) fn styled(text: &str) {
    stdout::write(&format!("{text}\n"));
}

/// Prints a value as JSON on one line.
pub(in crate::cli) fn json_line(value: &impl Serialize) {
    json_text(serde_json::to_string(value));
}

/// Prints a value as JSON, indented.
pub(in crate::cli) fn json(value: &impl Serialize) {
    json_text(serde_json::to_string_pretty(value));
}

fn json_text(text: serde_json::Result<String>) {
    match text {
        Ok(text) => stdout::write(&format!("{}\n", printable::json(&text))),
        // All maps have strings as keys, so this does not happen.
        Err(error) => diagnostics(&[Diagnostic::new(error.to_string())]),
    }
}

/// From now on, lines on standard error begin with this name, and nothing is printed on standard output: another process
/// prints the results. An empty name ends that.
pub(in crate::cli) fn speak_as(name: &str) {
    screen::speak_as(name);
}

/// Whether to use colours on standard output.
pub(in crate::cli) fn has_colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Whether standard output can still be written.
pub(in crate::cli) fn is_open() -> bool {
    stdout::is_open()
}

/// To be called by commands whose children print the results.
#[cfg(unix)]
pub(in crate::cli) fn lend() {
    stdout::lend();
}

/// Returns `code` if everything printed was written; otherwise prints an error and returns the exit
/// code for results that can't be written.
pub(in crate::cli) fn finish(code: u8) -> u8 {
    let Some(reason) = stdout::failure() else {
        return code;
    };
    let problem = Diagnostic::new(format!("standard output can't be written: {reason}"))
        .note("what was printed is cut off; files that the command wrote are complete")
        .hint("direct it to a place with room: `sconce … > FILE`");
    diagnostics(&[problem]);
    if code == exit::DONE {
        exit::TRAINING
    } else {
        code
    }
}

/// Prints diagnostics to standard error, in colour on a terminal.
pub(in crate::cli) fn diagnostics(diagnostics: &[Diagnostic]) {
    let diagnostics: Vec<Diagnostic> = diagnostics.iter().map(with_limit).collect();
    let mut stderr = std::io::stderr().lock();
    let colour = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A closed standard error must not end the command.
    let text = screen::named(&render::text(&diagnostics, colour));
    drop(stderr.write_all(text.as_bytes()));
}

/// Adds a hint if the reason is the limit of open files.
fn with_limit(diagnostic: &Diagnostic) -> Diagnostic {
    let diagnostic = diagnostic.clone();
    match sconce_base::files::open_limit_hint(&diagnostic.message) {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
    }
}

/// Width in columns of the terminal on standard output; `None` if there is none.
#[cfg(unix)]
fn columns_of_terminal() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

#[cfg(not(unix))]
fn columns_of_terminal() -> Option<usize> {
    None
}

/// If less room than this is left, the last column is not wrapped: lines of a few letters don't
/// help.
const NARROWEST: usize = 20;

/// Wraps a text between words into lines of at most `width` columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

/// Prints rows as columns, each as wide as its widest cell. The last one is wrapped if a terminal is
/// too narrow for it; in a file or a pipe each row is one line.
pub(in crate::cli) fn table(rows: &[Vec<String>]) {
    let rows: Vec<Vec<_>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| printable::one_line(cell)).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    stdout::write(&laid_out(&rows, &widths, columns_of_terminal()));
}

/// Lays out the rows as lines, for a terminal of `terminal` columns.
fn laid_out(rows: &[Vec<Cow<'_, str>>], widths: &[usize], terminal: Option<usize>) -> String {
    let (_, before) = widths.split_last().unwrap_or((&0, &[]));
    let indent = before.iter().map(|width| width + 2).sum::<usize>();
    // The last column of a terminal stays free: some wrap as soon as it is filled.
    let room = terminal.map(|columns| columns.saturating_sub(indent + 1));
    let room = room.filter(|room| *room >= NARROWEST);
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(before) {
            text.push_str(cell);
            // Not with a format width, which has a limit of 65,535 and panics above it.
            let blanks = width.saturating_sub(cell.chars().count()) + 2;
            text.extend(std::iter::repeat_n(' ', blanks));
        }
        if let Some(last) = row.get(before.len()) {
            let lines = match room {
                Some(room) => wrapped(last, room),
                None => vec![last.to_string()],
            };
            text.push_str(&lines.join(&format!("\n{}", " ".repeat(indent))));
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_the_terminal() {
        let rows = [
            vec![
                Cow::from("a"),
                Cow::from("one two three four five six seven"),
            ],
            vec![Cow::from("bcd")],
        ];
        let widths = [3, 33];
        let whole = "a    one two three four five six seven\nbcd\n";
        assert_eq!(laid_out(&rows, &widths, None), whole);
        let narrow = "a    one two three four\n     five six seven\nbcd\n";
        assert_eq!(laid_out(&rows, &widths, Some(27)), narrow);
        assert_eq!(
            laid_out(&rows, &widths, Some(10)),
            whole,
            "no room to break it"
        );
    }

    #[test]
    fn a_cell_of_any_length_is_laid_out() {
        let long = "x".repeat(70_000);
        let rows = [vec![Cow::from(long.as_str()), Cow::from("y")]];
        assert_eq!(laid_out(&rows, &[70_000, 1], Some(80)).len(), 70_004);
    }
}
