//! Rows as samples, filled up to the same length.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use sconce_nn::{TokenTargets, Visibility};

use super::store::{RowStore, RowToken};
use crate::tokens::tokenizer::Tokenizer;
use crate::{Batch, DataError, Dataset, Inputs, SampleOrigin, Targets};

/// Rows as a data set: inputs (context), and a class, or a target for each position, of which those that are not to be learnt
/// are ignored.
#[derive(Clone)]
pub(in crate::tokens) struct RowDataset {
    pub(super) store: Arc<RowStore>,
    /// Which rows.
    pub(super) rows: Arc<[u32]>,
    pub(super) shape: [usize; 1],
    pub(super) tokenizer: Arc<Tokenizer>,
    /// What rows are filled up with.
    pub(super) padding: u32,
    pub(super) targets: Targets,
    /// Class of each of the store's, in the order of the targets' names; empty where there are no classes.
    pub(super) classes: Arc<[u32]>,
    /// Whether all rows have targets.
    pub(super) is_labelled: bool,
}

impl RowDataset {
    /// Returns the same rows' data with other rows.
    pub(super) fn with_rows(&self, rows: Vec<u32>) -> RowDataset {
        RowDataset {
            rows: rows.into(),
            ..self.clone()
        }
    }

    fn class(&self, row: u32) -> u32 {
        let own = self.store.classes.get(row as usize);
        let class = own.and_then(|class| self.classes.get(*class as usize));
        class.copied().unwrap_or(0)
    }

    /// Appends the inputs and targets of a row.
    fn append(&self, row: &[RowToken], inputs: &mut Vec<u32>, targets: &mut Vec<u32>) {
        let [context] = self.shape;
        let fill = |values: &mut Vec<u32>, end: usize, value: u32| values.resize(end, value);
        let end = inputs.len() + context;
        inputs.extend(row.iter().take(context).map(|token| token.id));
        fill(inputs, end, self.padding);
        if let Targets::TokenPerPosition(_) = self.targets {
            let end = targets.len() + context;
            let next = row.iter().skip(1).take(context);
            targets.extend(next.map(|token| token.target()));
            fill(targets, end, TokenTargets::IGNORED);
        }
    }
}

impl Dataset for RowDataset {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn sample_shape(&self) -> &[usize] {
        &self.shape
    }

    fn inputs(&self) -> Inputs {
        Inputs::Tokens(self.tokenizer.vocabulary())
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    fn class_bytes(&self) -> Option<Arc<[u32]>> {
        match self.targets {
            Targets::TokenPerPosition(_) => self.tokenizer.bytes().cloned(),
            _ => None,
        }
    }

    fn origin(&self, index: u32) -> Option<SampleOrigin> {
        let row = self.rows.get(index as usize)?;
        Some(SampleOrigin::Row(*row as usize))
    }

    fn class_of(&self, index: u32) -> Option<u32> {
        let row = self.rows.get(index as usize)?;
        matches!(self.targets, Targets::Class(_)).then(|| self.class(*row))
    }

    fn has_targets(&self) -> bool {
        self.is_labelled
    }

    fn describe(&self) -> Vec<String> {
        let [context] = self.shape;
        let found = &self.store.description;
        vec![
            format!(
                "{} rows of `{}`, whose {} rows were made tokens of {} kinds",
                self.rows.len(),
                self.store.source.display(),
                found.rows + found.dropped,
                self.tokenizer.vocabulary()
            ),
            format!(
                "filled up to {context} tokens; {} were longer and are cut, {} dropped because nothing of them would be learnt",
                found.cut, found.dropped
            ),
        ]
    }

    fn gather(&self, indices: &[u32], _epoch: u64) -> Result<Batch, DataError> {
        let [context] = self.shape;
        let mut inputs = Vec::with_capacity(indices.len() * context);
        let mut targets = Vec::new();
        let mut lengths = Vec::with_capacity(indices.len());
        for &index in indices {
            let Some(&row) = self.rows.get(index as usize) else {
                let count = self.rows.len();
                return Err(DataError::Index { index, count });
            };
            let tokens = self.store.read(row, context + 1)?;
            lengths.push(tokens.len().min(context));
            self.append(&tokens, &mut inputs, &mut targets);
            if let Targets::Class(_) = self.targets {
                targets.push(self.class(row));
            }
        }
        let count = indices.len();
        let targets = match self.targets {
            Targets::Class(_) => Tensor::from_vec(targets, count, &Device::Cpu)?,
            _ => Tensor::from_vec(targets, (count, context), &Device::Cpu)?,
        };
        let inputs = Tensor::from_vec(inputs, (count, context), &Device::Cpu)?;
        Ok(Batch {
            visibility: Some(Visibility::of_lengths(&lengths, context)?),
            ..Batch::new(inputs, targets, indices.to_vec())
        })
    }
}
