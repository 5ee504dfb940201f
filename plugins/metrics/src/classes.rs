//! Outputs and targets of a classification, converted from tensors to classes.

use sconce_plugin_api::moment::HasBatch;
use sconce_plugin_api::prelude::*;

use crate::numbers;
use crate::variables::Variable;

/// A classification batch: scores (rows, classes), with one row per sample or per position of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Classified {
    /// Row-major.
    pub(crate) scores: Vec<f64>,
    /// Number of scores per row.
    pub(crate) width: usize,
    pub(crate) targets: Vec<f64>,
    /// Predicted classes.
    pub(crate) predictions: Vec<usize>,
    /// Number of rows per sample; 1 except for sequences.
    pub(crate) positions: usize,
}

impl Classified {
    /// Reads a batch. With one output per target the output is a logit of yes (1) against no (0), and yes
    /// is predicted above `threshold`; otherwise the class with the highest score is predicted, the first
    /// of equal ones.
    ///
    /// # Errors
    ///
    /// If the shapes of outputs and targets do not match: (…, classes) and (…), or (…) for both.
    #[track_caller]
    pub(crate) fn read(
        &mut self,
        outputs: &Tensor<'_>,
        targets: &Tensor<'_>,
        threshold: f64,
    ) -> Result<()> {
        self.scores.clear();
        self.targets.clear();
        self.predictions.clear();
        let (of_outputs, of_targets) = (outputs.shape(), targets.shape());
        self.width = match of_outputs.split_last() {
            Some((&classes, places)) if places == of_targets && classes > 0 => classes as usize,
            _ if of_outputs == of_targets => 1,
            _ => bail!(
                "`{}` of the shape {of_outputs:?} are not scores of classes for `{}` of the shape \
                 {of_targets:?}: (…, classes) and (…) are needed, or (…) for both",
                outputs.name(),
                targets.name()
            ),
        };
        self.positions = of_targets.iter().skip(1).product::<i64>() as usize;
        numbers::add(outputs, &mut self.scores)?;
        numbers::add(targets, &mut self.targets)?;
        let rows = self.scores.chunks(self.width.max(1));
        if self.width == 1 {
            let yes = |row: &[f64]| row.first().is_some_and(|logit| *logit > threshold);
            self.predictions
                .extend(rows.map(|row| usize::from(yes(row))));
        } else {
            self.predictions.extend(rows.map(highest));
        }
        Ok(())
    }

    /// Reads the batch of a task, as [`read`](Classified::read) does.
    #[track_caller]
    pub(crate) fn read_from(
        &mut self,
        outputs: &mut Variable,
        targets: &mut Variable,
        task: &At<'_, impl HasBatch>,
        threshold: f64,
    ) -> Result<()> {
        let (Some(outputs), Some(targets)) = (outputs.tensor(task)?, targets.tensor(task)?) else {
            bail!("`{}` and `{}` must be tensors", outputs.name, targets.name);
        };
        self.read(&outputs, &targets, threshold)
    }

    /// Returns the number of classes.
    pub(crate) fn classes(&self) -> usize {
        self.width.max(2)
    }

    /// Returns the scores of a row.
    pub(crate) fn row(&self, place: usize) -> &[f64] {
        let range = place * self.width..(place + 1) * self.width;
        self.scores.get(range).unwrap_or_default()
    }

    /// Returns the true class of a row.
    ///
    /// # Errors
    ///
    /// If the target is not a class.
    #[track_caller]
    pub(crate) fn target(&self, place: usize) -> Result<usize> {
        let target = self.targets.get(place).copied().unwrap_or(f64::NAN);
        let classes = self.classes();
        if target.fract() == 0.0 && (0.0..classes as f64).contains(&target) {
            return Ok(target as usize);
        }
        bail!(
            "the target {target} is not one of the {classes} classes; name it in `ignore_index` where \
             it stands for no class"
        )
    }
}

/// Which rows of a batch are counted.
#[derive(Debug)]
pub(crate) struct Shown {
    mask: Option<Variable>,
    ignore_index: Option<f64>,
    /// Mask of the current batch; empty without a mask.
    values: Vec<f64>,
}

impl Shown {
    /// Counts the rows at which the variable `mask` is not 0 and whose target differs from `ignore_index`.
    pub(crate) fn new(mask: Option<&str>, ignore_index: Option<i64>) -> Shown {
        Shown {
            mask: mask.map(Variable::new),
            ignore_index: ignore_index.map(|index| index as f64),
            values: Vec::new(),
        }
    }

    /// Reads the mask of a batch with `places` rows.
    #[track_caller]
    pub(crate) fn read(&mut self, task: &At<'_, impl HasBatch>, places: usize) -> Result<()> {
        let Some(mask) = &mut self.mask else {
            return Ok(());
        };
        mask.read(task, &mut self.values)?;
        if self.values.len() != places {
            bail!(
                "the mask `{}` has {} values for {places} targets",
                mask.name,
                self.values.len()
            );
        }
        Ok(())
    }

    /// Returns whether a row of the batch is counted.
    pub(crate) fn has(&self, place: usize, batch: &Classified) -> bool {
        let is_masked = self.values.get(place) == Some(&0.0);
        !is_masked
            && (self.ignore_index.is_none()
                || self.ignore_index.as_ref() != batch.targets.get(place))
    }
}

/// Returns the index of the highest score, the first of equal ones; NaN is never the highest.
pub(crate) fn highest(scores: &[f64]) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, &score) in scores.iter().enumerate() {
        if score > best.1 {
            best = (index, score);
        }
    }
    best.0
}

/// Returns whether `class` is among the `k` highest scores: fewer than `k` are higher, or equal and before
/// it.
pub(crate) fn is_among(scores: &[f64], class: usize, k: usize) -> bool {
    let Some(&own) = scores.get(class) else {
        return false;
    };
    if own.is_nan() {
        return false;
    }
    let better = scores.iter().enumerate();
    let better =
        better.filter(|(index, score)| **score > own || (*index < class && **score >= own));
    better.count() < k
}

/// Computes probabilities from logits; the highest logit is subtracted first to avoid overflow.
pub(crate) fn softmax(logits: &[f64], shares: &mut Vec<f64>) {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    shares.clear();
    shares.extend(logits.iter().map(|logit| (logit - most).exp()));
    let sum: f64 = shares.iter().sum();
    for share in shares {
        *share /= sum;
    }
}

/// Returns the probability of yes.
pub(crate) fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// Returns the names of `count` classes: the given ones if their number matches, otherwise the classes'
/// numbers.
pub(crate) fn names(given: &[String], count: usize) -> Vec<String> {
    if given.len() == count {
        return given.to_vec();
    }
    (0..count).map(|class| class.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_scores_the_first_is_the_highest() {
        assert_eq!(highest(&[1.0, 3.0, 3.0, 2.0]), 1);
        assert_eq!(highest(&[f64::NAN, -1.0, f64::NEG_INFINITY]), 1);
        let scores = [0.5, 0.2, 0.5, f64::NAN];
        let among = |class, k| is_among(&scores, class, k);
        assert!(among(0, 1) && !among(2, 1) && among(2, 2) && !among(1, 2) && among(1, 3));
        assert!(!among(3, 4) && !among(7, 4), "not a number, and no class");
    }

    #[test]
    fn logits_become_shares_without_overflow() {
        let mut shares = Vec::new();
        softmax(&[1000.0, 1000.0, f64::NEG_INFINITY], &mut shares);
        assert_eq!(shares, [0.5, 0.5, 0.0]);
        softmax(&[0.0, 3.0_f64.ln()], &mut shares);
        assert!((shares[1] - 0.75).abs() < 1e-12);
        assert!((sigmoid(3.0_f64.ln()) - 0.75).abs() < 1e-12);
    }
}
