//! Scores of the probabilities themselves rather than of the decisions made from them: areas under curves, and how well
//! probabilities are calibrated.

use sconce_plugin_api::prelude::*;

use super::scores::{Average, Score};
use crate::classes::{Classified, sigmoid, softmax};

/// Number of bins of the calibration error, of equal width.
const BINS: usize = 15;

/// The probabilities of a pass, with the true classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Probabilities {
    /// Probabilities per row: one, that of yes, where yes and no have one output; 0 without rows.
    width: usize,
    /// (rows, width), row-major.
    values: Vec<f64>,
    targets: Vec<usize>,
}

/// A probability of a class, and whether the class is the true one.
type Judged = (f64, bool);

impl Probabilities {
    /// Adds a row of a batch; `shares` is scratch space.
    ///
    /// # Errors
    ///
    /// If the row has another number of outputs than those before it, which may come from a state.
    pub(crate) fn push(
        &mut self,
        batch: &Classified,
        place: usize,
        target: usize,
        shares: &mut Vec<f64>,
    ) -> Result<()> {
        self.expect_width(batch.width)?;
        match batch.row(place) {
            [logit] => self.values.push(sigmoid(*logit)),
            row => {
                softmax(row, shares);
                self.values.extend_from_slice(shares);
            }
        }
        self.targets.push(target);
        Ok(())
    }

    /// Adds the rows of others, such as another rank's.
    ///
    /// # Errors
    ///
    /// As for [`push`](Probabilities::push).
    pub(crate) fn extend(&mut self, others: &Probabilities) -> Result<()> {
        if others.targets.is_empty() {
            return Ok(());
        }
        self.expect_width(others.width)?;
        self.values.extend_from_slice(&others.values);
        self.targets.extend_from_slice(&others.targets);
        Ok(())
    }

    fn expect_width(&mut self, width: usize) -> Result<()> {
        if self.targets.is_empty() {
            self.width = width;
        }
        if self.width != width {
            bail!(
                "this pass had {} outputs for each target before, and has {width} now",
                self.width
            );
        }
        Ok(())
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Rejects states that no pass saves.
    pub(crate) fn check(&self) -> Result<()> {
        let classes = self.width.max(2);
        // The width is a loop's bound: without rows it would be any number.
        let is_whole = self.targets.len().checked_mul(self.width) == Some(self.values.len())
            && self.targets.is_empty() == (self.width == 0);
        if !is_whole || self.targets.iter().any(|target| *target >= classes) {
            bail!("the state has probabilities that are not those of its targets");
        }
        Ok(())
    }

    /// The score of all classes together, averaged if it is defined per class; `None` where it is undefined: no class
    /// has targets and others are there too.
    pub(crate) fn score(&self, score: Score, average: Average) -> Option<f64> {
        if score == Score::CalibrationError {
            return self.calibration_error();
        }
        if self.width <= 2 {
            // Of two classes the second is what is looked for.
            return area(score, self.of_class(1));
        }
        match average {
            Average::Micro => {
                let all = (0..self.width).flat_map(|class| self.of_class(class));
                area(score, all.collect())
            }
            Average::Macro | Average::Weighted | Average::None => {
                let (mut sum, mut weights) = (0.0, 0.0);
                for (class, value) in self.by_class(score).into_iter().enumerate() {
                    let Some(value) = value else { continue };
                    let support = || self.targets.iter().filter(|target| **target == class);
                    let weight = match average {
                        Average::Weighted => support().count() as f64,
                        _ => 1.0,
                    };
                    sum += weight * value;
                    weights += weight;
                }
                (weights > 0.0).then(|| sum / weights)
            }
        }
    }

    /// The score of each class against all others; `None` where it is undefined.
    pub(crate) fn by_class(&self, score: Score) -> Vec<Option<f64>> {
        let classes = 0..self.width.max(2);
        classes
            .map(|class| area(score, self.of_class(class)))
            .collect()
    }

    /// All rows, judged by one class.
    fn of_class(&self, class: usize) -> Vec<Judged> {
        let rows = self.values.chunks(self.width.max(1)).zip(&self.targets);
        let judged = rows.map(|(row, &target)| {
            let probability = match (row, class) {
                ([yes], 0) => 1.0 - yes,
                ([yes], _) => *yes,
                (row, class) => row.get(class).copied().unwrap_or(f64::NAN),
            };
            (probability, target == class)
        });
        judged.collect()
    }

    /// Expected calibration error of the most probable class (Guo et al., "On Calibration of Modern Neural Networks",
    /// 2017): the mean difference between confidence and accuracy over 15 bins of equal width, weighted by their rows.
    fn calibration_error(&self) -> Option<f64> {
        let rows = self.values.chunks(self.width.max(1)).zip(&self.targets);
        let mut judged: Vec<Judged> = rows
            .map(|(row, &target)| match *row {
                [yes] if yes > 0.5 => (yes, target == 1),
                [yes] => (1.0 - yes, target == 0),
                _ => {
                    let class = crate::classes::highest(row);
                    (row.get(class).copied().unwrap_or(f64::NAN), class == target)
                }
            })
            .collect();
        if judged.iter().any(|(confidence, _)| confidence.is_nan()) {
            return Some(f64::NAN);
        }
        // Sums don't depend on the order of the rows.
        judged.sort_by(|one, other| one.0.total_cmp(&other.0));
        let bin =
            |(confidence, _): &Judged| ((confidence * BINS as f64).ceil() as usize).clamp(1, BINS);
        let total = judged.len() as f64;
        let bins = judged.chunk_by(|one, other| bin(one) == bin(other));
        let differences = bins.map(|rows| {
            let confidence: f64 = rows.iter().map(|(confidence, _)| confidence).sum();
            let right = rows.iter().filter(|(_, is_right)| *is_right).count() as f64;
            (confidence - right).abs()
        });
        (total > 0.0).then(|| differences.sum::<f64>() / total)
    }
}

/// An area under a curve; `None` if all rows or none are of the class.
fn area(score: Score, mut judged: Vec<Judged>) -> Option<f64> {
    let positives = judged.iter().filter(|(_, is_it)| *is_it).count();
    let negatives = judged.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    if judged.iter().any(|(probability, _)| probability.is_nan()) {
        return Some(f64::NAN);
    }
    judged.sort_by(|one, other| other.0.total_cmp(&one.0));
    let thresholds = judged
        .chunk_by(|one, other| one.0.total_cmp(&other.0).is_eq())
        .map(|equal| {
            let right = equal.iter().filter(|(_, is_it)| *is_it).count();
            (right, equal.len() - right)
        });
    Some(match score {
        Score::PrAuc => average_precision(thresholds, positives),
        _ => roc_area(thresholds, positives, negatives),
    })
}

/// Area under the receiver operating characteristic: how often a row of the class has a higher probability than one of
/// another, where equal ones count half (Hanley and `McNeil`, 1982).
fn roc_area(
    thresholds: impl Iterator<Item = (usize, usize)>,
    positives: usize,
    negatives: usize,
) -> f64 {
    let (mut twice, mut above) = (0_u128, 0);
    for (right, wrong) in thresholds {
        let below = negatives - above - wrong;
        twice += right as u128 * (2 * below + wrong) as u128;
        above += wrong;
    }
    twice as f64 / 2.0 / (positives as f64 * negatives as f64)
}

/// Area under the curve of precision over recall as a sum of steps, scikit-learn's `average_precision_score`.
fn average_precision(thresholds: impl Iterator<Item = (usize, usize)>, positives: usize) -> f64 {
    let (mut found, mut seen, mut sum) = (0, 0, 0.0);
    for (right, wrong) in thresholds {
        found += right;
        seen += right + wrong;
        sum += right as f64 * (found as f64 / seen as f64);
    }
    sum / positives as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: Option<f64>, expected: f64) {
        let value = value.expect("it is defined");
        assert!((value - expected).abs() < 1e-12, "{value} {expected}");
    }

    // Expected values are those of scikit-learn 1.9, calibration's of a loop in NumPy.

    #[test]
    fn two_classes_with_one_output() {
        let found = Probabilities {
            width: 1,
            values: vec![0.1, 0.4, 0.35, 0.8, 0.4, 0.9, 0.05, 0.4],
            targets: vec![0, 0, 1, 1, 1, 1, 0, 1],
        };
        close(
            found.score(Score::RocAuc, Average::Macro),
            0.866_666_666_666_666_7,
        );
        close(
            found.score(Score::PrAuc, Average::Macro),
            0.886_666_666_666_666_7,
        );
        let by_class = found.by_class(Score::PrAuc);
        close(by_class[0], 0.833_333_333_333_333_3);
        close(found.score(Score::CalibrationError, Average::Macro), 0.2375);
        // Two outputs say the same.
        let rows = found.values.iter().flat_map(|yes| [1.0 - yes, *yes]);
        let both = Probabilities {
            width: 2,
            values: rows.collect(),
            targets: found.targets.clone(),
        };
        for score in [Score::RocAuc, Score::PrAuc, Score::CalibrationError] {
            let expected = found.score(score, Average::Macro).expect("defined");
            close(both.score(score, Average::Macro), expected);
        }
    }

    #[test]
    fn three_classes() {
        let found = Probabilities {
            width: 3,
            values: vec![
                0.5, 0.25, 0.25, 0.25, 0.5, 0.25, 0.1, 0.3, 0.6, 0.4, 0.35, 0.25, 0.2, 0.3, 0.5,
                0.7, 0.2, 0.1, 0.3, 0.4, 0.3, 0.05, 0.9, 0.05,
            ],
            targets: vec![0, 1, 2, 2, 1, 0, 0, 1],
        };
        for (score, average, expected) in [
            (Score::RocAuc, Average::Macro, 0.838_888_888_888_888_9),
            (Score::RocAuc, Average::Micro, 0.851_562_5),
            (Score::RocAuc, Average::Weighted, 0.85),
            (Score::PrAuc, Average::Macro, 0.805_555_555_555_555_5),
            (Score::PrAuc, Average::Micro, 0.773_504_273_504_273_5),
            (Score::PrAuc, Average::Weighted, 0.822_916_666_666_666_6),
        ] {
            close(found.score(score, average), expected);
        }
        close(found.score(Score::CalibrationError, Average::Macro), 0.2625);
    }

    #[test]
    fn what_is_undefined_is_no_number() {
        let found = Probabilities {
            width: 1,
            values: vec![0.5, 0.7],
            targets: vec![1, 1],
        };
        assert_eq!(found.score(Score::RocAuc, Average::Macro), None);
        assert_eq!(
            Probabilities::default().score(Score::CalibrationError, Average::Macro),
            None
        );
        let diverged = Probabilities {
            values: vec![0.5, f64::NAN],
            targets: vec![0, 1],
            ..found
        };
        let value = diverged.score(Score::RocAuc, Average::Macro);
        assert!(value.is_some_and(f64::is_nan));
        assert!(diverged.check().is_ok() && Probabilities::default().check().is_ok());
        let wrong_class = Probabilities {
            targets: vec![0, 7],
            ..diverged
        };
        assert!(wrong_class.check().is_err());
        // Nothing that a state says is a loop's bound.
        let no_rows = Probabilities {
            width: usize::MAX,
            ..Probabilities::default()
        };
        assert!(no_rows.check().is_err());
        let mut of_two = Probabilities {
            width: 2,
            values: vec![0.5; 2],
            targets: vec![0],
        };
        assert!(of_two.extend(&wrong_class).is_err());
        assert!(of_two.extend(&Probabilities::default()).is_ok());
    }
}
