//! Compact storage of a text's tokens.

/// Tokens of a text, in the narrowest type that fits the vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// Tokens of a vocabulary of at most 256.
    Narrow(Vec<u8>),
    /// Tokens of a larger vocabulary.
    Wide(Vec<u32>),
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

    /// Returns the number of tokens.
    pub(crate) fn len(&self) -> usize {
        match self {
            Tokens::Narrow(tokens) => tokens.len(),
            Tokens::Wide(tokens) => tokens.len(),
        }
    }

    /// Appends `count` tokens from `start` on, or as many as there are.
    pub(super) fn copy(&self, start: usize, count: usize, target: &mut Vec<u32>) {
        let range = start..start + count;
        match self {
            Tokens::Narrow(tokens) => {
                let tokens = tokens.get(range).unwrap_or_default();
                target.extend(tokens.iter().map(|&token| u32::from(token)));
            }
            Tokens::Wide(tokens) => target.extend(tokens.get(range).unwrap_or_default()),
        }
    }
}
