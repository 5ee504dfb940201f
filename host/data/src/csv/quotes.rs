//! Check for mismatched quotes. The parser would silently read everything up to the next quote, or to the
//! end of the file, as one field.

use std::path::Path;

use super::Error;

/// State of the scan between two bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote in a quoted field: the end of the field, or the first of a doubled quote.
    AfterQuote,
}

/// Checks that each quoted field is closed and followed by a delimiter or a line end.
///
/// # Errors
///
/// The line and the field of the first mismatched quote.
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
            // Spaces around a field are ignored.
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
