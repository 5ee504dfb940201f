//! Samples of a text: windows of tokens, with the next token as target at each position.

use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::content::Text;
use super::tokens::Tokens;
use crate::error::TextError;
use crate::vocabulary::Vocabulary;
use crate::{Batch, DataError, Dataset, Inputs, MemoryUse, Targets};

/// Windows over a text as a data set: inputs and targets (context), `u32`.
pub struct TextDataset {
    tokens: Tokens,
    vocabulary: Arc<Vocabulary>,
    shape: [usize; 1],
    stride: usize,
    count: usize,
    targets: Targets,
    bytes: Arc<[u32]>,
}

impl TextDataset {
    /// Creates windows of `context` tokens, one every `stride`, each followed by its next token in
    /// `tokens`; none if `tokens` has at most `context`. Both numbers are at least 1.
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
            bytes: vocabulary.byte_counts().into(),
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

    fn class_bytes(&self) -> Option<Arc<[u32]>> {
        Some(Arc::clone(&self.bytes))
    }

    fn describe(&self) -> Vec<String> {
        let [context] = self.shape;
        let unit = self.vocabulary.unit().plural();
        let place = if self.tokens.is_in_memory() {
            ""
        } else {
            ", read on demand"
        };
        vec![
            format!(
                "{} {unit}, {} kinds{place}",
                self.tokens.len(),
                self.vocabulary.len()
            ),
            format!("windows of {context}, every {}", self.stride),
        ]
    }

    fn gather(&self, indices: &[u32], _epoch: u64) -> Result<Batch, DataError> {
        let [context] = self.shape;
        let mut inputs = Vec::<u32>::with_capacity(indices.len() * context);
        let mut targets = Vec::<u32>::with_capacity(indices.len() * context);
        for &index in indices {
            if index as usize >= self.count {
                return Err(DataError::Index {
                    index,
                    count: self.count,
                });
            }
            let start = index as usize * self.stride;
            let window = self.tokens.get(start..start + context + 1, index)?;
            inputs.extend(window.iter().take(context));
            targets.extend(window.iter().skip(1));
        }
        let shape = (indices.len(), context);
        Ok(Batch::new(
            Tensor::from_vec(inputs, shape, &Device::Cpu)?,
            Tensor::from_vec(targets, shape, &Device::Cpu)?,
            indices.to_vec(),
        ))
    }
}

/// Creates the windows of a complete file, one after the other.
pub(super) fn whole(
    file: &Path,
    part: &'static str,
    vocabulary: &Arc<Vocabulary>,
    context: usize,
    memory: MemoryUse,
) -> Result<Arc<dyn Dataset>, DataError> {
    let text = Text::read(file, vocabulary.unit(), memory)?;
    let tokens = text.encode(vocabulary, &(0..text.count()))?;
    windows(&text, tokens, part, vocabulary, (context, context))
}

pub(super) fn windows(
    text: &Text,
    tokens: Tokens,
    part: &'static str,
    vocabulary: &Arc<Vocabulary>,
    (context, stride): (usize, usize),
) -> Result<Arc<dyn Dataset>, DataError> {
    let found = tokens.len();
    let dataset = TextDataset::new(tokens, Arc::clone(vocabulary), context, stride);
    if dataset.is_empty() {
        return Err(TextError::Short {
            file: text.file.clone(),
            part,
            found,
            unit: vocabulary.unit(),
            context,
        }
        .into());
    }
    if u32::try_from(dataset.len()).is_err() {
        return Err(DataError::TooMany(dataset.len() as u64));
    }
    Ok(Arc::new(dataset))
}
