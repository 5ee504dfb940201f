//! Shape and content of the data between layers.

use std::fmt;

use crate::Inputs;

/// Shape and content of the data between two layers, for one sample, without the batch dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The shape of a sample: (channels, height, width) of images, (length, width) of sequences,
    /// (width) of vectors.
    pub shape: Vec<usize>,
    /// Content, values or tokens.
    pub content: Inputs,
}

impl Signal {
    /// Values of this shape.
    pub fn numbers(shape: impl Into<Vec<usize>>) -> Signal {
        Signal {
            shape: shape.into(),
            content: Inputs::Numbers,
        }
    }

    /// A sequence of `length` tokens, each below `vocabulary`.
    pub fn tokens(length: usize, vocabulary: usize) -> Signal {
        Signal {
            shape: vec![length],
            content: Inputs::Tokens(vocabulary),
        }
    }

    /// Returns the number of values or tokens per sample; the largest number if it is larger.
    pub fn count(&self) -> usize {
        product(&self.shape)
    }
}

/// Product of sizes; the largest number if it is larger.
pub(crate) fn product(sizes: &[usize]) -> usize {
    sizes.iter().copied().fold(1, usize::saturating_mul)
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            Inputs::Numbers => write!(f, "numbers of shape {:?}", self.shape),
            Inputs::Columns(categories) => {
                let embedded = categories.iter().filter(|categories| **categories > 0);
                let count = embedded.count();
                write!(
                    f,
                    "rows of shape {:?}, {count} of them categories",
                    self.shape
                )
            }
            Inputs::Tokens(vocabulary) => {
                write!(f, "tokens below {vocabulary} of shape {:?}", self.shape)
            }
        }
    }
}
