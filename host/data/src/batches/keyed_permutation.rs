//! A permutation that is computed element by element, without memory: a Feistel network over the numbers of an even
//! number of bits, walked until it is back among those below the count.
//!
//! A Feistel network is a bijection whatever its round function is; the cycle of it through a number below `count` returns
//! there, so that following it to the next number below `count` is a bijection of these (Black and Rogaway, "Ciphers with
//! Arbitrary Finite Domains", 2002). The domain has fewer than four times as many numbers, so a walk takes fewer than four
//! steps on average.

use sconce_ops::random;

/// Rounds of the network: four make a random one indistinguishable by few queries, and two more cost nothing beside reading a
/// sample.
const ROUNDS: usize = 6;

/// A permutation of the numbers below a count, drawn from a seed and an epoch.
#[derive(Clone, Debug)]
pub struct KeyedPermutation {
    count: u32,
    /// Number of bits of each half.
    half: u32,
    keys: [u64; ROUNDS],
}

impl KeyedPermutation {
    /// Draws the permutation of an epoch.
    pub fn new(seed: u64, epoch: u64, count: u32) -> KeyedPermutation {
        let mut stream = random::stream(seed, "order-permutation", epoch, 0);
        let bits = u32::BITS - count.saturating_sub(1).leading_zeros();
        KeyedPermutation {
            count,
            half: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| stream.bits()),
        }
    }

    /// Returns how many numbers are permuted.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number at a place below the count; the place itself elsewhere.
    pub fn at(&self, place: u32) -> u32 {
        if place >= self.count {
            return place;
        }
        let mut number = u64::from(place);
        loop {
            number = self.encrypt(number);
            match u32::try_from(number) {
                Ok(number) if number < self.count => return number,
                _ => {}
            }
        }
    }

    fn encrypt(&self, number: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut left, mut right) = (number >> self.half, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mixed(right ^ key) & mask));
        }
        (left << self.half) | right
    }
}

/// Spreads each bit over all (the finaliser of `SplitMix64`, by Steele, Lea and Flood, 2014).
fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_comes_once() {
        for count in [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097] {
            let permutation = KeyedPermutation::new(7, 1, count);
            let mut found: Vec<u32> = (0..count).map(|place| permutation.at(place)).collect();
            found.sort_unstable();
            assert_eq!(found, (0..count).collect::<Vec<u32>>());
            assert_eq!(permutation.at(count), count);
        }
        // The largest count: no overflow.
        let largest = KeyedPermutation::new(1, 1, u32::MAX);
        assert_ne!(largest.at(0), largest.at(u32::MAX - 1));
    }

    /// A promise, as those of `random`: a resumed run needs the same order.
    #[test]
    fn orders_stay_what_they_are() {
        let permutation = KeyedPermutation::new(1, 0, 30_000_000);
        let first: Vec<u32> = (0..4).map(|place| permutation.at(place)).collect();
        assert_eq!(first, GOLDEN);
        let other = KeyedPermutation::new(1, 1, 30_000_000);
        assert_ne!(other.at(0), permutation.at(0));
    }

    const GOLDEN: [u32; 4] = [27_822_241, 10_843_873, 29_669_319, 12_350_633];

    #[test]
    fn neighbours_are_apart_and_halves_are_mixed() {
        let count = 10_000;
        let permutation = KeyedPermutation::new(3, 0, count);
        let found: Vec<u32> = (0..count).map(|place| permutation.at(place)).collect();
        // Of a random permutation one number is in its place, and half of the first half are from it: standard deviation 35.
        let fixed = (0..).zip(&found).filter(|(place, number)| place == *number);
        assert!(fixed.count() < 8);
        let lower = found.iter().take(5_000).filter(|number| **number < 5_000);
        assert!(lower.count().abs_diff(2_500) < 150);
        let distance = |pair: &[u32]| f64::from(pair[0].abs_diff(pair[1]));
        let mean = found.windows(2).map(distance).sum::<f64>() / 9_999.0;
        assert!((mean / 10_000.0 - 1.0 / 3.0).abs() < 0.02, "{mean}");
    }
}
