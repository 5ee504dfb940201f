//! Confusion matrices: how often each class was predicted as which.

use sconce_plugin_api::moment::HasOutputs;
use sconce_plugin_api::tensor::DType;
use sconce_plugin_api::{At, Result, state};
use serde::{Deserialize, Serialize};

/// Counts by true class (rows) and predicted class (columns).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Matrix {
    pub(crate) classes: usize,
    pub(crate) counts: Vec<u64>,
}

impl Matrix {
    /// Rejects a state's matrix that is not square, or whose counts exceed those of any run.
    pub(crate) fn check(&self) -> Result<()> {
        state::check_matrix("matrices", self.classes, &self.counts)
    }

    /// Counts the current batch if it is a classification: its outputs have scores for at most
    /// `most` classes, and its targets are class indices. Returns whether that is so.
    pub(crate) fn add(&mut self, task: &At<'_, impl HasOutputs>, most: usize) -> Result<bool> {
        let (Ok(outputs), Ok(targets)) = (task.outputs(), task.targets()) else {
            return Ok(false);
        };
        let &[samples, classes] = outputs.shape() else {
            return Ok(false);
        };
        let classes = usize::try_from(classes).unwrap_or(0);
        let fits = targets.shape() == [samples] && (2..=most).contains(&classes);
        if !fits || outputs.dtype() != Some(DType::F32) {
            return Ok(false);
        }
        if self.classes != classes {
            *self = Matrix {
                classes,
                counts: vec![0; classes * classes],
            };
        }
        let outputs = outputs.to_contiguous::<f32>()?;
        let rows = outputs.chunks_exact(classes);
        match targets.dtype() {
            Some(DType::U32) => {
                for (row, target) in rows.zip(targets.elements::<u32>()?) {
                    self.count(row, target as usize);
                }
            }
            Some(DType::I64) => {
                for (row, target) in rows.zip(targets.elements::<i64>()?) {
                    // Samples ignored by the loss have a negative index.
                    self.count(row, usize::try_from(target).unwrap_or(usize::MAX));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Counts a sample. Of equal scores the first is the prediction.
    fn count(&mut self, row: &[f32], target: usize) {
        let mut best = 0;
        let mut most = f32::NEG_INFINITY;
        for (class, value) in row.iter().enumerate() {
            if *value > most {
                (best, most) = (class, *value);
            }
        }
        if target < self.classes
            && let Some(count) = self.counts.get_mut(target * self.classes + best)
        {
            *count += 1;
        }
    }

    /// Number of samples.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Number of correctly classified samples.
    pub(crate) fn right(&self) -> u64 {
        let diagonal = self.counts.iter().step_by(self.classes + 1);
        diagonal.sum()
    }

    /// The pairs of true and predicted class that are confused most often, with their counts; at
    /// most five.
    pub(crate) fn mistakes(&self) -> Vec<(usize, usize, u64)> {
        let cells = self.counts.iter().enumerate();
        let mut wrong: Vec<(usize, usize, u64)> = cells
            .map(|(index, count)| {
                (
                    index / self.classes.max(1),
                    index % self.classes.max(1),
                    *count,
                )
            })
            .filter(|(target, found, count)| target != found && *count > 0)
            .collect();
        wrong.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
        wrong.truncate(5);
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counted_by_their_class_and_the_first_largest_output() {
        let mut matrix = Matrix {
            classes: 2,
            counts: vec![0; 4],
        };
        for (row, target) in [
            ([0.1, 0.9], 1),
            ([0.5, 0.5], 1),
            ([0.9, 0.1], 0),
            ([0.9, 0.1], 7),
            ([f32::NAN, 0.1], 0),
        ] {
            matrix.count(&row, target);
        }
        assert_eq!(matrix.counts, [1, 1, 1, 1]);
        assert_eq!((matrix.total(), matrix.right()), (4, 2));
        assert_eq!(matrix.mistakes(), [(0, 1, 1), (1, 0, 1)]);
    }
}
