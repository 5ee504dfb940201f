//! Words of 32 bits that consist of two elements rounded to `bf16`, the first in the lower half, and copies of lines in them.
//!
//! Every line has whole words: where its number of elements is odd, the last word has a zero in place of the second.
//!
//! **Parts.** [`along`]: pairs of elements of a line. [`across`]: pairs of lines. Processors with AVX-512 BF16 round by one instruction,
//! with the same bits as [`rounded`].

use crate::vectorised;

/// Bits of what an element becomes: rounded to the nearest, ties to even; denormal numbers become 0, and NaN is quiet.
#[inline(always)]
pub(crate) fn rounded(number: f32) -> u32 {
    let bits = number.to_bits();
    let high = bits >> 16;
    let size = bits & 0x7fff_ffff;
    let nearest = bits.wrapping_add(0x7fff + (high & 1)) >> 16;
    let finite = if size < 0x0080_0000 {
        high & 0x8000
    } else {
        nearest
    };
    if size > 0x7f80_0000 {
        high | 0x40
    } else {
        finite
    }
}

#[inline(always)]
fn word(first: f32, second: f32) -> f32 {
    f32::from_bits(rounded(first) | rounded(second) << 16)
}

/// Writes the words of lines of this length, `step` apart: of `count` lines, each line's words `wide` after those of the one before.
pub(crate) fn along(
    from: &[f32],
    step: usize,
    (count, length): (usize, usize),
    wide: usize,
    to: &mut [f32],
) {
    if count == 0 || length == 0 {
        return;
    }
    let fits = (count - 1) * step + length <= from.len()
        && (count - 1) * wide + length.div_ceil(2) <= to.len();
    assert!(fits, "the words of lines don't fit");
    #[cfg(target_arch = "x86_64")]
    if crate::kernels::has_pairs() {
        // SAFETY: the processor has the instructions.
        #[expect(unsafe_code, reason = "the only way in")]
        unsafe {
            native::along(from, step, (count, length), wide, to);
        }
        return;
    }
    along_by_bits(from, step, (count, length), wide, to);
}

/// Writes the words of pairs of lines of this length, `step` apart: of `depth` lines, each pair's words `wide` after those of the pair
/// before.
pub(crate) fn across(
    from: &[f32],
    step: usize,
    (depth, length): (usize, usize),
    wide: usize,
    to: &mut [f32],
) {
    if depth == 0 || length == 0 {
        return;
    }
    let fits = (depth - 1) * step + length <= from.len()
        && (depth.div_ceil(2) - 1) * wide + length <= to.len();
    assert!(fits, "the words of pairs of lines don't fit");
    #[cfg(target_arch = "x86_64")]
    if crate::kernels::has_pairs() {
        // SAFETY: the processor has the instructions.
        #[expect(unsafe_code, reason = "the only way in")]
        unsafe {
            native::across(from, step, (depth, length), wide, to);
        }
        return;
    }
    across_by_bits(from, step, (depth, length), wide, to);
}

vectorised! {
    fn along_by_bits(from: &[f32], step: usize, dims: (usize, usize), wide: usize, to: &mut [f32]) {
        let (count, length) = dims;
        for line in 0..count {
            let (pairs, last) = from[line * step..][..length].as_chunks::<2>();
            let to = &mut to[line * wide..][..length.div_ceil(2)];
            for (to, &[first, second]) in to.iter_mut().zip(pairs) {
                *to = word(first, second);
            }
            if let ([last], Some(to)) = (last, to.get_mut(pairs.len())) {
                *to = word(*last, 0.0);
            }
        }
    }
}

vectorised! {
    fn across_by_bits(from: &[f32], step: usize, dims: (usize, usize), wide: usize, to: &mut [f32]) {
        let (depth, length) = dims;
        for first in (0..depth).step_by(2) {
            let to = &mut to[first / 2 * wide..][..length];
            let upper = &from[first * step..][..length];
            if first + 1 < depth {
                let lower = &from[(first + 1) * step..][..length];
                pair(upper, lower, to);
            } else {
                for (to, &first) in to.iter_mut().zip(upper) {
                    *to = word(first, 0.0);
                }
            }
        }
    }
}

/// The words of two lines, in chunks whose length the compiler knows: tiles are mostly of these widths.
#[inline(always)]
fn pair(upper: &[f32], lower: &[f32], to: &mut [f32]) {
    let (mut upper, mut lower, mut to) = (upper, lower, to);
    while let (Some((first, upper_rest)), Some((second, lower_rest))) = (
        upper.split_first_chunk::<LANES>(),
        lower.split_first_chunk::<LANES>(),
    ) {
        let Some((words, to_rest)) = to.split_first_chunk_mut::<LANES>() else {
            return;
        };
        for lane in 0..LANES {
            words[lane] = word(first[lane], second[lane]);
        }
        (upper, lower, to) = (upper_rest, lower_rest, to_rest);
    }
    for ((to, &first), &second) in to.iter_mut().zip(upper).zip(lower) {
        *to = word(first, second);
    }
}

/// Elements that are rounded together.
const LANES: usize = 16;

/// The same by AVX-512's instruction for it, which rounds as [`rounded`] does.
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "the instructions are behind pointers and a processor that has them"
)]
mod native {
    use std::arch::x86_64::{
        __m512, __m512bh, __m512i, __mmask16, _mm512_castsi512_ps, _mm512_cvtne2ps_pbh,
        _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
        _mm512_permutexvar_epi16, _mm512_setzero_ps, _mm512_storeu_ps,
    };
    use std::mem::transmute;

    use super::LANES;

    /// Where the elements of each word are in two registers, one after the other.
    const INTERLEAVED: [u16; 2 * LANES] = {
        let mut places = [0; 2 * LANES];
        let mut word = 0;
        while word < LANES {
            places[2 * word] = word as u16;
            places[2 * word + 1] = (word + LANES) as u16;
            word += 1;
        }
        places
    };

    /// The elements of both, rounded, those of `first` in the lower half.
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn both(first: __m512, second: __m512) -> __m512i {
        let halves = _mm512_cvtne2ps_pbh(second, first);
        // SAFETY: both are registers of 512 bits.
        unsafe { transmute::<__m512bh, __m512i>(halves) }
    }

    /// The first `count` elements.
    fn mask(count: usize) -> __mmask16 {
        if count >= LANES { !0 } else { (1 << count) - 1 }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(super) fn along(
        from: &[f32],
        step: usize,
        (count, length): (usize, usize),
        wide: usize,
        to: &mut [f32],
    ) {
        for line in 0..count {
            let from = &from[line * step..][..length];
            let to = &mut to[line * wide..][..length.div_ceil(2)];
            let (pairs, rest) = from.as_chunks::<{ 2 * LANES }>();
            let (to, to_rest) = to.split_at_mut(pairs.len() * LANES);
            for (from, to) in pairs.iter().zip(to.chunks_exact_mut(LANES)) {
                // SAFETY: these have the elements of two registers and of one.
                unsafe {
                    let [first, second] =
                        [0, LANES].map(|at| _mm512_loadu_ps(from.as_ptr().add(at)));
                    _mm512_storeu_ps(to.as_mut_ptr(), _mm512_castsi512_ps(both(first, second)));
                }
            }
            if rest.is_empty() {
                continue;
            }
            let beyond = rest.len().saturating_sub(LANES);
            // SAFETY: masks leave out what is beyond the elements of both; there are as many words as pairs.
            unsafe {
                let first = _mm512_maskz_loadu_ps(mask(rest.len()), rest.as_ptr());
                let second = _mm512_maskz_loadu_ps(mask(beyond), rest.as_ptr().wrapping_add(LANES));
                let words = _mm512_castsi512_ps(both(first, second));
                _mm512_mask_storeu_ps(to_rest.as_mut_ptr(), mask(to_rest.len()), words);
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub(super) fn across(
        from: &[f32],
        step: usize,
        (depth, length): (usize, usize),
        wide: usize,
        to: &mut [f32],
    ) {
        // SAFETY: the array has the elements of a register.
        let places = unsafe { _mm512_loadu_si512(INTERLEAVED.as_ptr().cast()) };
        let words = |first: __m512, second: __m512| {
            _mm512_castsi512_ps(_mm512_permutexvar_epi16(places, both(first, second)))
        };
        for line in (0..depth).step_by(2) {
            let upper = &from[line * step..][..length];
            let lower = (line + 1 < depth).then(|| &from[(line + 1) * step..][..length]);
            let to = &mut to[line / 2 * wide..][..length];
            let mut at = 0;
            while at + LANES <= length {
                // SAFETY: all lines have a register's elements from here on.
                unsafe {
                    let first = _mm512_loadu_ps(upper.as_ptr().add(at));
                    let second = match lower {
                        Some(lower) => _mm512_loadu_ps(lower.as_ptr().add(at)),
                        None => _mm512_setzero_ps(),
                    };
                    _mm512_storeu_ps(to.as_mut_ptr().add(at), words(first, second));
                }
                at += LANES;
            }
            if at < length {
                let mask = mask(length - at);
                // SAFETY: the mask leaves out what is beyond the lines.
                unsafe {
                    let first = _mm512_maskz_loadu_ps(mask, upper.as_ptr().add(at));
                    let second = match lower {
                        Some(lower) => _mm512_maskz_loadu_ps(mask, lower.as_ptr().add(at)),
                        None => _mm512_setzero_ps(),
                    };
                    _mm512_mask_storeu_ps(to.as_mut_ptr().add(at), mask, words(first, second));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    /// Numbers of any bits, moderate ones, and edges.
    fn numbers(count: usize) -> Vec<f32> {
        let mut stream = random::stream(7, "words", 0, 0);
        let mut bits = || (stream.uniform(0.0, 65536.0) as u32).min(0xffff);
        let edges = [
            f32::NAN,
            f32::from_bits(0xff80_0001),
            f32::INFINITY,
            f32::MAX,
            -0.0,
            f32::MIN_POSITIVE / 2.0,
            f32::from_bits(0x007f_ffff),
            f32::from_bits(0x3f80_8000),
            f32::from_bits(0x3f81_8000),
        ];
        (0..count)
            .map(|index| match index % 3 {
                0 => f32::from_bits(bits() << 16 | bits()),
                1 => f32::from_bits(((0x3c00 + bits() % 0x0600) << 16) | bits()),
                _ => edges[index / 3 % edges.len()],
            })
            .collect()
    }

    fn bits(words: &[f32]) -> Vec<u32> {
        words.iter().map(|word| word.to_bits()).collect()
    }

    #[test]
    fn words_are_those_of_the_definition_by_all_instructions() {
        let numbers = numbers(4_000);
        for length in [1, 2, 15, 16, 17, 31, 32, 33, 64, 301] {
            let from = &numbers[length..2 * length];
            let expected: Vec<u32> = from
                .chunks(2)
                .map(|pair| {
                    let second = pair.get(1).map_or(0, |second| rounded(*second));
                    rounded(pair[0]) | second << 16
                })
                .collect();
            let words = length.div_ceil(2);
            for by in [along, along_by_bits] {
                let mut to = vec![7.0; 2 * words + 1];
                by(from, 0, (2, length), words + 1, &mut to);
                assert_eq!(bits(&to[..words]), expected, "{length}");
                assert_eq!(bits(&to[words + 1..]), expected, "{length}");
                assert_eq!(to[words].to_bits(), 7.0_f32.to_bits(), "{length}");
            }
            for depth in [1, 2, 5] {
                let (step, wide) = (length + 3, length + 2);
                let from = &numbers[..(depth - 1) * step + length];
                let lines = depth.div_ceil(2);
                let mut expected = vec![7.0_f32.to_bits(); lines * wide];
                for (line, to) in expected.chunks_mut(wide).enumerate() {
                    for (place, to) in to.iter_mut().take(length).enumerate() {
                        let second = from.get((2 * line + 1) * step + place).map(|x| rounded(*x));
                        *to = rounded(from[2 * line * step + place]) | second.unwrap_or(0) << 16;
                    }
                }
                for by in [across, across_by_bits] {
                    let mut to = vec![7.0; lines * wide];
                    by(from, step, (depth, length), wide, &mut to);
                    assert_eq!(bits(&to), expected, "{length} {depth}");
                }
            }
        }
    }
}
