//! Samples of tokens: windows, with the next token as target at each position.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use sconce_nn::{TokenTargets, Visibility};
use sconce_ops::random;

use super::files::{FailedRead, TokenFiles};
use super::tokenizer::Tokenizer;
use crate::error::TokensError;
use crate::{Batch, DataError, Dataset, Inputs, Targets};

/// Windows over token files as a data set: inputs and targets (context), `u32`.
///
/// In training, the windows of an epoch begin at an offset drawn from the seed and the epoch, so that over the epochs a token
/// is seen after contexts of other lengths; within an epoch each token is in one window.
pub struct TokenDataset {
    tokens: TokenRange,
    shape: [usize; 1],
    count: u32,
    /// Seed of the offsets, and the number of them, in training.
    shift: Option<(u64, u64)>,
    targets: Targets,
    /// Token at the end of documents that are kept apart.
    separator: Option<u32>,
}

/// A part of the tokens, which are of this vocabulary.
#[derive(Clone)]
pub(super) struct TokenRange {
    pub(super) files: Arc<TokenFiles>,
    pub(super) range: Range<u64>,
    pub(super) vocabulary: usize,
    /// What made them, if it is known.
    pub(super) tokenizer: Option<Arc<Tokenizer>>,
}

impl TokenDataset {
    /// Creates windows of `context` tokens, each followed by its next token, of the part of this name in messages; those of
    /// training are shifted by `seed`.
    pub(super) fn new(
        tokens: TokenRange,
        context: usize,
        part: &'static str,
        seed: Option<u64>,
    ) -> Result<TokenDataset, DataError> {
        let found = tokens.range.end - tokens.range.start;
        let width = context as u64;
        if found <= width {
            let short = TokensError::Short {
                part,
                found,
                context,
            };
            return Err(short.into());
        }
        // With one window less than there is room for, any offset leaves room for all.
        let all = (found - 1) / width;
        let count = match seed {
            Some(_) => ((found - width) / width).max(1),
            None => all,
        };
        let offsets = (found - count * width).min(width);
        let count = u32::try_from(count).map_err(|_| DataError::TooMany(count))?;
        let targets = Targets::TokenPerPosition(TokenTargets {
            vocabulary: tokens.vocabulary,
            are_masked: false,
        });
        Ok(TokenDataset {
            tokens,
            shape: [context],
            count,
            shift: seed.map(|seed| (seed, offsets)),
            targets,
            separator: None,
        })
    }

    /// Keeps documents apart, which this token ends: each sees itself alone, and what follows its end is not learnt.
    pub(super) fn separated(mut self, end: u32) -> TokenDataset {
        self.separator = Some(end);
        self.targets = Targets::TokenPerPosition(TokenTargets {
            vocabulary: self.tokens.vocabulary,
            are_masked: true,
        });
        self
    }

    /// Begins of documents in each window, and targets without those that are of the next document.
    fn separate(
        &self,
        end: u32,
        inputs: &[u32],
        targets: &mut [u32],
    ) -> Result<Visibility, DataError> {
        let [context] = self.shape;
        let mut starts = Vec::with_capacity(inputs.len() / context.max(1));
        for window in inputs.chunks(context.max(1)) {
            let ends = window.iter().enumerate();
            let ends = ends.filter(|(_, token)| **token == end);
            starts.push(ends.map(|(place, _)| place + 1).collect());
        }
        for (input, target) in inputs.iter().zip(targets) {
            if *input == end {
                *target = TokenTargets::IGNORED;
            }
        }
        Ok(Visibility::of_documents(&starts, context)?)
    }

    /// Place in the part at which the first window of an epoch begins.
    fn offset(&self, epoch: u64) -> u64 {
        self.shift.map_or(0, |(seed, offsets)| {
            random::stream(seed, "token-offset", epoch, 0).below(offsets)
        })
    }
}

impl Dataset for TokenDataset {
    fn len(&self) -> usize {
        self.count as usize
    }

    fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    fn inputs(&self) -> Inputs {
        Inputs::Tokens(self.tokens.vocabulary)
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    fn class_bytes(&self) -> Option<Arc<[u32]>> {
        self.tokens.class_bytes()
    }

    fn plain(&self) -> Option<Arc<dyn Dataset>> {
        self.shift?;
        Some(Arc::new(TokenDataset {
            tokens: self.tokens.clone(),
            shape: self.shape,
            count: self.count,
            shift: None,
            targets: self.targets.clone(),
            separator: self.separator,
        }))
    }

    fn describe(&self) -> Vec<String> {
        let [context] = self.shape;
        let TokenRange {
            files,
            range,
            vocabulary,
            ..
        } = &self.tokens;
        let shift = if self.shift.is_some() {
            ", from another place in each epoch"
        } else {
            ""
        };
        let place = match files.count() {
            1 => format!("`{}`", files.first_path().display()),
            count => format!("{count} files"),
        };
        let documents = match self.separator {
            Some(_) => ", documents apart",
            None => "",
        };
        vec![
            format!(
                "{} tokens of {vocabulary} kinds in {place}, read on demand",
                range.end - range.start
            ),
            format!("windows of {context}, every {context}{shift}{documents}"),
        ]
    }

    fn gather(&self, indices: &[u32], epoch: u64) -> Result<Batch, DataError> {
        let [context] = self.shape;
        let mut inputs = Vec::<u32>::with_capacity(indices.len() * context);
        let mut targets = Vec::<u32>::with_capacity(indices.len() * context);
        let mut window = Vec::with_capacity(context + 1);
        let offset = self.offset(epoch);
        for &index in indices {
            if index >= self.count {
                let count = self.count as usize;
                return Err(DataError::Index { index, count });
            }
            let start = offset + u64::from(index) * context as u64;
            window.clear();
            self.tokens.read(start, context + 1, index, &mut window)?;
            inputs.extend(window.iter().take(context));
            targets.extend(window.iter().skip(1));
        }
        let separate = |end| self.separate(end, &inputs, &mut targets);
        let visibility = self.separator.map(separate).transpose()?;
        let shape = (indices.len(), context);
        let inputs = Tensor::from_vec(inputs, shape, &Device::Cpu)?;
        let targets = Tensor::from_vec(targets, shape, &Device::Cpu)?;
        Ok(Batch {
            visibility,
            ..Batch::new(inputs, targets, indices.to_vec())
        })
    }
}

impl TokenRange {
    /// Appends `count` tokens of the part from `start` on, for the sample with this index, and compares them with the
    /// vocabulary.
    fn read(
        &self,
        start: u64,
        count: usize,
        sample: u32,
        tokens: &mut Vec<u32>,
    ) -> Result<(), DataError> {
        let start = self.range.start + start;
        let read = self.files.read(start..start + count as u64, tokens);
        read.map_err(|FailedRead { file, problem }| problem.of_sample(&file, sample as usize))?;
        self.files.check(tokens, start, self.vocabulary)?;
        Ok(())
    }

    /// The bytes of each token, if they are known.
    fn class_bytes(&self) -> Option<Arc<[u32]>> {
        let tokenizer = self.tokenizer.as_ref()?;
        // A model's vocabulary may have more tokens than its tokenizer.
        let mut bytes = tokenizer.bytes()?.to_vec();
        bytes.resize(self.vocabulary, 0);
        Some(bytes.into())
    }
}
