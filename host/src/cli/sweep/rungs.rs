//! Which trials go on: successive halving in rungs.
//!
//! What comes next follows from what the trials have reached, and from nothing else: any number of processes come to the same
//! decisions, at any time, also after they were killed. A rung is decided once all its trials have reached it, so the decision
//! does not depend on which were faster.

use std::cmp::Ordering;

use sconce_plugin_api::Rule;

use super::document::Halving;

/// A comparison of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rung {
    /// Epochs after which they are compared; `None`: at their ends.
    pub(super) until: Option<u64>,
    /// Number of trials.
    pub(super) size: usize,
}

/// The rungs of so many trials of so many epochs.
pub(super) fn rungs(halving: Option<Halving>, trials: usize, epochs: u64) -> Vec<Rung> {
    let mut rungs = Vec::new();
    let mut size = trials;
    if let Some(Halving { first, factor }) = halving {
        let mut until = first;
        while until < epochs {
            rungs.push(Rung {
                until: Some(until),
                size,
            });
            until = until.saturating_mul(factor);
            let divisor = usize::try_from(factor).unwrap_or(usize::MAX);
            size = (size / divisor.max(1)).max(1);
        }
    }
    rungs.push(Rung { until: None, size });
    rungs
}

/// The metric of a trial that has reached a rung; `None` if it failed there, which is worse than any number.
pub(super) type Reached = Option<f64>;

/// Where a sweep stands. Trials are numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Progress {
    /// The rung that is under way; that after the last one at the end.
    pub(super) rung: usize,
    /// Its trials that have not reached it.
    pub(super) missing: Vec<usize>,
    /// All trials, the best first: those that went further before the others.
    pub(super) ranking: Vec<usize>,
    /// Number of trials, the first of the ranking, that are still in the sweep.
    pub(super) remaining: usize,
}

/// Where a sweep stands, by what each trial has reached at each rung.
pub(super) fn progress(
    rungs: &[Rung],
    goal: Rule,
    reached: impl Fn(usize, usize) -> Option<Reached>,
) -> Progress {
    let mut ranking: Vec<usize> = (0..rungs.first().map_or(0, |rung| rung.size)).collect();
    for (number, rung) in rungs.iter().enumerate() {
        let Some(trials) = ranking.get(..rung.size) else {
            break;
        };
        let found: Vec<(usize, Option<Reached>)> = trials
            .iter()
            .map(|&trial| (trial, reached(trial, number)))
            .collect();
        let missing = found.iter().filter(|(_, reached)| reached.is_none());
        let missing: Vec<usize> = missing.map(|(trial, _)| *trial).collect();
        // Also before all are there, for those who look on; nothing is decided by it.
        let mut order: Vec<(usize, Reached)> = found
            .into_iter()
            .map(|(trial, reached)| (trial, reached.flatten()))
            .collect();
        order.sort_by(|one, other| compare(goal, *one, *other));
        ranking.splice(..rung.size, order.into_iter().map(|(trial, _)| trial));
        if !missing.is_empty() {
            return Progress {
                rung: number,
                missing,
                ranking,
                remaining: rung.size,
            };
        }
    }
    Progress {
        rung: rungs.len(),
        missing: Vec::new(),
        ranking,
        remaining: rungs.last().map_or(0, |rung| rung.size),
    }
}

/// The better trial first; of equal ones that with the lower number.
fn compare(goal: Rule, one: (usize, Reached), other: (usize, Reached)) -> Ordering {
    let number = |reached: Reached| reached.filter(|value| !value.is_nan());
    let by_value = match (number(one.1), number(other.1)) {
        (Some(a), Some(b)) => match goal {
            Rule::Less => a.total_cmp(&b),
            Rule::Greater => b.total_cmp(&a),
        },
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    };
    by_value.then(one.0.cmp(&other.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALVING: Option<Halving> = Some(Halving {
        first: 1,
        factor: 3,
    });

    #[test]
    fn a_third_goes_on_at_each_rung() {
        let of = |until, size| Rung { until, size };
        let expected = [of(Some(1), 27), of(Some(3), 9), of(Some(9), 3), of(None, 1)];
        assert_eq!(rungs(HALVING, 27, 27), expected);
        assert_eq!(rungs(HALVING, 5, 2), [of(Some(1), 5), of(None, 1)]);
        assert_eq!(rungs(None, 5, 2), [of(None, 5)]);
        assert_eq!(rungs(HALVING, 5, 1), [of(None, 5)]);
    }

    #[test]
    fn the_best_go_on_whatever_the_order_in_which_trials_end() {
        let values = [0.5, f64::NAN, 0.25, 0.25, 0.75, 0.125];
        let rungs = rungs(HALVING, 6, 9);
        let first = progress(&rungs, Rule::Less, |trial, rung| {
            (rung == 0 && trial != 4).then(|| values.get(trial).copied())
        });
        assert_eq!(
            (first.rung, first.missing, first.remaining),
            (0, vec![4], 6)
        );
        let second = progress(&rungs, Rule::Less, |trial, rung| {
            (rung == 0).then(|| values.get(trial).copied())
        });
        assert_eq!(
            (second.rung, second.missing),
            (1, vec![5, 2]),
            "of two equal ones the first"
        );
        let last = progress(&rungs, Rule::Less, |trial, rung| match (rung, trial) {
            (0, _) => Some(values.get(trial).copied()),
            // What was the best has failed.
            (1, 5) => Some(None),
            _ => Some(Some(0.1)),
        });
        assert_eq!((last.rung, last.ranking), (3, vec![2, 5, 3, 0, 4, 1]));
        let greatest = progress(&rungs, Rule::Greater, |trial, rung| {
            (rung == 0).then(|| values.get(trial).copied())
        });
        assert_eq!(greatest.missing, [4, 0]);
    }
}
