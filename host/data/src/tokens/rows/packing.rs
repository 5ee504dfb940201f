//! Which rows share a sample: first-fit by descending length, within blocks of rows.
//!
//! Once, by the seed, rows are put into blocks and samples. What is packed are lengths: in each epoch, any rows of a length
//! change places with each other, drawn from the seed and the epoch. So an epoch has each row once and always the same number of samples,
//! which schedules and resumed runs rely on, and rows meet others each time.

use sconce_ops::random;

use crate::batches::order::KeyedPermutation;

/// Rows that are packed together: enough for samples to be full, and few enough to be searched one by one.
const BLOCK: usize = 1_000;

/// Rows that share samples.
#[derive(Clone, Debug)]
pub(super) struct Packing {
    /// Rows by ascending length.
    rows: Box<[u32]>,
    /// For each length, the place in `rows` of its first; then the number of all.
    firsts: Box<[u32]>,
    /// Places in `rows`, sample by sample.
    places: Box<[u32]>,
    /// Where each sample ends in `places`.
    ends: Box<[u32]>,
}

impl Packing {
    /// Packs rows of these lengths, from 1 to `context`, into samples of `context` tokens. Longer rows have samples of their own.
    pub(super) fn new(
        seed: u64,
        rows: &[u32],
        context: usize,
        length: impl Fn(u32) -> usize,
    ) -> Packing {
        let length = |row: u32| length(row).min(context);
        let mut by_length = rows.to_vec();
        by_length.sort_by_key(|row| length(*row));
        let mut firsts = Vec::new();
        for (place, row) in by_length.iter().enumerate() {
            let known = length(*row) + 1;
            if firsts.len() < known {
                firsts.resize(known, place as u32);
            }
        }
        firsts.push(by_length.len() as u32);
        let mut order = random::stream(seed, "packing", 0, 0).permutation(by_length.len());
        let (mut places, mut ends) = (Vec::with_capacity(order.len()), Vec::new());
        for block in order.chunks_mut(BLOCK) {
            // Later places have longer rows.
            block.sort_unstable_by(|left, right| right.cmp(left));
            let length = |place: u32| by_length.get(place as usize).map_or(0, |row| length(*row));
            for sample in first_fit(block, context, length) {
                places.extend(sample);
                ends.push(places.len() as u32);
            }
        }
        Packing {
            rows: by_length.into(),
            firsts: firsts.into(),
            places: places.into(),
            ends: ends.into(),
        }
    }

    /// Number of samples.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The rows of a sample: those of an epoch of this seed, or, without them, always the same; none behind the last sample.
    pub(super) fn sample(&self, index: u32, drawn: Option<(u64, u64)>) -> Option<Vec<u32>> {
        let end = *self.ends.get(index as usize)? as usize;
        let before = (index as usize).checked_sub(1);
        let start = before.and_then(|before| self.ends.get(before)).copied();
        let places = self.places.get(start.unwrap_or(0) as usize..end)?;
        let row = |place: &u32| {
            let place = drawn.map_or(*place, |(seed, epoch)| self.other(*place, seed, epoch));
            self.rows.get(place as usize).copied()
        };
        places.iter().map(row).collect()
    }

    /// The place of the row that is at this one in an epoch: one of the same length.
    fn other(&self, place: u32, seed: u64, epoch: u64) -> u32 {
        let length = self.firsts.partition_point(|first| *first <= place);
        let first = length.checked_sub(1).and_then(|own| self.firsts.get(own));
        let (Some(&first), Some(&end)) = (first, self.firsts.get(length)) else {
            return place;
        };
        first + KeyedPermutation::new(seed, epoch, end - first).at(place - first)
    }
}

/// Puts each item, in this order, where the first sample has room for it.
fn first_fit(items: &[u32], context: usize, length: impl Fn(u32) -> usize) -> Vec<Vec<u32>> {
    let mut samples: Vec<(usize, Vec<u32>)> = Vec::new();
    for &item in items {
        let needed = length(item);
        match samples.iter_mut().find(|(room, _)| *room >= needed) {
            Some((room, sample)) => {
                *room -= needed;
                sample.push(item);
            }
            None => samples.push((context - needed, vec![item])),
        }
    }
    samples.into_iter().map(|(_, sample)| sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(row: u32) -> usize {
        (row as usize * 7919) % 20 + 1
    }

    fn rows_of(packing: &Packing, epoch: u64) -> Vec<Vec<u32>> {
        let samples = 0..packing.len() as u32;
        let rows = samples.map(|index| packing.sample(index, Some((3, epoch))).expect("a sample"));
        rows.collect()
    }

    #[test]
    fn each_epoch_has_each_row_once_in_samples_that_are_full() {
        let rows: Vec<u32> = (0..2_500).map(|row| row * 2).collect();
        let packing = Packing::new(3, &rows, 24, length);
        let total: usize = rows.iter().map(|row| length(*row)).sum();
        let most = total * 103 / 100 / 24;
        assert!(packing.len() <= most, "{} of {most}", packing.len());
        let first = rows_of(&packing, 0);
        assert_eq!(first, rows_of(&packing, 0));
        let second = rows_of(&packing, 1);
        let differ = first
            .iter()
            .zip(&second)
            .filter(|(first, second)| first != second);
        assert!(differ.count() > packing.len() / 2);
        for samples in [first, second] {
            for sample in &samples {
                assert!(sample.iter().map(|row| length(*row)).sum::<usize>() <= 24);
            }
            let mut found = samples.concat();
            found.sort_unstable();
            assert_eq!(found, rows);
        }
        assert_eq!(packing.sample(packing.len() as u32, None), None);
    }

    #[test]
    fn the_longest_comes_first_and_others_where_there_is_room() {
        let lengths = [5, 4, 3, 3, 1];
        let packed = first_fit(&[0, 1, 2, 3, 4], 8, |item| lengths[item as usize]);
        assert_eq!(packed, [vec![0, 2], vec![1, 3, 4]]);
    }

    #[test]
    fn a_row_longer_than_a_sample_has_its_own() {
        let packing = Packing::new(1, &[0, 1, 2], 4, |row| row as usize * 4 + 1);
        assert_eq!(packing.len(), 3);
    }
}
