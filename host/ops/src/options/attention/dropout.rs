//! Which weights of an attention are dropped: random numbers by counter.
//!
//! A weight's number is a function of the stream's key, the head (of all rows of the batch), the query and the key, so that it can
//! be drawn again in the backward pass, in any order, by any number of threads.
//!
//! **The scheme is a promise** (held by a golden test). With the first 64 bits of the stream as key, a weight's number is the word of
//! [`counted`] with its key's index in the row (head · 2³² + query). The weight is dropped where it is less than share · 2³², rounded.

use crate::counted;
pub(crate) use crate::counted::{ROW_STEP, word as dropped_word};
use crate::random::Stream;

/// Dropout of an attention's weights: a fraction of them is 0, and the others are scaled by 1 / (1 − share).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionDropout {
    share: f64,
    key: u64,
}

impl AttentionDropout {
    /// Drops a fraction from 0 to below 1, by the numbers of a stream.
    pub fn new(share: f64, mut stream: Stream) -> AttentionDropout {
        AttentionDropout {
            share: share.clamp(0.0, 1.0 - f64::EPSILON),
            key: stream.bits(),
        }
    }

    /// The number below which a weight's word drops it.
    pub(crate) fn threshold(&self) -> u32 {
        (self.share * (1_u64 << 32) as f64).round() as u32
    }

    /// The factor of weights that are kept.
    pub(crate) fn factor(&self) -> f64 {
        1.0 / (1.0 - self.share)
    }

    /// The words (low, high) of a query of a head; heads are counted through all rows of the batch.
    pub(crate) fn row(&self, head: usize, query: usize) -> (u32, u32) {
        counted::row(self.key, (head as u64) << 32 | query as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    fn word(dropout: &AttentionDropout, head: usize, query: usize, key: u32) -> u32 {
        let (low, high) = dropout.row(head, query);
        dropped_word(low.wrapping_add(key.wrapping_mul(ROW_STEP)), high)
    }

    /// Computed by another program, in Python (`tests/reference/attention_dropout.py`). Changing these numbers changes the
    /// results of everyone's runs.
    #[test]
    fn the_scheme_is_kept() {
        let dropout = AttentionDropout {
            share: 0.1,
            key: 0x0123_4567_89ab_cdef,
        };
        assert_eq!(dropout.threshold(), 429_496_730);
        let words = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (37, 255, 1023)]
            .map(|(head, query, key)| word(&dropout, head, query, key));
        assert_eq!(words, GOLDEN);
    }

    const GOLDEN: [u32; 5] = [
        0xde87_2976,
        0x4e05_0c07,
        0x9747_1470,
        0xd3a0_7d62,
        0x5d7b_556b,
    ];

    /// Shares of what is dropped, and of what is dropped in neighbouring rows, columns and heads together.
    #[test]
    fn numbers_are_even_and_independent() {
        let dropout = AttentionDropout::new(0.25, stream(3, "dropout/a", 1, 2));
        let is_dropped = |head, query, key| word(&dropout, head, query, key) < dropout.threshold();
        let side = 128;
        let mut counts = [0_u32; 4];
        for head in 0..8 {
            for query in 0..side {
                for key in 0..side as u32 {
                    let own = is_dropped(head, query, key);
                    counts[0] += u32::from(own);
                    counts[1] += u32::from(own && is_dropped(head, query, key + 1));
                    counts[2] += u32::from(own && is_dropped(head, query + 1, key));
                    counts[3] += u32::from(own && is_dropped(head + 1, query, key));
                }
            }
        }
        let all = f64::from(8 * (side * side) as u32);
        for (count, expected) in counts.into_iter().zip([0.25, 0.0625, 0.0625, 0.0625]) {
            let share = f64::from(count) / all;
            // Five standard deviations.
            assert!(
                (share - expected).abs() < 5.0 * (expected / all).sqrt(),
                "{share} {expected}"
            );
        }
    }
}
