//! Printing: results to standard output, everything else to standard error.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use crate::diagnostic::{Diagnostic, render};

/// Prints a line of results. A closed pipe is the reader's way to say "enough".
pub(super) fn line(text: &str) {
    drop(writeln!(std::io::stdout().lock(), "{text}"));
}

/// Prints diagnostics to standard error, in colour on a terminal.
pub(super) fn diagnostics(diagnostics: &[Diagnostic]) {
    let mut stderr = std::io::stderr().lock();
    let colour = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    drop(stderr.write_all(render::text(diagnostics, colour).as_bytes()));
}

/// Prints rows as columns, each as wide as its widest cell; the last one runs free.
pub(super) fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for row in rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a text can't fail.
            let _ = write!(text, "{cell:width$}  ");
        }
        line(text.trim_end());
    }
}
