//! The lines of the log, as they come out of a file that is being written to.

use std::collections::VecDeque;

/// So many lines are kept for scrolling; the file has all.
const MOST: usize = 2000;

/// A line that does not end is broken here, in bytes.
const LONGEST: usize = 4096;

/// The last lines of the log.
#[derive(Debug, Default)]
pub(super) struct Lines {
    kept: VecDeque<String>,
    /// How many were dropped from the front.
    dropped: u64,
    /// What has come since the last line's end.
    open: Vec<u8>,
}

impl Lines {
    /// Takes bytes as they were written.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' || self.open.len() >= LONGEST {
                let line = shown(&self.open);
                self.open.clear();
                self.kept.push_back(line);
            }
            if *byte != b'\n' {
                self.open.push(*byte);
            }
        }
        while self.kept.len() > MOST {
            self.kept.pop_front();
            self.dropped += 1;
        }
    }

    /// How many lines there were so far.
    pub(super) fn end(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }

    /// The number of the first line that is kept.
    pub(super) fn begin(&self) -> u64 {
        self.dropped
    }

    /// The lines before the `end`th, the last one first.
    pub(super) fn before(&self, end: u64) -> impl Iterator<Item = &str> {
        let count = end.saturating_sub(self.dropped) as usize;
        self.kept.iter().take(count).rev().map(String::as_str)
    }
}

/// A line as a terminal would show it in the end: what was written over is gone, and so are escape
/// sequences and other control characters.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\r');
    let text = text.rsplit('\r').next().unwrap_or_default();
    let mut line = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => {
                // `ESC [ parameters letter`; of other sequences the one letter goes.
                if rest.next() == Some('[') {
                    rest.by_ref().find(|c| ('@'..='~').contains(c));
                }
            }
            '\t' => line.push_str("    "),
            c if c.is_control() => {}
            c => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_parts_and_are_whole() {
        let mut lines = Lines::default();
        lines.push(b"one\ntw");
        assert_eq!(lines.end(), 1);
        lines.push(b"o\n\nfour\n");
        let all: Vec<&str> = lines.before(lines.end()).collect();
        assert_eq!(all, ["four", "", "two", "one"]);
        assert_eq!(lines.before(2).collect::<Vec<_>>(), ["two", "one"]);
    }

    #[test]
    fn old_lines_are_dropped_and_numbers_stay() {
        let mut lines = Lines::default();
        for index in 0..MOST + 10 {
            lines.push(format!("line {index}\n").as_bytes());
        }
        assert_eq!(lines.begin(), 10);
        assert_eq!(lines.before(12).collect::<Vec<_>>(), ["line 11", "line 10"]);
        assert_eq!(lines.before(5).count(), 0);
        let mut endless = Lines::default();
        endless.push(&vec![b'x'; LONGEST + 1]);
        assert_eq!(endless.end(), 1);
    }

    #[test]
    fn a_line_is_what_a_terminal_shows_of_it() {
        assert_eq!(shown(b"10 %\r20 %\r"), "20 %");
        assert_eq!(shown(b"\x1b[1;31mred\x1b[0m\x07 \xff"), "red \u{fffd}");
        assert_eq!(shown(b"a\tb"), "a    b");
    }
}
