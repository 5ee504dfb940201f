//! Check for mismatched quotes. The parser would silently read everything up to the next quote, or to the
//! end of the file, as one field.

use std::path::Path;

use crate::numbers::csv::CsvError;

/// State of the scan between two bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanState {
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
pub(in crate::numbers::csv) fn check(
    text: &[u8],
    delimiter: u8,
    file: &Path,
) -> Result<(), CsvError> {
    if !text.contains(&b'"') {
        return Ok(());
    }
    let mut state = ScanState::FieldStart;
    let (mut line, mut field) = (1, 1);
    // The line of the quote that opened the field.
    let mut opened = 1;
    for &byte in text {
        state = match (state, byte) {
            (ScanState::FieldStart, b'"') => {
                opened = line;
                ScanState::Quoted
            }
            (ScanState::Quoted, b'"') => ScanState::AfterQuote,
            (ScanState::Quoted, _) | (ScanState::AfterQuote, b'"') => ScanState::Quoted,
            (_, byte) if byte == delimiter => {
                field += 1;
                ScanState::FieldStart
            }
            (_, b'\n' | b'\r') => {
                field = 1;
                ScanState::FieldStart
            }
            // Spaces around a field are ignored.
            (ScanState::AfterQuote, b' ' | b'\t') => ScanState::AfterQuote,
            (ScanState::AfterQuote, _) => {
                return Err(CsvError::AfterQuote {
                    file: file.to_owned(),
                    line,
                    opened,
                    field,
                });
            }
            _ => ScanState::Unquoted,
        };
        line += u64::from(byte == b'\n');
    }
    if state == ScanState::Quoted {
        return Err(CsvError::UnclosedQuote {
            file: file.to_owned(),
            line: opened,
            field,
        });
    }
    Ok(())
}
