//! Reduces the rate when a metric has stopped improving: `ReduceLROnPlateau`.

use sconce_plugin_api::prelude::*;

use super::curve::{Plateau, ThresholdIs};

/// History of the metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Watch {
    best: Option<f64>,
    /// Epochs without improvement.
    bad: u64,
    /// Remaining epochs of the cooldown.
    cooling: u64,
    /// Number of reductions so far.
    pub(crate) changes: u32,
}

/// More changes than any run makes.
const MOST_CHANGES: u32 = 1_000_000;

impl Watch {
    /// Rejects states that no run saves.
    pub(crate) fn check(&self) -> Result<()> {
        state::check_count("bad", self.bad)?;
        state::check_count("cooling", self.cooling)?;
        if self.changes > MOST_CHANGES {
            bail!(
                "the state's `changes` is {}, more than a run makes: at most {MOST_CHANGES}",
                self.changes
            );
        }
        Ok(())
    }

    /// Adds the metric's value after an epoch; returns whether the rate is reduced.
    pub(crate) fn see(&mut self, plateau: &Plateau, rule: Rule, value: f64) -> bool {
        let is_better = self.best.is_none_or(|best| {
            let margin = match plateau.threshold_is {
                ThresholdIs::Relative => plateau.threshold * best,
                ThresholdIs::Absolute => plateau.threshold,
            };
            match rule {
                Rule::Less => value < best - margin,
                Rule::Greater => value > best + margin,
            }
        });
        if is_better && !value.is_nan() {
            self.best = Some(value);
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            self.cooling -= 1;
            self.bad = 0;
        }
        let is_due = self.bad > plateau.patience;
        if is_due {
            self.cooling = plateau.cooldown;
            self.bad = 0;
            self.changes += 1;
        }
        is_due
    }

    /// Returns the rate after all reductions so far, where `rate` is the rate without any.
    pub(crate) fn rate(&self, plateau: &Plateau, rate: f64) -> f64 {
        let mut rate = rate;
        for _ in 0..self.changes {
            let next = (rate * plateau.factor).max(plateau.min_rate.min(rate));
            if next.to_bits() == rate.to_bits() {
                break;
            }
            rate = next;
        }
        rate
    }
}
