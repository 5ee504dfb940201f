//! A confusion matrix and its scores, as defined by scikit-learn's functions of these names.

use sconce_plugin_api::prelude::*;

/// A classification score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Score {
    /// Fraction of correct predictions.
    Accuracy,
    /// Mean recall over the classes that occur among the targets.
    BalancedAccuracy,
    /// Fraction of the predictions of a class that are correct.
    Precision,
    /// Fraction of the targets of a class that are predicted as such.
    Recall,
    /// Harmonic mean of precision and recall.
    F1,
    /// Fraction of the targets of other classes that are not predicted as this class.
    Specificity,
    /// Jaccard index: correct predictions of a class relative to its targets and predictions together.
    Jaccard,
    /// Matthews correlation coefficient, from -1 to 1.
    Mcc,
    /// Cohen's kappa: agreement beyond chance, at most 1.
    Kappa,
    /// Area under the receiver operating characteristic, of each class against the others.
    RocAuc,
    /// Area under the curve of precision over recall, as average precision.
    PrAuc,
    /// Expected calibration error: how far the most probable class' probability is from its accuracy.
    CalibrationError,
}

impl Score {
    /// Returns the name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Score::Accuracy => "accuracy",
            Score::BalancedAccuracy => "balanced_accuracy",
            Score::Precision => "precision",
            Score::Recall => "recall",
            Score::F1 => "f1",
            Score::Specificity => "specificity",
            Score::Jaccard => "jaccard",
            Score::Mcc => "mcc",
            Score::Kappa => "kappa",
            Score::RocAuc => "roc_auc",
            Score::PrAuc => "pr_auc",
            Score::CalibrationError => "calibration_error",
        }
    }

    /// Returns whether the score is defined per class and so needs averaging.
    pub(crate) fn is_by_class(self) -> bool {
        use Score as S;
        matches!(
            self,
            S::Precision | S::Recall | S::F1 | S::Specificity | S::Jaccard | S::RocAuc | S::PrAuc
        )
    }

    /// Returns whether the score is computed from probabilities, not from the confusion matrix.
    pub(crate) fn is_of_probabilities(self) -> bool {
        use Score as S;
        matches!(self, S::RocAuc | S::PrAuc | S::CalibrationError)
    }
}

/// How the scores of classes are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Average {
    /// Mean over the classes that occur among targets or predictions.
    Macro,
    /// Score of all decisions together.
    Micro,
    /// Mean weighted by the number of targets of each class.
    Weighted,
    /// No averaging: one score per class.
    None,
}

impl Average {
    /// Returns the suffix of a score's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Average::Macro => "/macro",
            Average::Micro => "/micro",
            Average::Weighted => "/weighted",
            Average::None => "",
        }
    }
}

/// Confusion matrix of counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confusion {
    pub(crate) classes: usize,
    /// (targets, predictions), row-major.
    pub(crate) counts: Vec<u64>,
}

/// Counts of one class: true positives, false positives, false negatives and true negatives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Decisions {
    right: u64,
    false_alarms: u64,
    missed: u64,
    rejected: u64,
}

impl Decisions {
    /// Returns the score, or `otherwise` for a division by zero.
    fn score(self, score: Score, otherwise: f64) -> f64 {
        let (part, whole) = match score {
            Score::Precision => (self.right, self.right + self.false_alarms),
            Score::Recall => (self.right, self.right + self.missed),
            Score::Specificity => (self.rejected, self.rejected + self.false_alarms),
            Score::Jaccard => (self.right, self.right + self.false_alarms + self.missed),
            _ => (
                2 * self.right,
                2 * self.right + self.false_alarms + self.missed,
            ),
        };
        if whole == 0 {
            otherwise
        } else {
            part as f64 / whole as f64
        }
    }

    fn support(self) -> u64 {
        self.right + self.missed
    }

    fn occurs(self) -> bool {
        self.right + self.missed + self.false_alarms > 0
    }
}

impl Confusion {
    /// Counts a prediction; `target` and `prediction` are below `classes`.
    pub(crate) fn count(&mut self, classes: usize, target: usize, prediction: usize) {
        self.add(classes, target, prediction, 1);
    }

    /// Adds to the count of a cell; `target` and `prediction` are below `classes`.
    pub(crate) fn add(&mut self, classes: usize, target: usize, prediction: usize, more: u64) {
        if classes > self.classes {
            *self = self.grown(classes);
        }
        if let Some(count) = self.counts.get_mut(target * self.classes + prediction) {
            *count += more;
        }
    }

    /// Rejects a saved matrix that is not square or has larger counts than any run.
    pub(crate) fn check(&self) -> Result<()> {
        state::check_matrix("confusion", self.classes, &self.counts)
    }

    fn grown(&self, classes: usize) -> Confusion {
        let counts = (0..classes * classes).map(|index| self.at(index / classes, index % classes));
        Confusion {
            classes,
            counts: counts.collect(),
        }
    }

    /// Returns how often `prediction` was made for `target`.
    pub(crate) fn at(&self, target: usize, prediction: usize) -> u64 {
        if target >= self.classes || prediction >= self.classes {
            return 0;
        }
        self.counts
            .get(target * self.classes + prediction)
            .copied()
            .unwrap_or(0)
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn row_sum(&self, target: usize) -> u64 {
        (0..self.classes)
            .map(|prediction| self.at(target, prediction))
            .sum()
    }

    pub(crate) fn column_sum(&self, prediction: usize) -> u64 {
        (0..self.classes)
            .map(|target| self.at(target, prediction))
            .sum()
    }

    fn diagonal(&self) -> u64 {
        (0..self.classes).map(|class| self.at(class, class)).sum()
    }

    fn decisions(&self) -> Vec<Decisions> {
        let total = self.total();
        let of = |class: usize| {
            let right = self.at(class, class);
            let (row, column) = (self.row_sum(class), self.column_sum(class));
            Decisions {
                right,
                false_alarms: column - right,
                missed: row - right,
                rejected: total + right - row - column,
            }
        };
        (0..self.classes).map(of).collect()
    }

    /// Returns a score of all classes together, averaged if it is defined per class; `otherwise` replaces a
    /// division by zero.
    pub(crate) fn score(&self, score: Score, average: Average, otherwise: f64) -> f64 {
        let (total, right) = (self.total() as f64, self.diagonal() as f64);
        match score {
            _ if total == 0.0 => f64::NAN,
            Score::Accuracy => right / total,
            Score::BalancedAccuracy => {
                let decisions = self.decisions();
                let there = decisions.iter().filter(|class| class.support() > 0);
                mean(there.map(|class| class.score(Score::Recall, 0.0)))
            }
            Score::Mcc => self.correlation(),
            Score::Kappa => {
                let products = (0..self.classes)
                    .map(|class| self.row_sum(class) as f64 * self.column_sum(class) as f64);
                let by_chance = products.sum::<f64>() / (total * total);
                ratio(right / total - by_chance, 1.0 - by_chance, f64::NAN)
            }
            _ => self.averaged(score, average, otherwise),
        }
    }

    fn averaged(&self, score: Score, average: Average, otherwise: f64) -> f64 {
        let decisions = self.decisions();
        let occurring = || decisions.iter().filter(|class| class.occurs());
        match average {
            Average::Micro => {
                let sum = occurring().fold(Decisions::default(), |sum, class| Decisions {
                    right: sum.right + class.right,
                    false_alarms: sum.false_alarms + class.false_alarms,
                    missed: sum.missed + class.missed,
                    rejected: sum.rejected + class.rejected,
                });
                sum.score(score, otherwise)
            }
            Average::Weighted => {
                let weighted = decisions.iter();
                let weighted =
                    weighted.map(|class| class.support() as f64 * class.score(score, otherwise));
                weighted.sum::<f64>() / self.total() as f64
            }
            Average::Macro | Average::None => {
                mean(occurring().map(|class| class.score(score, otherwise)))
            }
        }
    }

    /// Returns the score of each class.
    pub(crate) fn by_class(&self, score: Score, otherwise: f64) -> Vec<f64> {
        let decisions = self.decisions();
        decisions
            .iter()
            .map(|class| class.score(score, otherwise))
            .collect()
    }

    /// Computes Gorodkin's form for several classes. ("Comparing two K-category assignments by a K-category
    /// correlation coefficient", 2004.) It is 0 if all targets or all predictions are of one class.
    fn correlation(&self) -> f64 {
        let (total, right) = (self.total() as f64, self.diagonal() as f64);
        let sums = (0..self.classes)
            .map(|class| (self.row_sum(class) as f64, self.column_sum(class) as f64));
        let (mut rows, mut columns, mut both) = (0.0, 0.0, 0.0);
        for (row, column) in sums {
            rows += row * row;
            columns += column * column;
            both += row * column;
        }
        let spread = ((total * total - columns) * (total * total - rows)).sqrt();
        ratio(right * total - both, spread, 0.0)
    }
}

fn ratio(part: f64, whole: f64, otherwise: f64) -> f64 {
    if whole == 0.0 {
        otherwise
    } else {
        part / whole
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for value in values {
        sum += value;
        count += 1;
    }
    sum / f64::from(count)
}

#[cfg(test)]
mod tests;
