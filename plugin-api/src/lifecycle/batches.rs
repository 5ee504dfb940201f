//! Division of an epoch's samples into batches, and of its batches into updates.

use std::ops::Range;

/// Division of an epoch's samples into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochBatches {
    /// Number of samples of the epoch.
    pub samples: usize,
    /// Samples per batch, at least 1; the last one may have fewer.
    pub size: usize,
}

/// A training batch, as part of an update.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroBatch {
    /// Positions of its samples in the epoch's order.
    pub range: Range<usize>,
    /// Its fraction of the samples of its update: 1 without accumulation.
    pub fraction: f64,
    /// Whether it is the last batch of its update.
    pub updates: bool,
}

impl EpochBatches {
    /// Number of batches.
    pub fn count(self) -> u64 {
        self.samples.div_ceil(self.size.max(1)) as u64
    }

    /// Positions of these batches' samples in the epoch's order.
    pub fn samples_of(self, batches: Range<u64>) -> Range<usize> {
        let start = |batch: u64| self.samples.min((batch as usize).saturating_mul(self.size));
        start(batches.start)..start(batches.end)
    }

    /// A batch, as part of the update that consists of the batches `update`.
    pub fn micro_batch(self, batch: u64, update: &Range<u64>) -> MicroBatch {
        let range = self.samples_of(batch..batch + 1);
        MicroBatch {
            fraction: range.len() as f64 / self.samples_of(update.clone()).len() as f64,
            range,
            updates: batch + 1 == update.end,
        }
    }
}

/// The batches of the update that contains `batch`, of `batches` in the epoch. `requested` is the number of batches
/// per update that a hook has set, from this batch on; `planned` is the manifest's. A resumed run may be in the middle
/// of an update, whose start then follows from `planned`.
pub(super) fn update_of(
    batch: u64,
    batches: u64,
    requested: Option<u64>,
    planned: u64,
) -> Range<u64> {
    let (begin, count) = match requested {
        Some(count) => (batch, count),
        None => (batch - batch % planned.max(1), planned),
    };
    begin..batches.min(begin.saturating_add(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_has_its_batches_and_the_remaining_ones_are_an_update_too() {
        let epoch = EpochBatches {
            samples: 23,
            size: 5,
        };
        assert_eq!(epoch.count(), 5);
        let updates: Vec<_> = (0..5).map(|batch| update_of(batch, 5, None, 2)).collect();
        assert_eq!(updates, [0..2, 0..2, 2..4, 2..4, 4..5]);
        let batches: Vec<_> = (0..5)
            .zip(&updates)
            .map(|(batch, update)| epoch.micro_batch(batch, update))
            .collect();
        let ranges: Vec<_> = batches.iter().map(|batch| batch.range.clone()).collect();
        assert_eq!(ranges, [0..5, 5..10, 10..15, 15..20, 20..23]);
        let updates: Vec<bool> = batches.iter().map(|batch| batch.updates).collect();
        assert_eq!(updates, [false, true, false, true, true]);
        for (batch, fraction) in batches.iter().zip([0.5, 0.5, 0.5, 0.5, 1.0]) {
            assert!((batch.fraction - fraction).abs() < f64::EPSILON);
        }
        let last = epoch.micro_batch(4, &(3..5));
        assert!((last.fraction - 3.0 / 8.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_hooks_number_of_batches_per_update_counts_from_the_batch_where_it_takes_effect() {
        assert_eq!(update_of(3, 10, Some(4), 2), 3..7);
        assert_eq!(update_of(8, 10, Some(4), 2), 8..10);
        assert_eq!(update_of(3, 10, Some(u64::MAX), 2), 3..10);
    }
}
