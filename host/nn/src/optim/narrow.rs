//! Moments stored as `bf16`: half the memory, with 8 significant bits, rounded up or down at random.
//!
//! A step widens a block of them to the parameter's type, runs the optimizer's sweep over it, and rounds what it leaves. So the step itself
//! has the new moments in full, and only what the next one reads is rounded.
//!
//! **Why at random.** Adam's second moment moves by a thousandth of what a gradient differs from it, less than half of the distance
//! between neighbouring `bf16`: rounded to the nearest it stands still (`narrow_tests` has both). A value between two neighbours goes to
//! the upper one with the probability of its place between them, so that errors average out.
//!
//! **The scheme is a promise** (held by a golden test). The key is the first 64 bits of the stream of the model's seed, the purpose
//! `moments/PARAMETER`, epoch 0, and the number of the parameter's step as iteration. Element i has the word of [`counted`] in row
//! ⌊i / 1024⌋ with the index i mod 1024: its lower 16 bits are added to the bits of the first moment in `f32`, its upper 16 to those of the
//! second, of which the upper half is kept. NaN stays NaN. So bits depend neither on threads and ranks nor on the order of parameters.

use half::bf16;
use sconce_ops::kernels::fill::{Rows, Schedule, fill_parts};
use sconce_ops::kernels::region;
use sconce_ops::random;
use sconce_ops::{counted, vectorised};

use super::elements::{Float, Sweep, SweepSlices};

/// Elements that are widened at once, and have a row of random words.
const BLOCK: usize = 1024;

/// Most moments of an optimizer that can be stored so: a word has the random bits of two.
const MOST: usize = 2;

/// Elements of a parameter and its gradient, and of its moments where there are any.
pub(super) struct NarrowSlices<'a, T> {
    pub(super) parameter: &'a mut [T],
    pub(super) gradient: &'a [T],
    pub(super) moments: [&'a mut [bf16]; MOST],
}

/// The key of the words by which the moments of a parameter are rounded at its step of this number.
pub(super) fn key(seed: u64, parameter: &str, step: u64) -> u64 {
    random::stream(seed, &format!("moments/{parameter}"), 0, step).bits()
}

/// Runs a sweep over ranges of the elements in parallel; moments are rounded by the words of `key`.
pub(super) fn distribute<T: Float>(sweep: &impl Sweep, numbers: NarrowSlices<'_, T>, key: u64) {
    let NarrowSlices {
        parameter,
        gradient,
        moments,
    } = numbers;
    let count = parameter.len().min(gradient.len());
    let threads = region::parts(count * 24);
    let [first, second] = moments.map(|moment| Rows::if_any(moment, 1));
    // Cut between blocks.
    let schedule = Schedule::stealing(threads, count, BLOCK);
    let memory = (Rows::new(parameter, 1), first, second);
    fill_parts(schedule, memory, |range, (parameter, first, second)| {
        let block = (range.start / BLOCK) as u64;
        let gradient = &gradient[range.clone()];
        run_narrow(sweep, parameter, gradient, first, second, key, block);
        ((), (), ())
    });
}

vectorised! {
    /// Runs a sweep over elements that begin with this block.
    pub(super) fn run_narrow<S: Sweep, T: Float>(
        sweep: &S,
        parameter: &mut [T],
        gradient: &[T],
        first: &mut [bf16],
        second: &mut [bf16],
        key: u64,
        block: u64,
    ) {
        let mut wide = [[T::ZERO; BLOCK]; MOST];
        let [wide_first, wide_second] = &mut wide;
        let mut words = [0; BLOCK];
        let blocks = parameter.chunks_mut(BLOCK).zip(gradient.chunks(BLOCK));
        // Of a moment that is not there, a block has no elements.
        let mut moments = (first.chunks_mut(BLOCK), second.chunks_mut(BLOCK));
        for (block, (parameter, gradient)) in (block..).zip(blocks) {
            let first = moments.0.next().unwrap_or_default();
            let second = moments.1.next().unwrap_or_default();
            let (wide_first, wide_second) =
                (&mut wide_first[..first.len()], &mut wide_second[..second.len()]);
            widen(first, wide_first);
            widen(second, wide_second);
            let count = parameter.len();
            let moments = [&mut *wide_first, &mut *wide_second, &mut []];
            sweep.run(SweepSlices { parameter, gradient, moments });
            let words = &mut words[..count];
            draw(counted::row(key, block), words);
            narrow(wide_first, first, words, |word| word & 0xffff);
            narrow(wide_second, second, words, |word| word >> 16);
        }
    }
}

#[inline(always)]
fn widen<T: Float>(narrow: &[bf16], wide: &mut [T]) {
    for (wide, narrow) in wide.iter_mut().zip(narrow) {
        *wide = T::from_f32(f32::from_bits(u32::from(narrow.to_bits()) << 16));
    }
}

/// Draws the words of a row.
#[inline(always)]
fn draw((low, high): (u32, u32), words: &mut [u32]) {
    for (index, word) in words.iter_mut().enumerate() {
        let low = low.wrapping_add((index as u32).wrapping_mul(counted::ROW_STEP));
        *word = counted::word(low, high);
    }
}

/// Rounds elements, each by 16 bits of its word.
#[inline(always)]
fn narrow<T: Float>(wide: &[T], narrow: &mut [bf16], words: &[u32], part: impl Fn(u32) -> u32) {
    for ((narrow, wide), word) in narrow.iter_mut().zip(wide).zip(words) {
        *narrow = rounded(wide.to_f32(), part(*word));
    }
}

/// The neighbour of `x` away from zero with a probability of its place between the two, else that towards zero, by 16 random bits.
#[inline(always)]
pub(super) fn rounded(x: f32, random: u32) -> bf16 {
    let bits = x.to_bits();
    let kept = if x.is_nan() {
        // The sum could run over into the sign, or leave infinity.
        bits >> 16 | 0x40
    } else {
        bits.wrapping_add(random) >> 16
    };
    bf16::from_bits(kept as u16)
}
