//! A numeric column: one input.

use serde::{Deserialize, Serialize};

use super::encoding_problem::EncodingProblem;
use super::far::{FAR, Far};
use crate::numbers::csv::table::scan::{Missing, Scan, number};
use crate::numbers::csv::{CsvConfig, OnMissing};
use sconce_base::exact::Exact;
use sconce_nn::onnx::{Dimension, ElementType, Graph, Value};

/// Encodes numbers as one input: (number − mean) / deviation, or the number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberColumn {
    /// Name of the column.
    pub name: String,
    /// Mean of the training rows.
    pub mean: Exact,
    /// (Population) standard deviation of the training rows, or 1 if all are equal.
    pub deviation: Exact,
    /// Whether numbers are standardised.
    #[serde(rename = "standardised")]
    pub is_standardised: bool,
    /// Replacement for a missing number; none if that is an error.
    pub missing: Option<Exact>,
    /// Smallest and largest number of the training rows.
    pub seen: [Exact; 2],
    /// Number of training rows with a number.
    pub rows: usize,
}

impl NumberColumn {
    pub(in crate::numbers::csv) fn fit(
        name: String,
        scan: &Scan<'_>,
        config: &CsvConfig,
    ) -> NumberColumn {
        let mean = scan.mean();
        let missing = match config.on_missing {
            OnMissing::Mean => Some(mean),
            OnMissing::MostFrequent => {
                let most_frequent = scan.most_frequent();
                Some(most_frequent.and_then(number).unwrap_or(mean))
            }
            OnMissing::Drop | OnMissing::Error => None,
        };
        let seen = if scan.numbers == 0 {
            [mean, mean]
        } else {
            [scan.min, scan.max]
        };
        let numbers = scan.counts().iter();
        let numbers = numbers.filter_map(|(text, count)| Some((number(text)?, count)));
        NumberColumn {
            name,
            mean: Exact(mean),
            deviation: Exact(deviation(numbers, mean, seen)),
            is_standardised: config.standardise,
            missing: missing.map(Exact),
            seen: seen.map(Exact),
            rows: scan.numbers,
        }
    }

    /// Appends the input for a text.
    pub(in crate::numbers::csv) fn encode(
        &self,
        text: &str,
        is_missing: &Missing,
        inputs: &mut Vec<f32>,
    ) -> Result<Option<Far>, EncodingProblem> {
        let number = if is_missing.is(text) {
            self.missing.ok_or(EncodingProblem::Missing)?.0
        } else {
            number(text).ok_or(EncodingProblem::NotANumber)?
        };
        inputs.push(if self.is_standardised {
            ((number - self.mean.0) / self.deviation.0) as f32
        } else {
            number as f32
        });
        let seen = self.seen.map(|seen| seen.0);
        let is_far = self.rows > 0 && is_far(number, seen, self.deviation.0);
        Ok(is_far.then_some(Far::Number(number, seen)))
    }

    /// Its input in a graph of ONNX: numbers (samples, 1), not-a-number where one is missing.
    pub(in crate::numbers::csv) fn onnx(&self, graph: &mut Graph) -> Value {
        let shape = [Dimension::Free("batch"), Dimension::Fixed(1)];
        let mut x = graph.input(&self.name, ElementType::Double, &shape);
        if let Some(missing) = self.missing {
            let is_missing = graph.node("IsNaN", &[&x], &[]);
            let missing = graph.double(missing.0);
            x = graph.node("Where", &[&is_missing, &missing, &x], &[]);
        }
        if self.is_standardised {
            graph.standardised(&x, &[(self.mean.0, self.deviation.0)], &[1, 1])
        } else {
            graph.cast(&x, ElementType::Float)
        }
    }

    /// Checks what was read from a file.
    pub(in crate::numbers::csv) fn check(&self) -> Result<(), String> {
        check_statistics(&self.name, self.mean, self.deviation, &self.seen)?;
        if self.missing.is_some_and(|missing| !missing.0.is_finite()) {
            return Err(not_finite(&self.name));
        }
        Ok(())
    }
}

/// Whether a number is further from those that were seen than [`FAR`] standard deviations.
pub(in crate::numbers::csv) fn is_far(
    number: f64,
    [least, most]: [f64; 2],
    deviation: f64,
) -> bool {
    (least - number).max(number - most) > FAR * deviation
}

/// Returns the population standard deviation of numbers that occur several times each, or 1 if all are equal. The sum
/// runs in their order, which must not depend on that of the rows.
pub(in crate::numbers::csv) fn deviation(
    numbers: impl Iterator<Item = (f64, usize)>,
    mean: f64,
    [min, max]: [f64; 2],
) -> f64 {
    if min >= max {
        return 1.0;
    }
    let mut total = 0;
    let squares = numbers.map(|(number, count)| {
        total += count;
        let distance = number - mean;
        count as f64 * distance * distance
    });
    let sum: f64 = squares.sum();
    (sum / total as f64).sqrt()
}

/// Checks statistics read from a file.
pub(in crate::numbers::csv) fn check_statistics(
    name: &str,
    mean: Exact,
    deviation: Exact,
    seen: &[Exact; 2],
) -> Result<(), String> {
    let mut numbers = [mean, deviation].into_iter().chain(*seen);
    if !numbers.all(|number| number.0.is_finite()) {
        return Err(not_finite(name));
    }
    if deviation.0 <= 0.0 {
        return Err(format!(
            "the deviation of the column `{name}` must be above 0"
        ));
    }
    Ok(())
}

fn not_finite(name: &str) -> String {
    format!("the column `{name}` has a number that is not finite")
}
