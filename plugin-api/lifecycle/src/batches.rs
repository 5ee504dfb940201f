//! Division of an epoch's samples into batches, of its batches into updates, and of an update's batches among ranks.

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
    /// Its index in the epoch.
    pub batch: u64,
    /// Positions of its samples in the epoch's order.
    pub range: Range<usize>,
    /// Its fraction of the samples of its update: 1 without accumulation.
    pub fraction: f64,
    /// Whether an update follows.
    pub updates: bool,
    /// What all ranks process at the same time.
    pub round: Round,
}

/// What the ranks of a run process at the same time: a batch each. In a run of one process, every batch is a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Number of this rank's batch in the run: the training batches before it, in the order of one process. Between
    /// rounds, that of the next update's first.
    pub number: u64,
    /// Index of this rank's batch in its update.
    pub index: u64,
    /// Whether this rank has no batch left in the update and repeats one of the first rank's, whose results are dropped.
    pub is_repeated: bool,
    /// Batches of the epoch that are finished with this round: those of several ranks' update with its last one.
    pub finishes: u64,
    /// Samples of the batches of all ranks.
    pub samples: u64,
}

/// A process among those that train together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Its number, from 0.
    pub rank: u64,
    /// Number of processes, at least 1.
    pub size: u64,
}

impl Ranked {
    /// The only process of a run.
    pub const ALONE: Ranked = Ranked { rank: 0, size: 1 };
}

/// An update's batches, divided among the ranks: each has a contiguous block, as long as those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    batches: Range<u64>,
    ranked: Ranked,
}

impl Shares {
    pub(super) fn new(batches: Range<u64>, ranked: Ranked) -> Shares {
        Shares { batches, ranked }
    }

    /// Number of rounds: batches of the longest block.
    pub(super) fn rounds(&self) -> u64 {
        let count = self.batches.end.saturating_sub(self.batches.start);
        count.div_ceil(self.ranked.size.max(1))
    }

    /// The batch that a rank processes in a round, if it has one left.
    fn batch_of(&self, rank: u64, round: u64) -> Option<u64> {
        let block = self.rounds();
        let first = self.batches.start.checked_add(rank.checked_mul(block)?)?;
        let batch = first.checked_add(round).filter(|_| round < block)?;
        (batch < self.batches.end).then_some(batch)
    }
}

/// Number of rounds in which the ranks of a run process `count` batches in updates of `per_update`.
pub fn rounds_of(count: u64, per_update: u64, ranked: Ranked) -> u64 {
    let per_update = per_update.max(1);
    let size = ranked.size.max(1);
    (count / per_update)
        .saturating_mul(per_update.div_ceil(size))
        .saturating_add((count % per_update).div_ceil(size))
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

    /// The batches that a rank processes in an epoch after the first `done`, in order, one in each round, repeated ones
    /// included. `update` are the batches of the update in progress, if it contains `done`; `per_update` is the number of
    /// batches in each after it.
    pub fn batches_of(
        self,
        ranked: Ranked,
        done: u64,
        update: &Range<u64>,
        per_update: u64,
    ) -> Vec<u64> {
        let count = self.count();
        if ranked.size <= 1 {
            return (done..count).collect();
        }
        let mut batches = Vec::new();
        let mut batch = done;
        while batch < count {
            let end = if update.contains(&batch) {
                update.end.min(count)
            } else {
                count.min(batch.saturating_add(per_update.max(1)))
            };
            let shares = Shares::new(batch..end, ranked);
            let rounds = 0..shares.rounds();
            batches.extend(rounds.map(|round| {
                let own = shares.batch_of(ranked.rank, round);
                own.unwrap_or(batch + round)
            }));
            batch = end;
        }
        batches
    }

    /// What a rank processes in a round of `shares`, which are the rest of the update that consists of the batches
    /// `update`. `number` is the number in the run of the shares' first batch.
    pub(super) fn micro_batch(
        self,
        shares: &Shares,
        round: u64,
        update: &Range<u64>,
        number: u64,
    ) -> MicroBatch {
        let own = shares.batch_of(shares.ranked.rank, round);
        let batch = own.unwrap_or(shares.batches.start + round);
        let range = self.samples_of(batch..batch + 1);
        let updates = round + 1 == shares.rounds();
        let ranks = 0..shares.ranked.size;
        let of_all = ranks.filter_map(|rank| shares.batch_of(rank, round));
        let samples = of_all.map(|batch| self.samples_of(batch..batch + 1).len() as u64);
        MicroBatch {
            batch,
            fraction: range.len() as f64 / self.samples_of(update.clone()).len() as f64,
            range,
            updates,
            round: Round {
                number: number + (batch - shares.batches.start),
                index: batch - update.start,
                is_repeated: own.is_none(),
                finishes: match (shares.ranked.size, updates) {
                    (0 | 1, _) => 1,
                    (_, true) => shares.batches.end - shares.batches.start,
                    (_, false) => 0,
                },
                samples: samples.sum(),
            },
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
        let of = |batch: u64, update: &Range<u64>| {
            let shares = Shares::new(batch..update.end, Ranked::ALONE);
            epoch.micro_batch(&shares, 0, update, batch)
        };
        let batches: Vec<_> = (0..5)
            .zip(&updates)
            .map(|(batch, update)| {
                let shares = Shares::new(update.clone(), Ranked::ALONE);
                epoch.micro_batch(&shares, batch - update.start, update, update.start)
            })
            .collect();
        for batch in &batches {
            let Round {
                number,
                finishes,
                samples,
                is_repeated,
                ..
            } = batch.round;
            assert_eq!((number, finishes, is_repeated), (batch.batch, 1, false));
            assert_eq!(samples, batch.range.len() as u64);
        }
        let ranges: Vec<_> = batches.iter().map(|batch| batch.range.clone()).collect();
        assert_eq!(ranges, [0..5, 5..10, 10..15, 15..20, 20..23]);
        let updates: Vec<bool> = batches.iter().map(|batch| batch.updates).collect();
        assert_eq!(updates, [false, true, false, true, true]);
        for (batch, fraction) in batches.iter().zip([0.5, 0.5, 0.5, 0.5, 1.0]) {
            assert!((batch.fraction - fraction).abs() < f64::EPSILON);
        }
        let last = of(4, &(3..5));
        assert!((last.fraction - 3.0 / 8.0).abs() < f64::EPSILON);
        assert_eq!(last.round.index, 1);
    }

    #[test]
    fn ranks_have_each_batch_once_and_finish_their_update_together() {
        let epoch = EpochBatches {
            samples: 23,
            size: 2,
        };
        for size in 1..9 {
            for update in [0..8, 3..4, 4..12, 8..12, 0..12] {
                let shares = |rank| Shares::new(update.clone(), Ranked { rank, size });
                let mut found = Vec::new();
                let mut finished = vec![0; size as usize];
                for round in 0..shares(0).rounds() {
                    let of = |rank| epoch.micro_batch(&shares(rank), round, &update, 100);
                    let samples: u64 = (0..size)
                        .map(of)
                        .filter(|batch| !batch.round.is_repeated)
                        .map(|batch| batch.range.len() as u64)
                        .sum();
                    for rank in 0..size {
                        let batch = of(rank);
                        assert_eq!(batch.round.samples, samples);
                        assert_eq!(batch.updates, round + 1 == shares(0).rounds());
                        assert_eq!(batch.round.number, 100 + batch.batch - update.start);
                        finished[rank as usize] += batch.round.finishes;
                        if batch.round.is_repeated {
                            assert_eq!(batch.batch, of(0).batch);
                        } else {
                            found.push(batch.batch);
                        }
                    }
                }
                found.sort_unstable();
                assert_eq!(found, update.clone().collect::<Vec<_>>());
                assert!(finished.iter().all(|&all| all == update.end - update.start));
            }
        }
        let four = Ranked { rank: 3, size: 4 };
        // Updates of 4 on 3 ranks are blocks of 2, 2 and 0; of the first, one batch is done.
        let third = Ranked { rank: 2, size: 3 };
        assert_eq!(epoch.batches_of(third, 1, &(0..4), 4), [3, 4, 5, 8, 9]);
        let second = Ranked { rank: 1, size: 3 };
        assert_eq!(epoch.batches_of(second, 1, &(0..4), 4), [2, 6, 7, 10, 11]);
        assert_eq!(rounds_of(19, 8, four), 2 + 2 + 1);
        assert_eq!(rounds_of(19, 8, Ranked::ALONE), 19);
    }

    #[test]
    fn a_hooks_number_of_batches_per_update_counts_from_the_batch_where_it_takes_effect() {
        assert_eq!(update_of(3, 10, Some(4), 2), 3..7);
        assert_eq!(update_of(8, 10, Some(4), 2), 8..10);
        assert_eq!(update_of(3, 10, Some(u64::MAX), 2), 3..10);
    }
}
