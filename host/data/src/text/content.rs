//! The content of a text file.

use std::ops::Range;
use std::path::Path;

use super::tokens::Tokens;
use super::{TextError, TextUnit, Vocabulary};
use crate::DataError;
use crate::file::unpacked;

/// Content of a text file, valid UTF-8 if tokens are characters.
pub(super) struct Text {
    pub(super) file: std::path::PathBuf,
    pub(super) bytes: Vec<u8>,
}

impl Text {
    pub(super) fn read(file: &Path, unit: TextUnit) -> Result<Text, DataError> {
        let bytes = unpacked(file)?;
        let text = Text {
            file: file.to_owned(),
            bytes,
        };
        if unit == TextUnit::Char
            && let Err(error) = std::str::from_utf8(&text.bytes)
        {
            let (line, column) = text.place(error.valid_up_to());
            let file = text.file;
            return Err(TextError::NotUtf8 { file, line, column }.into());
        }
        Ok(text)
    }

    /// Returns the number of tokens.
    pub(super) fn count(&self, unit: TextUnit) -> usize {
        match unit {
            TextUnit::Byte => self.bytes.len(),
            TextUnit::Char => self.characters(&(0..self.bytes.len())).chars().count(),
        }
    }

    /// Returns the byte range of the tokens from `start` to `end`, exclusive.
    pub(super) fn range(&self, unit: TextUnit, start: usize, end: usize) -> Range<usize> {
        match unit {
            TextUnit::Byte => start..end,
            TextUnit::Char => {
                let whole = self.characters(&(0..self.bytes.len()));
                let at = |count| {
                    let mut places = whole.char_indices().map(|(place, _)| place);
                    places.nth(count).unwrap_or(whole.len())
                };
                at(start)..at(end)
            }
        }
    }

    /// Returns a range as text; the file has been checked to be UTF-8.
    pub(super) fn characters(&self, range: &Range<usize>) -> &str {
        let bytes = self.bytes.get(range.clone()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    pub(super) fn encode(
        &self,
        vocabulary: &Vocabulary,
        range: &Range<usize>,
    ) -> Result<Tokens, DataError> {
        if vocabulary.unit() == TextUnit::Byte {
            let bytes = self.bytes.get(range.clone()).unwrap_or_default();
            return Ok(Tokens::Narrow(bytes.to_vec()));
        }
        let tokens = vocabulary.encode(self.characters(range));
        let tokens = tokens.map_err(|unknown| {
            let (line, column) = self.place(range.start + unknown.position);
            TextError::Unknown {
                file: self.file.clone(),
                line,
                column,
                character: unknown.character,
            }
        })?;
        Ok(Tokens::new(tokens, vocabulary.len()))
    }

    /// Returns line and column of a byte, both from 1; columns count characters.
    pub(super) fn place(&self, position: usize) -> (usize, usize) {
        let before = self.bytes.get(..position).unwrap_or_default();
        let mut lines = before.rsplit(|&byte| byte == b'\n');
        let last = lines.next().unwrap_or_default();
        let is_start = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
        (lines.count() + 1, last.iter().filter(is_start).count() + 1)
    }
}
