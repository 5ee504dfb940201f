//! Random words by counter: any of them can be drawn at any time, by any thread, and drawn again.
//!
//! Words are in rows: a row's two halves follow from a key and the row's counter, and its words from these and their indices,
//! cheaply and in vectors.
//!
//! **The scheme is a promise** (held by golden tests of what draws them). `SplitMix64`'s output (Steele et al., 2014) for the state key +
//! (counter + 1) · γ gives the row's halves, the lower and the upper 32 bits. Of these and the index a mixing function by multiplication
//! and shifts (constants by Wellons, 2018) gives the word.

/// γ, added to the state for each further row.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The upper half of γ, added to a row's lower half for each further word.
pub const ROW_STEP: u32 = 0x9e37_79b9;

/// The halves (low, high) of the row with this counter.
pub fn row(key: u64, counter: u64) -> (u32, u32) {
    let mut z = key.wrapping_add(counter.wrapping_add(1).wrapping_mul(GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z as u32, (z >> 32) as u32)
}

/// 32 random bits, from a row's halves, the lower one with the word's index · [`ROW_STEP`] added.
#[inline(always)]
pub fn word(low: u32, high: u32) -> u32 {
    let mut x = low;
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d) ^ high;
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}
