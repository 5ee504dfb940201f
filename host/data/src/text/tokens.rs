//! The tokens of a text.

/// The tokens of a text, as narrow as its vocabulary lets them be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// Of at most 256 kinds.
    Narrow(Vec<u8>),
    /// Of more.
    Wide(Vec<u32>),
}

impl Tokens {
    /// Tokens below `kinds`.
    pub(crate) fn new(tokens: Vec<u32>, kinds: usize) -> Tokens {
        if kinds <= 256 {
            Tokens::Narrow(tokens.into_iter().map(|token| token as u8).collect())
        } else {
            Tokens::Wide(tokens)
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Tokens::Narrow(tokens) => tokens.len(),
            Tokens::Wide(tokens) => tokens.len(),
        }
    }

    /// Appends `count` tokens from `start` on; fewer where there are fewer.
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
