//! What flows between layers.

use std::fmt;

use crate::Inputs;

/// What flows between layers, for one sample: the batch is in front of its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The shape of a sample: (channels, height, width) of images, (length, width) of sequences,
    /// (width) of vectors.
    pub shape: Vec<usize>,
    /// What it is made of.
    pub content: Inputs,
}

impl Signal {
    /// Numbers of a shape.
    pub fn numbers(shape: impl Into<Vec<usize>>) -> Signal {
        Signal {
            shape: shape.into(),
            content: Inputs::Numbers,
        }
    }

    /// So many tokens in a row, each below `vocabulary`.
    pub fn tokens(length: usize, vocabulary: usize) -> Signal {
        Signal {
            shape: vec![length],
            content: Inputs::Tokens(vocabulary),
        }
    }

    /// How many numbers or tokens a sample has.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.content {
            Inputs::Numbers => write!(f, "numbers of shape {:?}", self.shape),
            Inputs::Tokens(vocabulary) => {
                write!(f, "tokens below {vocabulary} of shape {:?}", self.shape)
            }
        }
    }
}
