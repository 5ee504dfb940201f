//! Learning rates tried, their losses, and the rate they suggest.

use sconce_plugin_api::prelude::*;

/// How the rate rises from the smallest to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// Multiplied by the same factor in each step.
    Exponential,
    /// Linear.
    Linear,
}

impl Way {
    /// Returns the rate of step `step` of `steps`, both ends included.
    pub(crate) fn rate(self, (min, max): (f64, f64), step: u64, steps: u64) -> f64 {
        let way = step as f64 / steps.saturating_sub(1).max(1) as f64;
        match self {
            Way::Exponential => min * (max / min).powf(way),
            Way::Linear => min + (max - min) * way,
        }
    }
}

/// Criterion for the suggested rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Suggestion {
    /// The rate at which the smoothed loss falls fastest from step to step.
    Steepest,
    /// A tenth of the rate of the smallest smoothed loss.
    Minimum,
}

/// A rate and the loss of the update trained at it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tried {
    pub(crate) rate: f64,
    pub(crate) loss: f64,
    pub(crate) smoothed: f64,
}

/// The rates tried so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Curve {
    pub(crate) tried: Vec<Tried>,
    average: f64,
    best: Option<f64>,
}

impl Curve {
    /// Adds a loss to the bias-corrected exponential average, as in PyTorch Lightning and fastai. Returns
    /// whether the test should end: the loss is not finite, or the average is above `stop_factor` times the
    /// best one.
    pub(crate) fn add(&mut self, rate: f64, loss: f64, smoothing: f64, stop_factor: f64) -> bool {
        if !loss.is_finite() {
            return true;
        }
        self.average = smoothing * self.average + (1.0 - smoothing) * loss;
        let count = self.tried.len() as f64 + 1.0;
        let smoothed = self.average / (1.0 - smoothing.powf(count));
        self.tried.push(Tried {
            rate,
            loss,
            smoothed,
        });
        let best = self.best.get_or_insert(smoothed);
        *best = best.min(smoothed);
        let is_worse = stop_factor > 0.0 && smoothed > stop_factor * *best;
        is_worse && self.tried.len() > 1
    }

    /// Returns the suggested rate; `None` if there are fewer than two to compare.
    pub(crate) fn suggest(
        &self,
        suggestion: Suggestion,
        skip_begin: usize,
        skip_end: usize,
    ) -> Option<f64> {
        let end = self.tried.len().saturating_sub(skip_end);
        let kept = self.tried.get(skip_begin..end)?;
        let losses: Vec<f64> = kept.iter().map(|tried| tried.smoothed).collect();
        if losses.len() < 2 {
            return None;
        }
        match suggestion {
            Suggestion::Steepest => kept.get(least(&slopes(&losses))?).map(|tried| tried.rate),
            Suggestion::Minimum => kept.get(least(&losses)?).map(|tried| tried.rate / 10.0),
        }
    }
}

/// Returns the derivative at each element: central differences, one-sided at both ends.
fn slopes(numbers: &[f64]) -> Vec<f64> {
    let last = numbers.len().saturating_sub(1);
    let at = |index: usize| numbers.get(index).copied().unwrap_or(f64::NAN);
    (0..numbers.len())
        .map(|index| {
            let (from, to) = (index.saturating_sub(1), (index + 1).min(last));
            (at(to) - at(from)) / (to - from).max(1) as f64
        })
        .collect()
}

/// Returns the index of the first smallest element.
fn least(numbers: &[f64]) -> Option<usize> {
    let places = numbers.iter().enumerate();
    places
        .min_by(|left, right| left.1.total_cmp(right.1))
        .map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_go_from_end_to_end() {
        let rates = |way: Way| [0, 2, 4].map(|step| way.rate((1e-4, 1.0), step, 5));
        for (found, expected) in [
            (rates(Way::Exponential), [1e-4, 1e-2, 1.0]),
            (rates(Way::Linear), [1e-4, 0.50005, 1.0]),
        ] {
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{found} {expected}");
            }
        }
    }

    /// Compares with `torch.gradient` and the smoothing's formula: see `tests/reference/range_tests.py`.
    #[test]
    fn what_is_suggested_is_what_pytorch_finds() {
        let text = include_str!("../../../../tests/reference/range_tests.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(text).expect("JSON");
        assert!(cases.len() > 1);
        for case in cases {
            let list = |name: &str| -> Vec<f64> {
                serde_json::from_value(case[name].clone()).expect("numbers")
            };
            let number = |name: &str| case[name].as_f64().expect("a number");
            let mut curve = Curve::default();
            for (rate, loss) in list("rates").iter().zip(list("losses")) {
                assert!(!curve.add(*rate, loss, number("smoothing"), 0.0));
            }
            let smoothed = list("smoothed");
            assert!(!smoothed.is_empty() && curve.tried.len() == smoothed.len());
            for (found, expected) in curve.tried.iter().zip(smoothed) {
                assert!(
                    (found.smoothed - expected).abs() < 1e-9,
                    "{} {expected}",
                    found.smoothed
                );
            }
            for (suggestion, name) in [
                (Suggestion::Steepest, "steepest"),
                (Suggestion::Minimum, "minimum"),
            ] {
                let found = curve.suggest(suggestion, 10, 1).expect("a rate");
                assert!((found - number(name)).abs() < 1e-12, "{name}: {found}");
            }
        }
    }

    #[test]
    fn what_diverges_ends_it_and_few_rates_suggest_nothing() {
        let mut curve = Curve::default();
        assert!(!curve.add(0.1, 1.0, 0.0, 4.0));
        assert!(!curve.add(0.2, 3.9, 0.0, 4.0));
        assert!(curve.add(0.3, 4.1, 0.0, 4.0));
        assert!(curve.add(0.4, f64::NAN, 0.0, 0.0));
        assert_eq!(curve.tried.len(), 3);
        assert_eq!(curve.suggest(Suggestion::Steepest, 2, 0), None);
        assert_eq!(curve.suggest(Suggestion::Steepest, 9, 9), None);
    }
}
