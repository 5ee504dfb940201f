//! A text file that is read in parts: for its windows on demand, and in pieces of bounded size for what
//! has to be known of all of it.

use std::ops::Range;
use std::path::Path;

use crate::error::{DataError, TextError};
use crate::files::watched_file::{ReadProblem, WatchedFile};
use crate::vocabulary::TextUnit;

/// Size in bytes of the pieces in which a file is read from start to end.
const PIECE: usize = 1 << 16;

/// Number of characters from one known position in a file to the next.
const EVERY: usize = 1024;

/// A text file, valid UTF-8 if tokens are characters.
#[derive(Debug)]
pub(super) struct StreamedText {
    file: WatchedFile,
    unit: TextUnit,
    /// Position of each [`EVERY`]th character; empty if tokens are bytes.
    positions: Vec<u64>,
    /// Number of tokens.
    count: usize,
}

impl StreamedText {
    /// Takes a file as text. If tokens are characters, it is read once: their positions depend on all of it.
    pub(super) fn new(file: WatchedFile, unit: TextUnit) -> Result<StreamedText, DataError> {
        let length = file.length();
        let Ok(bytes) = usize::try_from(length) else {
            return Err(DataError::TooMany(length));
        };
        let mut text = StreamedText {
            file,
            unit,
            positions: Vec::new(),
            count: bytes,
        };
        if unit == TextUnit::Char {
            let (mut positions, mut count) = (Vec::new(), 0_usize);
            text.pieces(0..length, |start, piece| {
                for (offset, _) in piece.char_indices() {
                    if count.is_multiple_of(EVERY) {
                        positions.push(start + offset as u64);
                    }
                    count += 1;
                }
                Ok(())
            })?;
            (text.positions, text.count) = (positions, count);
        }
        Ok(text)
    }

    /// Path of the file.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the number of tokens.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Calls `each` with all of the text between two tokens, in order and in pieces, and with the position of
    /// each piece in the file. Tokens are characters.
    pub(super) fn characters(
        &self,
        tokens: &Range<usize>,
        each: impl FnMut(u64, &str) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let start = self.position(tokens.start)?;
        let end = self.position(tokens.end)?;
        self.pieces(start..end, each)
    }

    /// Returns the bytes of some tokens. There may be fewer at the end of the file.
    pub(super) fn bytes(&self, tokens: Range<usize>) -> Result<Vec<u8>, ReadProblem> {
        let end = tokens.end.min(self.count);
        let start = tokens.start.min(end);
        if self.unit == TextUnit::Byte {
            return self.read(start as u64..end as u64);
        }
        // From the last known position before them to the first one after them.
        let known = |index: usize| self.positions.get(index).copied();
        let from = known(start / EVERY).unwrap_or(self.file.length());
        let until = known(end.div_ceil(EVERY)).unwrap_or(self.file.length());
        let mut bytes = self.read(from..until)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| ReadProblem::Changed)?;
        let skipped = start % EVERY;
        let first = nth(text, skipped);
        let last = nth(text, skipped + (end - start));
        bytes.truncate(last);
        bytes.drain(..first);
        Ok(bytes)
    }

    /// Returns line and column of a byte, both from 1; columns count characters.
    pub(super) fn place(&self, position: u64) -> Result<(usize, usize), DataError> {
        let (mut line, mut column) = (1, 1);
        let mut start = 0;
        while start < position {
            let end = position.min(start + PIECE as u64);
            for byte in self.at_start(start..end)? {
                if byte == b'\n' {
                    (line, column) = (line + 1, 1);
                } else if byte & 0b1100_0000 != 0b1000_0000 {
                    column += 1;
                }
            }
            start = end;
        }
        Ok((line, column))
    }

    /// Returns the position of a character in the file, its length beyond the last one.
    fn position(&self, character: usize) -> Result<u64, DataError> {
        let Some(&known) = self.positions.get(character / EVERY) else {
            return Ok(self.file.length());
        };
        let next = self.positions.get(character / EVERY + 1);
        let bytes = self.at_start(known..next.copied().unwrap_or(self.file.length()))?;
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        Ok(known + nth(text, character % EVERY) as u64)
    }

    /// Calls `each` with the text in a range of bytes, in pieces, and with the position of each.
    fn pieces(
        &self,
        range: Range<u64>,
        mut each: impl FnMut(u64, &str) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let mut next = range.start;
        // What has been read but not handed on: at the start of a round, a part of a character.
        let mut bytes = Vec::new();
        while next < range.end {
            let start = next - bytes.len() as u64;
            let end = range.end.min(next + PIECE as u64);
            bytes.append(&mut self.at_start(next..end)?);
            next = end;
            let valid = match std::str::from_utf8(&bytes) {
                Ok(text) => text.len(),
                Err(error) if error.error_len().is_none() && next < range.end => {
                    error.valid_up_to()
                }
                Err(error) => {
                    let (line, column) = self.place(start + error.valid_up_to() as u64)?;
                    let file = self.path().to_owned();
                    return Err(TextError::NotUtf8 { file, line, column }.into());
                }
            };
            let rest = bytes.split_off(valid);
            each(start, std::str::from_utf8(&bytes).unwrap_or_default())?;
            bytes = rest;
        }
        Ok(())
    }

    /// Reads a range of bytes, before training.
    fn at_start(&self, range: Range<u64>) -> Result<Vec<u8>, DataError> {
        let bytes = self.read(range);
        bytes.map_err(|problem| problem.of_file(self.path()))
    }

    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, ReadProblem> {
        // No longer than the file, whose length is a `usize`.
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        self.file.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }
}

/// Returns the position of a character in a text, its length beyond the last one.
fn nth(text: &str, character: usize) -> usize {
    let mut characters = text.char_indices();
    characters
        .nth(character)
        .map_or(text.len(), |(position, _)| position)
}
