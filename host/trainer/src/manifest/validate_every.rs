//! When to validate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When to validate: after a number of epochs, or of iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ValidateEvery {
    /// After this many epochs, and after the last one; 0 means never.
    Epochs(u64),
    /// After a number of iterations.
    Iterations(IterationInterval),
}

/// A number of iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IterationInterval {
    /// Validate after each multiple of this many training batches of the run, once the update that contains it is
    /// finished, and after the last epoch.
    #[schemars(range(min = 1))]
    pub iterations: u64,
}

impl ValidateEvery {
    /// Iterations between validations, if it is by iterations.
    pub fn iterations(self) -> Option<u64> {
        match self {
            ValidateEvery::Epochs(_) => None,
            ValidateEvery::Iterations(interval) => Some(interval.iterations.max(1)),
        }
    }

    /// Whether a validation is due after `epoch` of `epochs`, apart from those due by iterations.
    pub fn is_due_after(self, epoch: u64, epochs: u64) -> bool {
        match self {
            ValidateEvery::Epochs(0) => false,
            ValidateEvery::Epochs(every) => epoch.is_multiple_of(every) || epoch == epochs,
            ValidateEvery::Iterations(_) => epoch == epochs,
        }
    }

    /// Number of validations of a run of `epochs`, each of this many batches in updates of `accumulate`.
    pub fn validations(self, epochs: u64, batches: u64, accumulate: u64) -> u64 {
        let every = match self {
            ValidateEvery::Epochs(0) => return 0,
            ValidateEvery::Epochs(every) => return epochs.div_ceil(every),
            ValidateEvery::Iterations(interval) => interval.iterations.max(1),
        };
        let accumulate = accumulate.max(1);
        let total = epochs.saturating_mul(batches);
        if total == 0 {
            return 0;
        }
        let updates = epochs.saturating_mul(batches.div_ceil(accumulate));
        // Batches of the last update, at whose end there is a validation in any case.
        let last = match batches % accumulate {
            0 => accumulate.min(batches),
            rest => rest,
        };
        let before = total - last;
        let multiples = (before / every).min(updates.saturating_sub(1));
        multiples.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validations_are_counted_as_they_are_made() {
        let iterations = |iterations| ValidateEvery::Iterations(IterationInterval { iterations });
        for (every, epochs, batches, accumulate, expected) in [
            (ValidateEvery::Epochs(0), 5, 3, 1, 0),
            (ValidateEvery::Epochs(2), 5, 3, 1, 3),
            (iterations(1), 2, 3, 1, 6),
            (iterations(2), 2, 3, 1, 3),
            (iterations(4), 2, 3, 1, 2),
            (iterations(100), 2, 3, 1, 1),
            (iterations(1), 2, 3, 2, 4),
            (iterations(4), 2, 3, 2, 2),
            (iterations(1), 0, 3, 2, 0),
        ] {
            let found = every.validations(epochs, batches, accumulate);
            assert_eq!(found, expected, "{every:?} {epochs} {batches} {accumulate}");
        }
    }
}
