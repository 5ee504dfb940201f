//! The content of a text file, in memory or in its file.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::streamed::StreamedText;
use super::tokens::Tokens;
use crate::error::{DataError, TextError, unreadable};
use crate::files::file::{other_format, unpacked};
use crate::files::memory::{MOST_OF_A_FILE, MemoryUse};
use crate::files::watched_file::WatchedFile;
use crate::signature::{self, GZIP};
use crate::vocabulary::{TextUnit, Unknown, Vocabulary};

/// Content of a text file, valid UTF-8 if tokens are characters.
pub(super) struct Text {
    pub(super) file: PathBuf,
    unit: TextUnit,
    content: Content,
}

enum Content {
    Memory(Vec<u8>),
    OnDemand(Arc<StreamedText>),
}

impl Text {
    pub(super) fn read(file: &Path, unit: TextUnit, memory: MemoryUse) -> Result<Text, DataError> {
        let content = match left_in_file(file, memory)? {
            Some(left) => {
                left.note()?;
                Content::OnDemand(Arc::new(StreamedText::new(left, unit)?))
            }
            None => Content::Memory(whole(file, unit)?),
        };
        Ok(Text {
            file: file.to_owned(),
            unit,
            content,
        })
    }

    /// Returns the number of tokens.
    pub(super) fn count(&self) -> usize {
        match (&self.content, self.unit) {
            (Content::OnDemand(text), _) => text.count(),
            (Content::Memory(bytes), TextUnit::Byte) => bytes.len(),
            (Content::Memory(bytes), TextUnit::Char) => characters(bytes).chars().count(),
        }
    }

    /// Returns the vocabulary of a range of tokens.
    pub(super) fn vocabulary(&self, tokens: &Range<usize>) -> Result<Vocabulary, DataError> {
        if self.unit == TextUnit::Byte {
            return Ok(Vocabulary::bytes());
        }
        match &self.content {
            Content::Memory(bytes) => {
                let text = characters(bytes);
                let text = text.get(range(text, tokens)).unwrap_or_default();
                Ok(Vocabulary::of_characters(text))
            }
            Content::OnDemand(text) => {
                let mut kinds = BTreeSet::new();
                text.characters(tokens, |_, piece| {
                    kinds.extend(piece.chars());
                    Ok(())
                })?;
                Ok(Vocabulary::of_kinds(kinds))
            }
        }
    }

    /// Returns a range of tokens, all of which the vocabulary must have.
    pub(super) fn encode(
        &self,
        vocabulary: &Arc<Vocabulary>,
        tokens: &Range<usize>,
    ) -> Result<Tokens, DataError> {
        match (&self.content, self.unit) {
            (Content::Memory(bytes), TextUnit::Byte) => {
                let bytes = bytes.get(tokens.clone()).unwrap_or_default();
                Ok(Tokens::Narrow(bytes.to_vec()))
            }
            (Content::Memory(bytes), TextUnit::Char) => {
                let text = characters(bytes);
                let range = range(text, tokens);
                let start = range.start;
                let encoded = vocabulary.encode(text.get(range).unwrap_or_default());
                let encoded = encoded.map_err(|unknown| {
                    self.unknown(unknown, place(bytes, start + unknown.position))
                })?;
                Ok(Tokens::new(encoded, vocabulary.len()))
            }
            (Content::OnDemand(text), unit) => {
                if unit == TextUnit::Char {
                    text.characters(tokens, |start, piece| {
                        let Err(unknown) = vocabulary.check(piece) else {
                            return Ok(());
                        };
                        let place = text.place(start + unknown.position as u64)?;
                        Err(self.unknown(unknown, place))
                    })?;
                }
                Ok(Tokens::on_demand(text, vocabulary, tokens))
            }
        }
    }

    fn unknown(&self, unknown: Unknown, (line, column): (usize, usize)) -> DataError {
        DataError::Text(TextError::Unknown {
            file: self.file.clone(),
            line,
            column,
            character: unknown.character,
        })
    }
}

/// Opens a file that is read on demand; `None` if it is to be read whole, or has to be, as gzipped ones.
fn left_in_file(file: &Path, memory: MemoryUse) -> Result<Option<WatchedFile>, DataError> {
    if memory == MemoryUse::Whole {
        return Ok(None);
    }
    let opened = WatchedFile::open(file).map_err(|error| unreadable(file, error))?;
    let left = opened.filter(|opened| !memory.is_whole(opened.length(), MOST_OF_A_FILE));
    let Some(left) = left else {
        return Ok(None);
    };
    let mut start = vec![0; left.length().min(signature::LENGTH as u64) as usize];
    let read = left.read_at(0, &mut start);
    read.map_err(|problem| problem.of_file(file))?;
    if start.starts_with(GZIP) {
        return Ok(None);
    }
    match signature::of(&start) {
        Some(found) if found.is_packed => Err(other_format(file, found, false)),
        _ => Ok(Some(left)),
    }
}

/// Reads a whole file, and checks it if tokens are characters.
fn whole(file: &Path, unit: TextUnit) -> Result<Vec<u8>, DataError> {
    let bytes = unpacked(file)?;
    if unit == TextUnit::Char
        && let Err(error) = std::str::from_utf8(&bytes)
    {
        let (line, column) = place(&bytes, error.valid_up_to());
        let file = file.to_owned();
        return Err(TextError::NotUtf8 { file, line, column }.into());
    }
    Ok(bytes)
}

/// Returns bytes as text; they have been checked to be UTF-8.
fn characters(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Returns the range in bytes of a range of characters.
fn range(text: &str, characters: &Range<usize>) -> Range<usize> {
    let at = |count| {
        let mut positions = text.char_indices().map(|(position, _)| position);
        positions.nth(count).unwrap_or(text.len())
    };
    at(characters.start)..at(characters.end)
}

/// Returns line and column of a byte, both from 1; columns count characters.
fn place(bytes: &[u8], position: usize) -> (usize, usize) {
    let before = bytes.get(..position).unwrap_or_default();
    let mut lines = before.rsplit(|&byte| byte == b'\n');
    let last = lines.next().unwrap_or_default();
    let is_start = |byte: &&u8| **byte & 0b1100_0000 != 0b1000_0000;
    (lines.count() + 1, last.iter().filter(is_start).count() + 1)
}
