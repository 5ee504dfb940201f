//! Random numbers from keyed streams: nothing has to be saved for a resumed run to have the same bits.
//!
//! A stream is keyed by its use: the seed, a purpose, the epoch and the iteration. Drawing from one never advances
//! another, so neither the order of construction nor the number of threads changes any bits.
//!
//! **The scheme is a promise** (held by a golden test): the key of `ChaCha8` is the SHA-256 of
//! `"sconce.random/1"`, the seed (u64, little endian), the purpose's length in bytes (u64, little
//! endian), the purpose in UTF-8, the epoch and the iteration (u64 each, little endian); stream and
//! block number start at 0. How words become numbers is defined here: not by the `rand` crate, so
//! that no update of that crate changes anyone's results, nor by the C library, whose logarithm
//! differs in its last bits from system to system.

use std::f64::consts::{LN_2, SQRT_2};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    words: ChaCha8Rng,
    /// Unused second value of the last pair of normal ones.
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
    /// The key of its generator, for one on another device.
    #[cfg(feature = "cuda")]
    pub(crate) fn key(&self) -> [u8; 32] {
        self.words.get_seed()
    }

    /// This stream from the word after its first `words` of 64 bits, for threads that draw parts of it.
    pub(crate) fn after(&self, words: u64) -> Stream {
        let mut rest = Stream {
            words: self.words.clone(),
            spare: None,
        };
        // Positions are counted in words of 32 bits.
        let start = rest
            .words
            .get_word_pos()
            .wrapping_add(2 * u128::from(words));
        rest.words.set_word_pos(start);
        rest
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.words.next_u64()
    }

    /// A number from 0 (inclusive) to 1 (exclusive): the upper 53 bits of a word.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.bits() >> 11) as f64 * STEP
    }

    /// A number from `low` to `high`; `high` itself only where the sum rounds up to it.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A sample of the standard normal distribution.
    ///
    /// By Marsaglia's polar method (Marsaglia and Bray, 1964), which needs no sine.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (self.uniform(-1.0, 1.0), self.uniform(-1.0, 1.0));
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * ln(square) / square).sqrt();
                self.spare = Some(y * factor);
                return x * factor;
            }
        }
    }

    /// An integer below `bound`, each equally likely; 0 for a bound of 0.
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

    /// The integers in `0..count` in random order; `count` is at most 2³².
    ///
    /// The shuffle is that of Fisher and Yates, as Durstenfeld wrote it in 1964.
    pub fn permutation(&mut self, count: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count as u32).collect();
        for last in (1..count).rev() {
            let other = self.below(last as u64 + 1) as usize;
            numbers.swap(last, other);
        }
        numbers
    }
}

/// The natural logarithm of a positive, normal number, to two units in the last place.
///
/// With x = m · 2ᵉ, m from √½ to √2, and s = (m − 1) / (m + 1): ln x = e · ln 2 + 2 artanh s, where
/// artanh s = s · (1 + s²/3 + s⁴/5 + …). Only additions, products and quotients are used, whose
/// bits IEEE 754 fixes on every machine.
fn ln(x: f64) -> f64 {
    const FRACTION: u64 = (1 << 52) - 1;
    const EXPONENT_OF_ONE: u64 = 1023 << 52;
    let mut exponent = (x.to_bits() >> 52) as f64 - 1023.0;
    let mut m = f64::from_bits(x.to_bits() & FRACTION | EXPONENT_OF_ONE);
    if m > SQRT_2 {
        m *= 0.5;
        exponent += 1.0;
    }
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    // The twelfth term is below 2⁻⁶⁰ of the first.
    let rest = (1..12_u32).rev().fold(0.0, |sum, term| {
        sum * square + 1.0 / f64::from(2 * term + 1)
    });
    exponent * LN_2 + 2.0 * s * (1.0 + square * rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed from the scheme's words by another program, in Python. Changing these numbers changes the results of
    /// everyone's runs.
    #[test]
    fn the_scheme_is_kept() {
        let golden = || stream(1, "init/fc1.weight", 2, 3);
        let mut words = golden();
        // Ten words: the last two are of the second block.
        for word in [
            0x65c3_19b8_7185_e829,
            0x9303_3208_dadf_d4aa,
            0xee9f_972a_6940_1b23,
            0xbb29_fc6d_1b5f_e226,
            0xaf0b_f71d_4e51_de60,
            0x8376_bf0e_b8f0_dd3d,
            0x3533_09e9_7f8b_a7c9,
            0x337f_9f08_6081_3943,
            0x5991_c993_4c01_ced1,
            0x0897_b07f_c089_a23a,
        ] {
            assert_eq!(words.bits(), word);
        }
        let mut numbers = golden();
        let pair = [numbers.unit(), numbers.uniform(-1.0, 3.0)];
        let expected = [0.397_508_246_927_393_95, 1.297_070_034_644_545_6_f64];
        assert_eq!(pair.map(f64::to_bits), expected.map(f64::to_bits));
        assert_eq!(golden().permutation(10), [1, 6, 9, 0, 2, 4, 8, 7, 5, 3]);
        let mut normal = golden();
        for bits in [
            0xbffe_5f1e_9639_425d,
            0x3ff6_0200_8a6e_2c46,
            0x3fd0_023a_8d5a_27b7,
            0x3fc1_1fa8_b957_6941,
        ] {
            assert_eq!(normal.normal().to_bits(), bits);
        }
    }

    #[test]
    fn the_logarithm_is_the_c_librarys_to_the_last_bits() {
        let mut stream = stream(9, "logarithm", 0, 0);
        for _ in 0..100_000 {
            // Everywhere from 1e-30 to 1, and close to 1.
            let x = stream.unit() * 10.0_f64.powf(stream.uniform(-30.0, 0.0));
            for x in [x, 1.0 - x] {
                let (found, expected) = (ln(x), x.ln());
                let error = (found - expected).abs();
                assert!(
                    error <= expected.abs() * 4.5e-16,
                    "{x:e}: {found} {expected}"
                );
            }
        }
    }

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
