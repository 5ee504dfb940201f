//! Statistics of values that arrive in batches.
//!
//! Means and variances of batches are combined by the formula of Chan, Golub and `LeVeque` ("Updating
//! formulae and a pairwise algorithm for computing sample variances", 1979), so that no digits are lost
//! when the mean is large. Each statistic matches NumPy's function of the same name.

use sconce_plugin_api::prelude::*;

/// A statistic of a set of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Aggregate {
    /// Mean.
    Mean,
    /// Population standard deviation (divided by the count), not an estimate from a sample.
    Std,
    /// Population variance.
    Var,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Median; with an even count the mean of the two middle values. Keeps all values until the pass ends,
    /// at 8 bytes each.
    Median,
    /// Sum.
    Sum,
    /// Number of NaN values.
    NanCount,
    /// Fraction of NaN values, from 0 to 1.
    NanFraction,
}

impl Aggregate {
    /// Returns the name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Aggregate::Mean => "mean",
            Aggregate::Std => "std",
            Aggregate::Var => "var",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
            Aggregate::Median => "median",
            Aggregate::Sum => "sum",
            Aggregate::NanCount => "nan_count",
            Aggregate::NanFraction => "nan_fraction",
        }
    }
}

/// Accumulated statistics.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Saved", try_from = "Saved")]
pub(crate) struct Statistics {
    count: u64,
    nan_count: u64,
    sum: f64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
    min: f64,
    max: f64,
    /// All values, if the median is needed.
    values: Vec<f64>,
}

/// Serialised form in a checkpoint: bits of the floats, as JSON has neither infinity nor NaN.
#[derive(Serialize, Deserialize)]
struct Saved {
    counts: [u64; 2],
    numbers: [u64; 5],
    values: Vec<u64>,
}

impl Statistics {
    /// Adds values, keeping them for the median if `keeps`. NaN values are counted and, with `skip`, left
    /// out of everything else.
    pub(crate) fn add(&mut self, values: &[f64], skip: bool, keeps: bool) {
        self.merge(&Statistics::of_batch(values, skip));
        if keeps {
            let is_used = |value: &f64| !(skip && value.is_nan());
            self.values.extend(values.iter().copied().filter(is_used));
        }
    }

    /// Statistics of the values of one batch, which are not kept.
    fn of_batch(values: &[f64], skip: bool) -> Statistics {
        let not_numbers = values.iter().filter(|value| value.is_nan()).count() as u64;
        let used = || {
            values
                .iter()
                .copied()
                .filter(|value| !(skip && value.is_nan()))
        };
        let count = values.len() as u64 - if skip { not_numbers } else { 0 };
        let nothing = Statistics {
            nan_count: not_numbers,
            ..Statistics::default()
        };
        if count == 0 {
            return nothing;
        }
        let sum: f64 = used().sum();
        let mean = sum / count as f64;
        Statistics {
            count,
            sum,
            mean,
            squares: used().map(|value| (value - mean).powi(2)).sum(),
            min: used().fold(f64::INFINITY, lesser),
            max: used().fold(f64::NEG_INFINITY, greater),
            ..nothing
        }
    }

    /// Adds the values of a later batch.
    pub(crate) fn merge(&mut self, batch: &Statistics) {
        self.nan_count += batch.nan_count;
        if batch.count == 0 {
            return;
        }
        if self.count == 0 {
            (self.mean, self.squares) = (batch.mean, batch.squares);
            (self.min, self.max) = (batch.min, batch.max);
        } else {
            let (old, new) = (self.count as f64, batch.count as f64);
            let distance = batch.mean - self.mean;
            self.mean += distance * new / (old + new);
            self.squares += batch.squares + distance * distance * old * new / (old + new);
            (self.min, self.max) = (lesser(self.min, batch.min), greater(self.max, batch.max));
        }
        self.sum += batch.sum;
        self.count += batch.count;
        self.values.extend(&batch.values);
    }

    /// Returns whether no values have been added.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.nan_count == 0
    }

    /// Removes all values and keeps their memory.
    pub(crate) fn clear(&mut self) {
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        *self = Statistics {
            values,
            ..Statistics::default()
        };
    }

    /// Returns a statistic; NaN without values, except for the sum and `nan_count`.
    pub(crate) fn of(&mut self, aggregate: Aggregate, skip: bool) -> f64 {
        let all = self.count + if skip { self.nan_count } else { 0 };
        match aggregate {
            Aggregate::NanCount => self.nan_count as f64,
            Aggregate::NanFraction => self.nan_count as f64 / all as f64,
            Aggregate::Sum => self.sum,
            _ if self.count == 0 => f64::NAN,
            Aggregate::Mean => self.mean,
            Aggregate::Std => (self.squares / self.count as f64).sqrt(),
            Aggregate::Var => self.squares / self.count as f64,
            Aggregate::Min => self.min,
            Aggregate::Max => self.max,
            Aggregate::Median => self.median(),
        }
    }

    fn median(&mut self) -> f64 {
        if self.values.iter().any(|value| value.is_nan()) {
            return f64::NAN;
        }
        let middle = self.values.len() / 2;
        if middle == 0 {
            return self.values.first().copied().unwrap_or(f64::NAN);
        }
        let even = self.values.len().is_multiple_of(2);
        let (below, value, _) = self.values.select_nth_unstable_by(middle, f64::total_cmp);
        if !even {
            return *value;
        }
        f64::midpoint(
            below.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            *value,
        )
    }
}

impl From<Statistics> for Saved {
    fn from(of: Statistics) -> Saved {
        Saved {
            counts: [of.count, of.nan_count],
            numbers: [of.sum, of.mean, of.squares, of.min, of.max].map(f64::to_bits),
            values: of.values.into_iter().map(f64::to_bits).collect(),
        }
    }
}

impl TryFrom<Saved> for Statistics {
    type Error = HookError;

    /// Rejects what no pass saves: either all values are kept or none.
    fn try_from(saved: Saved) -> Result<Statistics> {
        let [count, nan_count] = saved.counts;
        state::check_count("counts", count.max(nan_count))?;
        let kept = saved.values.len() as u64;
        if kept != 0 && kept != count {
            bail!("the state has {kept} values of {count}");
        }
        let [sum, mean, squares, min, max] = saved.numbers.map(f64::from_bits);
        Ok(Statistics {
            count,
            nan_count,
            sum,
            mean,
            squares,
            min,
            max,
            values: saved.values.into_iter().map(f64::from_bits).collect(),
        })
    }
}

/// Returns the lesser value; NaN if either is NaN.
fn lesser(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

fn greater(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(batches: &[&[f64]], skip: bool) -> Vec<f64> {
        use Aggregate as A;
        let mut statistics = Statistics::default();
        for batch in batches {
            statistics.add(batch, skip, true);
            statistics = Saved::from(statistics).try_into().expect("its own");
        }
        [
            A::Mean,
            A::Std,
            A::Var,
            A::Min,
            A::Max,
            A::Median,
            A::Sum,
            A::NanCount,
            A::NanFraction,
        ]
        .map(|aggregate| statistics.of(aggregate, skip))
        .to_vec()
    }

    fn near(found: &[f64], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            let is_near = (found - expected).abs() <= 1e-12 * expected.abs().max(1.0);
            assert!(
                is_near || (found.is_nan() && expected.is_nan()),
                "{found} {expected}"
            );
        }
    }

    /// Compares with values computed by NumPy.
    #[test]
    fn statistics_are_numpys_however_the_values_are_cut() {
        let expected = [
            2.8,
            1.720_465_053_408_525_2,
            2.96,
            1.0,
            6.0,
            2.0,
            14.0,
            0.0,
            0.0,
        ];
        near(&all(&[&[1.0, 2.0, 6.0, 2.0, 3.0]], false), &expected);
        near(
            &all(&[&[1.0], &[2.0, 6.0], &[], &[2.0, 3.0]], false),
            &expected,
        );
        // Digits that a sum of squares would lose.
        near(
            &all(&[&[1e9 + 4.0, 1e9 + 7.0], &[1e9 + 13.0, 1e9 + 16.0]], true),
            &[
                1e9 + 10.0,
                22.5_f64.sqrt(),
                22.5,
                1e9 + 4.0,
                1e9 + 16.0,
                1e9 + 10.0,
                4e9 + 40.0,
                0.0,
                0.0,
            ],
        );
    }

    #[test]
    fn what_is_no_number_spoils_all_or_is_left_out() {
        let nan = f64::NAN;
        let batches: [&[f64]; 3] = [&[1.0, nan], &[nan], &[3.0]];
        near(
            &all(&batches, false),
            &[nan, nan, nan, nan, nan, nan, nan, 2.0, 0.5],
        );
        near(
            &all(&batches, true),
            &[2.0, 1.0, 1.0, 1.0, 3.0, 2.0, 4.0, 2.0, 0.5],
        );
        near(
            &all(&[&[nan]], true),
            &[nan, nan, nan, nan, nan, nan, 0.0, 1.0, 1.0],
        );
    }
}
