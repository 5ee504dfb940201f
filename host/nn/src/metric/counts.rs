//! Metrics from counts of actual and predicted classes: precision, recall, F1, and the confusion matrix.
//!
//! They match scikit-learn's with `zero_division=0`. `macro` is the mean over the classes that occur
//! among targets or predictions; `micro` adds up the counts of all classes.

use candle_core::{Result, Tensor};

use super::{Average, Metric, add_to, classified, rows};

/// Counts of one class.
#[derive(Clone, Copy, Default)]
struct Counts {
    /// Rows of this class that were predicted as it: true positives.
    hits: f64,
    /// Rows that were predicted as this class.
    predicted: f64,
    /// Rows of this class.
    actual: f64,
}

/// Common part of precision, recall and F1: for each class the sums of its [`Counts`].
#[derive(Clone, Debug)]
struct PerClass {
    name: &'static str,
    classes: usize,
    average: Average,
    ignore_index: Option<u32>,
}

impl PerClass {
    fn names(&self) -> Vec<String> {
        let suffix = match self.average {
            Average::Macro => "",
            Average::Micro => "_micro",
        };
        vec![format!("{}{suffix}", self.name)]
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        let rows = rows(outputs, targets, self.ignore_index)?;
        for (target, predicted) in classified(&rows, self.classes)? {
            if target == predicted {
                add_to(sums, 3 * target, 1.0);
            }
            add_to(sums, 3 * predicted + 1, 1.0);
            add_to(sums, 3 * target + 2, 1.0);
        }
        Ok(())
    }

    /// Writes the average of `of`, a function of a class's counts.
    fn values(&self, sums: &[f64], values: &mut [f64], of: impl Fn(Counts) -> f64) {
        let classes = sums.chunks_exact(3).map(|sums| match sums {
            &[hits, predicted, actual] => Counts {
                hits,
                predicted,
                actual,
            },
            _ => Counts::default(),
        });
        let occur = classes.filter(|counts| counts.predicted + counts.actual > 0.0);
        let Some(value) = values.first_mut() else {
            return;
        };
        *value = match self.average {
            Average::Macro => {
                let shares: Vec<f64> = occur.map(of).collect();
                shares.iter().sum::<f64>() / shares.len() as f64
            }
            Average::Micro => {
                let mut all = Counts::default();
                for counts in occur {
                    all.hits += counts.hits;
                    all.predicted += counts.predicted;
                    all.actual += counts.actual;
                }
                if all.actual > 0.0 { of(all) } else { f64::NAN }
            }
        };
    }
}

/// Returns the ratio, 0 if the denominator is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

macro_rules! per_class {
    ($(#[$doc:meta])* $Metric:ident, $name:literal, |$counts:ident| $share:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $Metric(PerClass);

        impl $Metric {
            /// Creates the metric for this many classes; targets equal to `ignore_index` do not count.
            pub fn new(classes: usize, average: Average, ignore_index: Option<u32>) -> $Metric {
                $Metric(PerClass {
                    name: $name,
                    classes,
                    average,
                    ignore_index,
                })
            }
        }

        impl Metric for $Metric {
            fn names(&self) -> Vec<String> {
                self.0.names()
            }

            fn sum_count(&self) -> usize {
                3 * self.0.classes
            }

            fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
                self.0.add(outputs, targets, sums)
            }

            fn values(&self, sums: &[f64], values: &mut [f64]) {
                self.0.values(sums, values, |$counts| $share);
            }
        }
    };
}

per_class! {
    /// Fraction of the predictions of a class that are correct.
    Precision, "precision", |counts| share(counts.hits, counts.predicted)
}

per_class! {
    /// Fraction of a class's samples that are predicted as that class.
    Recall, "recall", |counts| share(counts.hits, counts.actual)
}

per_class! {
    /// Harmonic mean of precision and recall; `macro` is the mean of the classes' F1.
    F1, "f1", |counts| share(2.0 * counts.hits, counts.predicted + counts.actual)
}

/// How many rows of each class were predicted as each class: `confusion/ACTUAL/PREDICTED`; 0 if no
/// rows counted.
#[derive(Clone, Debug)]
pub struct ConfusionMatrix {
    classes: Vec<String>,
    ignore_index: Option<u32>,
}

impl ConfusionMatrix {
    /// Largest number of classes for which a confusion matrix is allowed.
    pub const MOST_CLASSES: usize = 32;

    /// Creates the metric for classes of these names; targets equal to `ignore_index` do not count.
    pub fn new(classes: Vec<String>, ignore_index: Option<u32>) -> ConfusionMatrix {
        ConfusionMatrix {
            classes,
            ignore_index,
        }
    }
}

impl Metric for ConfusionMatrix {
    fn names(&self) -> Vec<String> {
        let row = |actual: &String| {
            let cell = move |predicted: &String| (actual.clone(), predicted.clone());
            self.classes.iter().map(cell).collect::<Vec<_>>()
        };
        let cells = self.classes.iter().flat_map(row);
        let name =
            |(actual, predicted): (String, String)| format!("confusion/{actual}/{predicted}");
        cells.map(name).collect()
    }

    fn sum_count(&self) -> usize {
        self.classes.len() * self.classes.len()
    }

    fn add(&self, outputs: &Tensor, targets: &Tensor, sums: &mut [f64]) -> Result<()> {
        let rows = rows(outputs, targets, self.ignore_index)?;
        for (target, predicted) in classified(&rows, self.classes.len())? {
            add_to(sums, target * self.classes.len() + predicted, 1.0);
        }
        Ok(())
    }

    fn values(&self, sums: &[f64], values: &mut [f64]) {
        for (value, sum) in values.iter_mut().zip(sums) {
            *value = *sum;
        }
    }
}
