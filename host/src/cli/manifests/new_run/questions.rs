//! Questions on a terminal, each with a default answer for the Enter key.

use std::io::{BufRead, Write};

use crate::printable;

/// Asks questions, or takes the defaults.
pub(super) struct Questions<R, W> {
    reader: R,
    writer: W,
    asks: bool,
}

impl<R: BufRead, W: Write> Questions<R, W> {
    pub(super) fn new(reader: R, writer: W, asks: bool) -> Self {
        Questions {
            reader,
            writer,
            asks,
        }
    }

    /// Whether there is a user to answer.
    pub(super) fn asks(&self) -> bool {
        self.asks
    }

    /// Asks until `read` accepts an answer; takes the default if the answer is empty or there is no
    /// user. `read` returns what is wrong with an answer.
    pub(super) fn ask<T>(
        &mut self,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        while self.asks {
            // A closed terminal makes the read fail, which ends the loop.
            let shown = if default.is_empty() {
                String::new()
            } else {
                format!(" [{default}]")
            };
            // The defaults may come from data: names of columns.
            let asked = format!("{question}{shown} ");
            let asked = printable::lines(&asked);
            drop(write!(self.writer, "{asked}").and_then(|()| self.writer.flush()));
            let mut line = String::new();
            if !matches!(self.reader.read_line(&mut line), Ok(length) if length > 0) {
                self.asks = false;
                break;
            }
            let answer = line.trim();
            match read(if answer.is_empty() { default } else { answer }) {
                Ok(value) => return Ok(value),
                Err(message) => {
                    drop(writeln!(self.writer, "  {}", printable::one_line(&message)));
                }
            }
        }
        read(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<u32, String> {
        text.parse()
            .map_err(|_| format!("{text:?} is not a number"))
    }

    #[test]
    fn what_is_not_understood_is_asked_again() {
        let mut shown = Vec::new();
        let mut questions = Questions::new(&b"many\n\n7\n"[..], &mut shown, true);
        assert_eq!(questions.ask("How many?", "3", number), Ok(3));
        assert_eq!(questions.ask("And now?", "3", number), Ok(7));
        // The input has ended.
        assert_eq!(questions.ask("Still there?", "5", number), Ok(5));
        assert!(!questions.asks());
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(
            shown.starts_with("How many? [3]   \"many\" is not a number\nHow many? [3] "),
            "{shown}"
        );
    }
}
