//! Quotes that do not match. The parser would take all up to the next quote, or to the file's end, for one
//! field, and say nothing.

use std::path::Path;

use super::Error;

/// Where the reading of a table is, between two bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote within quotes: the end of the field, or the first of two that mean one.
    AfterQuote,
}

/// Checks that each quoted field ends with a quote, and that a delimiter or a line end comes after it.
///
/// # Errors
///
/// The line and the field in which it doesn't.
pub(super) fn check(text: &[u8], delimiter: u8, file: &Path) -> Result<(), Error> {
    if !text.contains(&b'"') {
        return Ok(());
    }
    let mut state = State::FieldStart;
    let (mut line, mut field) = (1, 1);
    // The line of the quote that opened the field.
    let mut opened = 1;
    for &byte in text {
        state = match (state, byte) {
            (State::FieldStart, b'"') => {
                opened = line;
                State::Quoted
            }
            (State::Quoted, b'"') => State::AfterQuote,
            (State::Quoted, _) | (State::AfterQuote, b'"') => State::Quoted,
            (_, byte) if byte == delimiter => {
                field += 1;
                State::FieldStart
            }
            (_, b'\n' | b'\r') => {
                field = 1;
                State::FieldStart
            }
            // Spaces around a field never count.
            (State::AfterQuote, b' ' | b'\t') => State::AfterQuote,
            (State::AfterQuote, _) => {
                return Err(Error::AfterQuote {
                    file: file.to_owned(),
                    line,
                    opened,
                    field,
                });
            }
            _ => State::Unquoted,
        };
        line += u64::from(byte == b'\n');
    }
    if state == State::Quoted {
        return Err(Error::UnclosedQuote {
            file: file.to_owned(),
            line: opened,
            field,
        });
    }
    Ok(())
}
