//! Compact storage of a text's tokens, or where they are read.

use std::ops::Range;
use std::sync::Arc;

use super::streamed::StreamedText;
use crate::DataError;
use crate::files::watched_file::ReadProblem;
use crate::vocabulary::{TextUnit, Vocabulary};

/// Tokens of a text, in the narrowest type that fits the vocabulary.
#[derive(Clone, Debug)]
pub(crate) enum Tokens {
    /// Tokens of a vocabulary of at most 256.
    Narrow(Vec<u8>),
    /// Tokens of a larger vocabulary.
    Wide(Vec<u32>),
    /// Tokens that are read from their file when they are requested.
    OnDemand(TextSection),
}

/// A part of a file, whose characters are all in the vocabulary.
#[derive(Clone, Debug)]
pub(crate) struct TextSection {
    text: Arc<StreamedText>,
    vocabulary: Arc<Vocabulary>,
    /// Which of the file's tokens they are.
    tokens: Range<usize>,
}

impl Tokens {
    /// Stores tokens that are all below `kinds`.
    pub(crate) fn new(tokens: Vec<u32>, kinds: usize) -> Tokens {
        if kinds <= 256 {
            Tokens::Narrow(tokens.into_iter().map(|token| token as u8).collect())
        } else {
            Tokens::Wide(tokens)
        }
    }

    /// Refers to a range of a file's tokens, as far as the file has them.
    pub(super) fn on_demand(
        text: &Arc<StreamedText>,
        vocabulary: &Arc<Vocabulary>,
        tokens: &Range<usize>,
    ) -> Tokens {
        let end = tokens.end.min(text.count());
        Tokens::OnDemand(TextSection {
            text: Arc::clone(text),
            vocabulary: Arc::clone(vocabulary),
            tokens: tokens.start.min(end)..end,
        })
    }

    /// Returns the number of tokens.
    pub(crate) fn len(&self) -> usize {
        match self {
            Tokens::Narrow(tokens) => tokens.len(),
            Tokens::Wide(tokens) => tokens.len(),
            Tokens::OnDemand(section) => section.tokens.len(),
        }
    }

    /// Whether the tokens are in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        !matches!(self, Tokens::OnDemand(_))
    }

    /// Returns the tokens of a range, or as many as there are, for the sample with this index.
    pub(super) fn get(&self, range: Range<usize>, sample: u32) -> Result<Vec<u32>, DataError> {
        Ok(match self {
            Tokens::Narrow(tokens) => {
                let tokens = tokens.get(range).unwrap_or_default();
                tokens.iter().map(|&token| u32::from(token)).collect()
            }
            Tokens::Wide(tokens) => tokens.get(range).unwrap_or_default().to_vec(),
            Tokens::OnDemand(section) => section.get(range).map_err(|problem| {
                let file = section.text.path();
                problem.of_sample(file, sample as usize)
            })?,
        })
    }
}

impl TextSection {
    fn get(&self, range: Range<usize>) -> Result<Vec<u32>, ReadProblem> {
        let all = &self.tokens;
        let of_file = |token: usize| all.start.saturating_add(token).min(all.end);
        let bytes = self.text.bytes(of_file(range.start)..of_file(range.end))?;
        if self.vocabulary.unit() == TextUnit::Byte {
            return Ok(bytes.into_iter().map(u32::from).collect());
        }
        // Before training it was all text, of characters in the vocabulary.
        let text = String::from_utf8(bytes).map_err(|_| ReadProblem::Changed)?;
        let tokens = self.vocabulary.encode(&text);
        tokens.map_err(|_| ReadProblem::Changed)
    }
}
