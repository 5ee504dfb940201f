//! Numeric samples in memory: rows of a table ([`csv`]), [`arrays`], generated points. `values`: their inputs.

pub mod arrays;
pub mod csv;
mod values;

use std::borrow::Cow;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use values::InputValues;

use super::{Batch, DataError, Dataset, Inputs, SampleOrigin, Targets};

/// Targets of some samples, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TargetValues {
    /// Class indices; the same number for each sample.
    Classes(Vec<u32>),
    /// Numeric targets; the same number for each sample.
    Numbers(Vec<f32>),
    /// The inputs, as they are in batches.
    Inputs,
}

/// Samples of one shape with their targets.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Samples {
    /// Inputs of all samples, one after the other, in the order of the shape.
    pub(super) inputs: InputValues,
    /// Shape of one sample's input.
    pub(super) shape: Vec<usize>,
    pub(super) values: TargetValues,
    pub(super) count: usize,
}

impl Samples {
    /// Returns the number of elements of one sample's input.
    fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the input of a sample.
    fn input(&self, sample: u32) -> Option<Cow<'_, [f32]>> {
        self.inputs.sample(self.size(), sample)
    }

    /// Creates a batch of the samples at these indices.
    fn batch(&self, samples: &[u32], targets: &Targets) -> Result<Batch, DataError> {
        let outside = |index| DataError::Index {
            index,
            count: self.count,
        };
        let mut inputs = Vec::with_capacity(samples.len() * self.size());
        for &sample in samples {
            inputs.extend_from_slice(&self.input(sample).ok_or_else(|| outside(sample))?);
        }
        let shape: Vec<usize> = [&[samples.len()], &self.shape[..]].concat();
        let inputs = Tensor::from_vec(inputs, shape, &Device::Cpu)?;
        let per_sample = |values: usize| values / self.count.max(1);
        let targets = match &self.values {
            TargetValues::Classes(classes) => {
                let size = per_sample(classes.len());
                let chosen = collect(classes, size, samples).map_err(outside)?;
                let tensor = Tensor::from_vec(chosen, (samples.len(), size), &Device::Cpu)?;
                match targets {
                    Targets::Class(_) | Targets::None => tensor.flatten_all()?,
                    _ => tensor,
                }
            }
            TargetValues::Numbers(numbers) => {
                let size = per_sample(numbers.len());
                let chosen = collect(numbers, size, samples).map_err(outside)?;
                Tensor::from_vec(chosen, (samples.len(), size), &Device::Cpu)?
            }
            // A copy, since hooks may change the inputs, for example to learn to remove noise.
            TargetValues::Inputs => inputs.reshape((samples.len(), self.size()))?.copy()?,
        };
        Ok(Batch::new(inputs, targets, samples.to_vec()))
    }
}

/// Returns the values of one sample, `size` each.
fn nth<T>(values: &[T], size: usize, sample: u32) -> Option<&[T]> {
    let start = (sample as usize).checked_mul(size)?;
    values.get(start..start.checked_add(size)?)
}

/// Collects the values of several samples, or returns the first index that is out of range.
fn collect<T: Copy>(values: &[T], size: usize, samples: &[u32]) -> Result<Vec<T>, u32> {
    let mut chosen = Vec::with_capacity(samples.len() * size);
    for &sample in samples {
        chosen.extend_from_slice(nth(values, size, sample).ok_or(sample)?);
    }
    Ok(chosen)
}

/// Rows of a file that the samples come from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RowSelection {
    /// The samples do not come from a file.
    None,
    /// Each sample comes from the row with its own index.
    All,
    /// Some rows were left out: the row of each sample.
    Some(Arc<[usize]>),
}

/// A part of some samples, as a data set.
pub(super) struct NumberDataset {
    samples: Arc<Samples>,
    /// Indices of its samples.
    indices: Vec<u32>,
    targets: Targets,
    content: Inputs,
    rows: RowSelection,
    /// Weight of each sample in the loss, if they have any.
    weights: Option<Arc<[f32]>>,
    has_targets: bool,
    description: Vec<String>,
}

impl NumberDataset {
    /// Creates a data set of the samples at `indices`.
    pub(super) fn new(samples: Arc<Samples>, indices: Vec<u32>, targets: Targets) -> NumberDataset {
        NumberDataset {
            samples,
            indices,
            targets,
            content: Inputs::Numbers,
            rows: RowSelection::None,
            weights: None,
            has_targets: true,
            description: Vec::new(),
        }
    }

    /// Creates a data set of all samples.
    pub(super) fn all(samples: Samples, targets: Targets) -> NumberDataset {
        let indices = (0..samples.count as u32).collect();
        NumberDataset::new(Arc::new(samples), indices, targets)
    }

    /// Says what the inputs are, if not only numbers.
    pub(super) fn containing(mut self, content: Inputs) -> NumberDataset {
        self.content = content;
        self
    }

    /// Marks the samples as all rows of a file.
    pub(super) fn of_file(mut self) -> NumberDataset {
        self.rows = RowSelection::All;
        self
    }

    /// Marks the samples as these rows of a file.
    pub(super) fn of_rows(mut self, rows: Arc<[usize]>) -> NumberDataset {
        self.rows = RowSelection::Some(rows);
        self
    }

    /// Gives the samples, of which these are a part, weights in the loss.
    pub(super) fn weighted(mut self, weights: Option<Arc<[f32]>>) -> NumberDataset {
        self.weights = weights;
        self
    }

    /// Marks the samples as all rows of a file to predict, whose targets may be placeholders.
    pub(super) fn of_input_file(self, has_targets: bool) -> NumberDataset {
        NumberDataset {
            has_targets,
            ..self.of_file()
        }
    }

    /// Sets the description.
    pub(super) fn with_description(mut self, description: Vec<String>) -> NumberDataset {
        self.description = description;
        self
    }
}

impl Dataset for NumberDataset {
    fn len(&self) -> usize {
        self.indices.len()
    }

    fn sample_shape(&self) -> &[usize] {
        &self.samples.shape
    }

    fn inputs(&self) -> Inputs {
        self.content.clone()
    }

    fn targets(&self) -> &Targets {
        &self.targets
    }

    fn has_weights(&self) -> bool {
        self.weights.is_some()
    }

    fn origin(&self, index: u32) -> Option<SampleOrigin> {
        let sample = *self.indices.get(index as usize)? as usize;
        match &self.rows {
            RowSelection::None => None,
            RowSelection::All => Some(SampleOrigin::Row(sample)),
            RowSelection::Some(rows) => rows.get(sample).copied().map(SampleOrigin::Row),
        }
    }

    fn class_of(&self, index: u32) -> Option<u32> {
        let sample = *self.indices.get(index as usize)?;
        match (&self.samples.values, &self.targets) {
            (TargetValues::Classes(classes), Targets::Class(_)) => {
                classes.get(sample as usize).copied()
            }
            _ => None,
        }
    }

    fn has_targets(&self) -> bool {
        self.has_targets
    }

    fn describe(&self) -> Vec<String> {
        self.description.clone()
    }

    fn gather(&self, indices: &[u32], _epoch: u64) -> Result<Batch, DataError> {
        let of_all = |&index: &u32| {
            let sample = self.indices.get(index as usize).copied();
            sample.ok_or(DataError::Index {
                index,
                count: self.len(),
            })
        };
        let samples: Vec<u32> = indices.iter().map(of_all).collect::<Result<_, _>>()?;
        let mut batch = self.samples.batch(&samples, &self.targets)?;
        batch.indices = indices.to_vec();
        batch.weights = self.weights.as_ref().map(|weights| {
            let weight = |&sample: &u32| weights.get(sample as usize).copied().unwrap_or(1.0);
            samples.iter().map(weight).collect()
        });
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Arc<Samples> {
        Arc::new(Samples {
            inputs: (0..12_u8).map(f32::from).collect::<Vec<_>>().into(),
            shape: vec![3],
            values: TargetValues::Numbers((0..8_u8).map(f32::from).collect()),
            count: 4,
        })
    }

    fn targets() -> Targets {
        Targets::Numbers(vec!["a".to_owned(), "b".to_owned()])
    }

    #[test]
    fn a_batch_is_in_the_order_asked_for() {
        let data = NumberDataset::new(samples(), vec![3, 1], targets());
        let batch = data.gather(&[1, 0, 1], 0).expect("a batch");
        assert_eq!(batch.indices, [1, 0, 1]);
        let inputs = batch.inputs.to_vec2::<f32>().expect("rows");
        assert_eq!(inputs[..2], [[3.0, 4.0, 5.0], [9.0, 10.0, 11.0]]);
        let targets = batch.targets.to_vec2::<f32>().expect("rows");
        assert_eq!(targets[..2], [[2.0, 3.0], [6.0, 7.0]]);
        let error = data.gather(&[2], 0).expect_err("there are two");
        assert_eq!(error.to_string(), "sample 2 was asked for, but there are 2");
    }

    #[test]
    fn classes_are_one_or_one_per_position() {
        let names = vec!["x".to_owned(), "y".to_owned()];
        let samples = Samples {
            inputs: vec![0.5, 1.5].into(),
            shape: vec![],
            values: TargetValues::Classes(vec![1, 0]),
            count: 2,
        };
        let data = NumberDataset::all(samples.clone(), Targets::Class(names.clone()));
        let batch = data.gather(&[1, 0], 0).expect("a batch");
        assert_eq!(batch.targets.to_vec1::<u32>().expect("classes"), [0, 1]);
        assert_eq!(batch.inputs.dims(), [2]);
        let data = NumberDataset::all(samples, Targets::ClassPerPosition(names));
        let batch = data.gather(&[1, 0], 0).expect("a batch");
        assert_eq!(batch.targets.dims(), [2, 1]);
    }
}
