//! Standardisation of inputs to mean 0 and standard deviation 1, from the training samples only.

use std::ops::Range;
use std::sync::Arc;

use sconce_nn::onnx::{Graph, Value};
use serde::{Deserialize, Serialize};

use sconce_base::exact::Exact;

use crate::numbers::values::{InputValues, KeptValues};

/// Standardisation of each column, of all elements together, or none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredScaling", into = "StoredScaling")]
pub(super) struct Scaling {
    /// Mean and (population) standard deviation of each column, or one pair for all elements; empty if
    /// inputs are left unchanged.
    pairs: Vec<(f64, f64)>,
}

/// Serialised form of a scaling.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredScaling {
    mean: Vec<Exact>,
    deviation: Vec<Exact>,
}

impl From<Scaling> for StoredScaling {
    fn from(scaling: Scaling) -> StoredScaling {
        let pairs = scaling.pairs.iter();
        let pairs = pairs.map(|&(mean, deviation)| (Exact(mean), Exact(deviation)));
        let (mean, deviation) = pairs.unzip();
        StoredScaling { mean, deviation }
    }
}

impl TryFrom<StoredScaling> for Scaling {
    type Error = &'static str;

    fn try_from(stored: StoredScaling) -> Result<Scaling, &'static str> {
        let StoredScaling { mean, deviation } = stored;
        if mean.len() != deviation.len() {
            return Err("there are more or fewer means than deviations");
        }
        let pairs = mean.iter().zip(&deviation);
        let pairs: Vec<(f64, f64)> = pairs
            .map(|(mean, deviation)| (mean.0, deviation.0))
            .collect();
        let mut are_valid = pairs.iter();
        if are_valid
            .all(|(mean, deviation)| mean.is_finite() && deviation.is_finite() && *deviation > 0.0)
        {
            Ok(Scaling { pairs })
        } else {
            Err("means must be finite, deviations finite and above 0")
        }
    }
}

impl Scaling {
    /// Scales inputs (samples, …) of samples of this shape in a graph of ONNX.
    pub(super) fn onnx(&self, graph: &mut Graph, x: &Value, shape: &[usize]) -> Value {
        match self.pairs.as_slice() {
            [] => x.clone(),
            [_] => graph.standardised(x, &self.pairs, &[]),
            pairs => {
                let shape: Vec<usize> = [1].into_iter().chain(shape.iter().copied()).collect();
                graph.standardised(x, pairs, &shape)
            }
        }
    }

    /// Leaves inputs unchanged.
    pub(super) fn none() -> Scaling {
        Scaling { pairs: Vec::new() }
    }

    /// Fits the `training` samples of these inputs, `size` elements each: per column, or over all
    /// elements.
    pub(super) fn of(
        inputs: &InputValues,
        size: usize,
        training: &[u32],
        by_columns: bool,
    ) -> Scaling {
        let columns = if by_columns { size } else { 1 };
        let numbers = |column: usize| {
            training.iter().flat_map(move |&sample| {
                let sample = inputs.sample(size, sample).unwrap_or_default();
                let of_column = (column..sample.len()).step_by(columns.max(1));
                of_column.filter_map(move |place| sample.get(place).copied().map(f64::from))
            })
        };
        let pairs = (0..columns).map(|column| {
            let count = numbers(column).count().max(1) as f64;
            let mean = numbers(column).sum::<f64>() / count;
            let least = numbers(column).fold(f64::INFINITY, f64::min);
            let most = numbers(column).fold(f64::NEG_INFINITY, f64::max);
            let squares = numbers(column).map(|x| (x - mean) * (x - mean));
            let deviation = (squares.sum::<f64>() / count).sqrt();
            // Constant values can't be scaled to standard deviation 1.
            (mean, if least < most { deviation } else { 1.0 })
        });
        Scaling {
            pairs: pairs.collect(),
        }
    }

    /// Returns the number of columns with statistics of their own, 1 for all elements together; none if inputs are left
    /// unchanged.
    pub(super) fn columns(&self) -> Option<usize> {
        (!self.pairs.is_empty()).then_some(self.pairs.len())
    }

    /// Scales the inputs of any samples; those that are kept elsewhere where they become values.
    pub(super) fn apply_to(&self, inputs: &mut InputValues) {
        match inputs {
            InputValues::Own(values) => self.apply(values),
            InputValues::Kept(_) if self.pairs.is_empty() => {}
            InputValues::Kept(kept) => {
                *kept = Arc::new(Scaled {
                    kept: Arc::clone(kept),
                    scaling: self.clone(),
                });
            }
        }
    }

    /// Scales values that begin with a sample's first.
    fn apply(&self, inputs: &mut [f32]) {
        if self.pairs.is_empty() {
            return;
        }
        for (input, (mean, deviation)) in inputs.iter_mut().zip(self.pairs.iter().cycle()) {
            *input = ((f64::from(*input) - mean) / deviation) as f32;
        }
    }
}

/// Inputs kept elsewhere, scaled.
struct Scaled {
    kept: Arc<dyn KeptValues>,
    scaling: Scaling,
}

impl KeptValues for Scaled {
    fn values(&self, range: Range<usize>) -> Option<Vec<f32>> {
        // Ranges are those of whole samples, of whose columns there are as many pairs, or one for all.
        let mut values = self.kept.values(range)?;
        self.scaling.apply(&mut values);
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "these numbers are exact")]
    fn columns_are_scaled_by_the_training_samples() {
        // Training samples: (0, 10) and (2, 10), but not (4, 30).
        let mut inputs = [0.0, 10.0, 2.0, 10.0, 4.0, 30.0];
        let scaling = Scaling::of(&inputs.to_vec().into(), 2, &[0, 1], true);
        scaling.apply(&mut inputs);
        assert_eq!(inputs, [-1.0, 0.0, 1.0, 0.0, 3.0, 20.0]);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "these numbers are exact")]
    fn all_numbers_together_have_one_scale() {
        let mut inputs = [0.0, 2.0, 0.0, 2.0, 5.0, 1.0];
        Scaling::of(&inputs.to_vec().into(), 2, &[0, 1], false).apply(&mut inputs);
        assert_eq!(inputs, [-1.0, 1.0, -1.0, 1.0, 4.0, 0.0]);
        Scaling::none().apply(&mut inputs);
        assert_eq!(inputs, [-1.0, 1.0, -1.0, 1.0, 4.0, 0.0]);
    }
}
