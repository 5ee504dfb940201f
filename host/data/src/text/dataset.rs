//! A text as samples: windows, and at each position of one the token that follows.

use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::Vocabulary;
use super::load;
use crate::{Batch, Dataset, Error, Inputs, Targets};

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
    fn copy(&self, start: usize, count: usize, target: &mut Vec<u32>) {
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

/// Windows over a text as a data set: inputs and targets (context), `u32`.
pub struct TextDataset {
    tokens: Tokens,
    vocabulary: Arc<Vocabulary>,
    shape: [usize; 1],
    stride: usize,
    count: usize,
    targets: Targets,
}

impl TextDataset {
    /// Windows of `context` tokens, every `stride` of them, each with its next token in `tokens`.
    /// There is none where there are not more than `context`; both numbers are at least 1.
    pub(crate) fn new(
        tokens: Tokens,
        vocabulary: Arc<Vocabulary>,
        context: usize,
        stride: usize,
    ) -> TextDataset {
        let stride = stride.max(1);
        let count = match tokens.len().checked_sub(context.saturating_add(1)) {
            Some(rest) => rest / stride + 1,
            None => 0,
        };
        TextDataset {
            tokens,
            shape: [context],
            stride,
            count,
            targets: Targets::ClassPerPosition(vocabulary.names()),
            vocabulary,
        }
    }
}

impl Dataset for TextDataset {
    fn len(&self) -> usize {
        self.count
    }

    fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    fn inputs(&self) -> Inputs {
        Inputs::Tokens(self.vocabulary.len())
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    fn vocabulary(&self) -> Option<&Vocabulary> {
        Some(&self.vocabulary)
    }

    /// The windows of a text file, one behind the other.
    fn open(&self, file: &Path) -> Result<Arc<dyn Dataset>, Error> {
        let [context] = self.shape;
        load::whole(file, "text", &self.vocabulary, context)
    }

    fn describe(&self) -> Vec<String> {
        let [context] = self.shape;
        let unit = self.vocabulary.unit().plural();
        vec![
            format!(
                "{} {unit}, {} kinds",
                self.tokens.len(),
                self.vocabulary.len()
            ),
            format!("windows of {context}, every {}", self.stride),
        ]
    }

    fn gather(&self, indices: &[u32], _epoch: u64) -> Result<Batch, Error> {
        let [context] = self.shape;
        let mut inputs = Vec::with_capacity(indices.len() * context);
        let mut targets = Vec::with_capacity(indices.len() * context);
        for &index in indices {
            if index as usize >= self.count {
                return Err(Error::Index {
                    index,
                    count: self.count,
                });
            }
            let start = index as usize * self.stride;
            self.tokens.copy(start, context, &mut inputs);
            self.tokens.copy(start + 1, context, &mut targets);
        }
        let shape = (indices.len(), context);
        Ok(Batch {
            inputs: Tensor::from_vec(inputs, shape, &Device::Cpu)?,
            targets: Tensor::from_vec(targets, shape, &Device::Cpu)?,
            indices: indices.to_vec(),
        })
    }
}
