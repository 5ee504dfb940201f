//! Which patches of a batch's views are masked: drawn by seed, epoch, sample and view, so the same on any number of ranks.

use crate::queue::{STEP, mixed};

/// Draws masks, and keeps those of the batch.
pub(super) struct Masks {
    seed: u64,
    /// Views of each sample, and how many of them, the first, may be masked.
    views: [usize; 2],
    /// Probability that a view is masked.
    probability: f64,
    /// Least and largest share of its patches then.
    share: [f64; 2],
    mask: Vec<f32>,
    /// Patches of one view, by a random number.
    order: Vec<(u64, usize)>,
}

impl Masks {
    /// `views`: those of each sample, and how many of them, the first, may be masked, each with this probability and a share of its patches
    /// between the two of `share`.
    pub(super) fn new(seed: u64, views: [usize; 2], probability: f64, share: [f64; 2]) -> Masks {
        Masks {
            seed,
            views,
            probability,
            share,
            mask: Vec::new(),
            order: Vec::new(),
        }
    }

    /// The masks of a batch of these samples: (views · samples, patches), 1 where a patch is masked, 0 elsewhere.
    pub(super) fn draw(&mut self, epoch: u64, samples: &[u64], patches: usize) -> &[f32] {
        let [views, masked] = self.views;
        self.mask.clear();
        self.mask.resize(views * samples.len() * patches, 0.0);
        let keys = (0..masked as u64).flat_map(|view| samples.iter().map(move |of| [*of, view]));
        let rows = self.mask.chunks_exact_mut(patches.max(1));
        for ([sample, view], row) in keys.zip(rows) {
            let mut draws = Draws::of([self.seed, epoch, sample, view]);
            if draws.unit() >= self.probability {
                continue;
            }
            let [least, largest] = self.share;
            let share = least + (largest - least) * draws.unit();
            let count = (share * patches as f64) as usize;
            self.order.clear();
            let patches = 0..patches;
            self.order
                .extend(patches.map(|patch| (draws.next(), patch)));
            self.order.sort_unstable();
            for &(_, patch) in self.order.iter().take(count.max(1)) {
                if let Some(masked) = row.get_mut(patch) {
                    *masked = 1.0;
                }
            }
        }
        &self.mask
    }

    /// Those of the batch.
    pub(super) fn mask(&self) -> &[f32] {
        &self.mask
    }
}

/// Random numbers of a key.
struct Draws(u64);

impl Draws {
    fn of(key: [u64; 4]) -> Draws {
        let add = |state: u64, part| mixed(state.wrapping_add(STEP) ^ part);
        Draws(key.into_iter().fold(0, add))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(masks: &mut Masks, epoch: u64, samples: &[u64]) -> Vec<usize> {
        let rows = masks.draw(epoch, samples, 20).chunks(20);
        rows.map(|row| row.iter().filter(|&&at| at > 0.0).count())
            .collect()
    }

    #[test]
    fn shares_and_views_are_as_configured() {
        let mut masks = Masks::new(3, [3, 2], 0.5, [0.1, 0.5]);
        let samples: Vec<u64> = (0..500).collect();
        let found = counts(&mut masks, 0, &samples);
        assert_eq!(found.len(), 1500);
        assert!(found.iter().skip(1000).all(|&count| count == 0));
        let drawn: Vec<usize> = found.into_iter().filter(|&count| count > 0).collect();
        assert!((420..580).contains(&drawn.len()), "{}", drawn.len());
        assert!((2..10).all(|count| drawn.contains(&count)));
        assert!(drawn.iter().all(|count| (2..=10).contains(count)));
        // Each patch is masked about as often as the others.
        let mut often = vec![0.0; 20];
        for row in masks.mask().chunks(20) {
            often.iter_mut().zip(row).for_each(|(sum, at)| *sum += at);
        }
        assert!(
            often.iter().all(|sum| (100.0..190.0).contains(sum)),
            "{often:?}"
        );
    }

    #[test]
    fn a_sample_has_its_mask_in_any_batch_and_another_in_each_epoch() {
        let mut masks = Masks::new(3, [2, 2], 1.0, [0.3, 0.3]);
        let both = masks.draw(1, &[7, 9], 20).to_vec();
        let alone = masks.draw(1, &[9], 20).to_vec();
        assert_eq!(both[20..40], alone[..20]);
        assert_eq!(both[60..], alone[20..]);
        assert_ne!(alone[..20], alone[20..]);
        assert_ne!(masks.draw(2, &[9], 20), alone);
        assert_ne!(
            Masks::new(4, [2, 2], 1.0, [0.3, 0.3]).draw(1, &[9], 20),
            alone
        );
    }
}
