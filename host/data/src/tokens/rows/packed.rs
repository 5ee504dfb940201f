//! Several rows in each sample, which do not see each other.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use sconce_nn::{TokenTargets, Visibility};

use super::RowDataset;
use super::packing::Packing;
use crate::{Batch, DataError, Dataset, Inputs, Targets};

/// Rows with targets at each position, packed: inputs and targets (context). Each row sees itself alone, and its positions begin at 0.
#[derive(Clone)]
pub(super) struct PackedRows {
    rows: RowDataset,
    packing: Arc<Packing>,
    /// Seed by which rows change places in each epoch, in training.
    seed: Option<u64>,
}

impl PackedRows {
    /// Packs rows; those of training change places in each epoch.
    pub(super) fn new(rows: RowDataset, seed: u64, is_training: bool) -> PackedRows {
        let [context] = rows.shape;
        let packing = Packing::new(seed, &rows.rows, context, |row| {
            width(rows.store.tokens_of(row))
        });
        PackedRows {
            rows,
            packing: Arc::new(packing),
            seed: is_training.then_some(seed),
        }
    }

    /// Appends the rows of a sample to inputs and targets, and returns where they begin, and what is filled up.
    fn append(
        &self,
        rows: &[u32],
        inputs: &mut Vec<u32>,
        targets: &mut Vec<u32>,
    ) -> Result<Vec<usize>, DataError> {
        let [context] = self.rows.shape;
        let (start, end) = (inputs.len(), inputs.len() + context);
        let mut starts = Vec::with_capacity(rows.len() + 1);
        for &row in rows {
            let tokens = self.rows.store.read(row, context + 1)?;
            inputs.extend(
                tokens
                    .iter()
                    .take(width(tokens.len()))
                    .map(|token| token.id),
            );
            targets.extend(tokens.iter().skip(1).map(|token| token.target()));
            starts.push(inputs.len() - start);
        }
        inputs.resize(end, self.rows.padding);
        targets.resize(end, TokenTargets::IGNORED);
        Ok(starts)
    }
}

/// Positions of a row of so many tokens: the last one is a target alone.
fn width(tokens: usize) -> usize {
    tokens.saturating_sub(1)
}

impl Dataset for PackedRows {
    fn len(&self) -> usize {
        self.packing.len()
    }

    fn sample_shape(&self) -> &[usize] {
        self.rows.sample_shape()
    }

    fn inputs(&self) -> Inputs {
        self.rows.inputs()
    }

    fn targets(&self) -> &Targets {
        self.rows.targets()
    }

    fn class_bytes(&self) -> Option<Arc<[u32]>> {
        self.rows.class_bytes()
    }

    fn plain(&self) -> Option<Arc<dyn Dataset>> {
        self.seed?;
        Some(Arc::new(PackedRows {
            seed: None,
            ..self.clone()
        }))
    }

    fn describe(&self) -> Vec<String> {
        let mut lines = self.rows.describe();
        lines.push(format!(
            "packed: {:.1} rows in a sample",
            self.rows.len() as f64 / self.len().max(1) as f64
        ));
        lines
    }

    fn gather(&self, indices: &[u32], epoch: u64) -> Result<Batch, DataError> {
        let [context] = self.rows.shape;
        let count = indices.len();
        let mut inputs = Vec::with_capacity(count * context);
        let mut targets = Vec::with_capacity(count * context);
        let mut starts = Vec::with_capacity(count);
        for &index in indices {
            let rows = self
                .packing
                .sample(index, self.seed.map(|seed| (seed, epoch)));
            let rows = rows.ok_or_else(|| DataError::Index {
                index,
                count: self.len(),
            })?;
            starts.push(self.append(&rows, &mut inputs, &mut targets)?);
        }
        let visibility = Visibility::of_documents(&starts, context)?;
        let inputs = Tensor::from_vec(inputs, (count, context), &Device::Cpu)?;
        let targets = Tensor::from_vec(targets, (count, context), &Device::Cpu)?;
        Ok(Batch {
            visibility: Some(visibility),
            ..Batch::new(inputs, targets, indices.to_vec())
        })
    }
}
