//! Copies of matrices in pairs of elements along the depth, rounded to `bf16`: words of 32 bits, the first element in the lower half.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::kernels::products::tile::{strips, tile_columns, transpose, transpose_strip};
use crate::kernels::{Matrix, write_rows, written, zeros};
use crate::vectorised;

/// Bits of what an element becomes: rounded to the nearest, ties to even; denormal numbers become 0, and NaN is quiet.
#[inline(always)]
pub(super) fn rounded(number: f32) -> u32 {
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

vectorised! {
    /// The words of numbers that lie one after the other.
    fn along(from: &[f32], to: &mut [f32]) {
        let (pairs, last) = from.as_chunks::<2>();
        for (word_at, &[first, second]) in to.iter_mut().zip(pairs) {
            *word_at = word(first, second);
        }
        if let ([last], Some(to)) = (last, to.get_mut(pairs.len())) {
            *to = word(*last, 0.0);
        }
    }
}

vectorised! {
    /// The words of pairs of lines of the same length, `step` apart, each pair's `wide` words after the one before.
    fn across(from: &[f32], step: usize, depth: usize, length: usize, wide: usize, to: &mut [f32]) {
        let dims = (depth, wide);
        match length {
            32 => lines::<32>(from, step, dims, to),
            16 => lines::<16>(from, step, dims, to),
            12 => lines::<12>(from, step, dims, to),
            11 => lines::<11>(from, step, dims, to),
            10 => lines::<10>(from, step, dims, to),
            6 => lines::<6>(from, step, dims, to),
            5 => lines::<5>(from, step, dims, to),
            _ => {
                for (first, to) in (0..depth).step_by(2).zip(to.chunks_exact_mut(wide)) {
                    for (place, to) in to.iter_mut().take(length).enumerate() {
                        let second = first + 1 < depth;
                        let second = if second { from[(first + 1) * step + place] } else { 0.0 };
                        *to = word(from[first * step + place], second);
                    }
                }
            }
        }
    }
}

/// [`across`] for lines of a length that the compiler knows.
#[inline(always)]
fn lines<const LENGTH: usize>(
    from: &[f32],
    step: usize,
    (depth, wide): (usize, usize),
    to: &mut [f32],
) {
    let none = [0.0; LENGTH];
    for (first, to) in (0..depth).step_by(2).zip(to.chunks_exact_mut(wide)) {
        let line = |place: usize| {
            from.get(place * step..)
                .and_then(<[f32]>::first_chunk::<LENGTH>)
        };
        let second = if first + 1 < depth {
            line(first + 1)
        } else {
            Some(&none)
        };
        let (Some(first), Some(second), Some(to)) =
            (line(first), second, to.first_chunk_mut::<LENGTH>())
        else {
            return;
        };
        for place in 0..LENGTH {
            to[place] = word(first[place], second[place]);
        }
    }
}

/// Packs some rows and elements along the depth of a left matrix into strips of words.
pub(super) fn pack_strips(
    left: Matrix<'_, f32>,
    rows: &Range<usize>,
    depth: &Range<usize>,
    to: &mut [f32],
) {
    let words = depth.len().div_ceil(2);
    let start = rows.start * left.row_step + depth.start * left.column_step;
    let mut room = Vec::new();
    for strip in strips(rows.len()) {
        let from = &left.numbers[start + strip.start * left.row_step..];
        let to = &mut to[strip.start * words..];
        let height = strip.len();
        if left.column_step == 1 {
            room.resize(height * words, 0.0);
            for (row, room) in room.chunks_exact_mut(words).take(height).enumerate() {
                along(&from[row * left.row_step..][..depth.len()], room);
            }
            transpose_strip(&room, words, (height, words), to);
            continue;
        }
        assert!(left.row_step == 1, "a matrix of other strides is packed");
        across(from, left.column_step, depth.len(), height, height, to);
    }
}

/// Packs some columns and elements along the depth of a right matrix into panels of words.
pub(super) fn pack_panels<'a>(
    right: Matrix<'_, f32>,
    depth: &Range<usize>,
    columns: &Range<usize>,
    to: &'a mut [MaybeUninit<f32>],
) -> &'a mut [f32] {
    let start = depth.start * right.row_step + columns.start * right.column_step;
    let from = &right.numbers[start..];
    let wide = tile_columns();
    let (depth, columns) = (depth.len(), columns.len());
    let words = depth.div_ceil(2);
    let mut room = Vec::new();
    write_rows(to, &(0..columns.div_ceil(wide)), |index, to| {
        let first = index * wide;
        let count = wide.min(columns - first);
        let from = &from[first * right.column_step..];
        let to = zeros(to);
        if right.column_step == 1 {
            across(from, right.row_step, depth, count, wide, to);
            return to;
        }
        assert!(right.row_step == 1, "a matrix of other strides is packed");
        room.resize(count * words, 0.0);
        for (column, room) in room.chunks_exact_mut(words).enumerate() {
            along(&from[column * right.column_step..][..depth], room);
        }
        transpose(&room, words, (count, words), to, wide);
        to
    });
    // SAFETY: `write_rows` has had all of it written.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(to)
    }
}
