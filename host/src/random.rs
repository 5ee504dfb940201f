//! Random numbers from keyed streams: nothing has to be saved for a resumed run to go on with the
//! same bits.
//!
//! A stream is keyed by what it is for: the seed, a purpose, the epoch and the iteration. Drawing
//! from one never moves another, so neither the order of construction nor the number of threads
//! changes any bits.
//!
//! **The scheme is a promise** (a golden test holds it): the key of `ChaCha8` is the SHA-256 of
//! `"sconce.random/1"`, the seed (u64, little endian), the purpose's length in bytes (u64, little
//! endian), the purpose in UTF-8, the epoch and the iteration (u64 each, little endian); stream and
//! block number start at 0. What is made of the words is defined here, not by the `rand` crate,
//! so that no update of that crate changes anyone's results.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    words: ChaCha8Rng,
    /// The second number of the last pair of normal ones.
    spare: Option<f64>,
}

/// The stream for `purpose` at an epoch and an iteration; 0 where these have no meaning.
pub fn stream(seed: u64, purpose: &str, epoch: u64, iteration: u64) -> Stream {
    let mut key = Sha256::new();
    key.update(b"sconce.random/1");
    key.update(seed.to_le_bytes());
    key.update((purpose.len() as u64).to_le_bytes());
    key.update(purpose.as_bytes());
    key.update(epoch.to_le_bytes());
    key.update(iteration.to_le_bytes());
    Stream {
        words: ChaCha8Rng::from_seed(key.finalize().into()),
        spare: None,
    }
}

impl Stream {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// A number from 0 to 1, without 1: the upper 53 bits of a word.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.bits() >> 11) as f64 * STEP
    }

    /// A number from `low` to `high`, without `high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A number of the standard normal distribution, by Marsaglia's polar method (Marsaglia and
    /// Bray, 1964), which needs no sine.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (self.uniform(-1.0, 1.0), self.uniform(-1.0, 1.0));
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// A whole number below `bound`, each equally likely; 0 for a bound of 0.
    ///
    /// Lemire's method ("Fast Random Integer Generation in an Interval", 2019).
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if (product as u64) >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// The numbers from 0 to `count`, without `count`, in random order (Fisher and Yates, as
    /// Durstenfeld wrote it in 1964).
    pub fn permutation(&mut self, count: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count as u32).collect();
        for last in (1..count).rev() {
            let other = self.below(last as u64 + 1) as usize;
            numbers.swap(last, other);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_key_matters() {
        let first = stream(1, "init/a", 2, 3).bits();
        assert_eq!(first, stream(1, "init/a", 2, 3).bits());
        for other in [
            stream(2, "init/a", 2, 3),
            stream(1, "init/b", 2, 3),
            stream(1, "init/a", 3, 3),
            stream(1, "init/a", 2, 2),
        ] {
            assert_ne!(first, other.clone().bits());
        }
    }

    #[test]
    fn uniform_and_normal_numbers_have_their_means_and_variances() {
        let mut stream = stream(7, "moments", 0, 0);
        let count = 200_000;
        let moments = |mut draw: Box<dyn FnMut() -> f64 + '_>| {
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..count {
                let x = draw();
                sum += x;
                squares += x * x;
            }
            let mean = sum / f64::from(count);
            (mean, squares / f64::from(count) - mean * mean)
        };
        let (mean, variance) = moments(Box::new(|| stream.uniform(-1.0, 3.0)));
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((variance - 16.0 / 12.0).abs() < 0.02, "{variance}");
        let (mean, variance) = moments(Box::new(|| stream.normal()));
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((variance - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn permutations_have_every_number_once_and_every_place_equally() {
        let mut stream = stream(3, "permutation", 0, 0);
        let mut first = [0; 5];
        for _ in 0..50_000 {
            let permutation = stream.permutation(5);
            let mut sorted = permutation.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
            first[permutation[0] as usize] += 1;
        }
        assert!(
            first
                .iter()
                .all(|&count: &i32| (count - 10_000).abs() < 500),
            "{first:?}"
        );
        assert!(stream.permutation(0).is_empty());
        assert_eq!(stream.below(0), 0);
    }
}
