//! Lines of the log, read from a file that is still being written.

use std::collections::VecDeque;

/// Maximum number of lines kept for scrolling; the file has all of them.
const MOST: usize = 2000;

/// Maximum length of a line in bytes; longer ones are broken.
const LONGEST: usize = 4096;

/// The last lines of the log.
#[derive(Debug, Default)]
pub(super) struct Lines {
    kept: VecDeque<String>,
    /// Number of lines dropped from the front.
    dropped: u64,
    /// Bytes since the end of the last complete line.
    open: Vec<u8>,
}

impl Lines {
    /// Appends bytes as they were written.
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

    /// Number of lines so far.
    pub(super) fn end(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }

    /// Number of the first line kept.
    pub(super) fn begin(&self) -> u64 {
        self.dropped
    }

    /// The lines before line `end`, the last one first.
    pub(super) fn before(&self, end: u64) -> impl Iterator<Item = &str> {
        let count = end.saturating_sub(self.dropped) as usize;
        self.kept.iter().take(count).rev().map(String::as_str)
    }
}

/// A line as a terminal would finally show it: without overwritten text, escape sequences and other control
/// characters.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\r');
    let text = text.rsplit('\r').next().unwrap_or_default();
    let mut line = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => {
                // `ESC [ parameters letter`; of other sequences, one letter is dropped.
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
