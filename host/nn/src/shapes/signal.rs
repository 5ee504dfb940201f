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
    /// Whether samples can be shorter in their first dimension, the positions of a sequence: all of a batch alike, and at most as long
    /// as the shape says.
    pub varies: bool,
    /// Further inputs of a sample, by the names under which layers read them.
    pub named: Vec<(String, Signal)>,
}

impl Signal {
    /// Samples of this shape and content, all of one length and without further inputs.
    pub fn new(shape: impl Into<Vec<usize>>, content: Inputs) -> Signal {
        Signal {
            shape: shape.into(),
            content,
            varies: false,
            named: Vec::new(),
        }
    }

    /// Values of this shape.
    pub fn numbers(shape: impl Into<Vec<usize>>) -> Signal {
        Signal::new(shape, Inputs::Numbers)
    }

    /// A sequence of `length` tokens, each below `vocabulary`.
    pub fn tokens(length: usize, vocabulary: usize) -> Signal {
        Signal::new([length], Inputs::Tokens(vocabulary))
    }

    /// The same, of samples that can be shorter in their first dimension.
    pub fn up_to(self) -> Signal {
        Signal {
            varies: true,
            ..self
        }
    }

    /// The same, with a further input of this name.
    pub fn with(mut self, name: impl Into<String>, input: Signal) -> Signal {
        self.named.push((name.into(), input));
        self
    }

    /// Whether a sample of these sizes is one of these samples.
    pub(crate) fn takes(&self, sample: &[usize]) -> bool {
        match (&self.shape[..], sample) {
            ([most, rest @ ..], [length, other @ ..]) if self.varies => {
                length <= most && rest == other
            }
            (shape, sample) => shape == sample,
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
            Inputs::Numbers => write!(f, "numbers of shape {:?}", self.shape)?,
            Inputs::Columns(categories) => {
                let embedded = categories.iter().filter(|categories| **categories > 0);
                let count = embedded.count();
                write!(
                    f,
                    "rows of shape {:?}, {count} of them categories",
                    self.shape
                )?;
            }
            Inputs::Tokens(vocabulary) => {
                write!(f, "tokens below {vocabulary} of shape {:?}", self.shape)?;
            }
        }
        if self.varies {
            write!(f, " or shorter")?;
        }
        Ok(())
    }
}
