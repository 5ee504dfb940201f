//! Copies of matrices with rows and columns exchanged, eight by eight in registers.

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

#[cfg(target_arch = "x86_64")]
use super::registers::{Avx2, Registers};

/// Rows and columns that are exchanged at once.
const SIDE: usize = 8;

/// Rows whose blocks follow each other.
#[cfg(target_arch = "x86_64")]
const TOGETHER: usize = 32;

/// Writes `from`, rows of so many columns from `from_step` to `from_step`, as columns: its number at (row,
/// column) to `column * to_step + row`. To be called where [`super::has_tiles`] says so.
#[expect(unsafe_code, reason = "registers are read and written by pointers")]
pub(crate) fn transpose(
    from: &[f32],
    from_step: usize,
    dims: (usize, usize),
    to: &mut [f32],
    to_step: usize,
) {
    assert!(
        fits(dims, to_step, to.len()),
        "a transposed copy doesn't fit"
    );
    // SAFETY: it was found to fit.
    unsafe { transpose_at(from, from_step, dims, to.as_mut_ptr(), to_step) };
}

/// [`transpose`] to places that nothing was written to.
#[expect(unsafe_code, reason = "registers are read and written by pointers")]
pub(crate) fn transpose_fresh(
    from: &[f32],
    from_step: usize,
    dims: (usize, usize),
    to: &mut [MaybeUninit<f32>],
    to_step: usize,
) {
    assert!(
        fits(dims, to_step, to.len()),
        "a transposed copy doesn't fit"
    );
    // SAFETY: it was found to fit.
    unsafe { transpose_at(from, from_step, dims, to.as_mut_ptr().cast(), to_step) };
}

/// Whether the columns of what is written lie in so much memory.
fn fits((rows, columns): (usize, usize), to_step: usize, length: usize) -> bool {
    rows == 0 || columns == 0 || (columns - 1) * to_step + rows <= length
}

/// [`transpose`] to memory of which other places are others'.
///
/// # Safety
///
/// The places that are written lie in memory, and nobody else reads or writes them meanwhile.
#[expect(unsafe_code, reason = "registers are read and written by pointers")]
pub(crate) unsafe fn transpose_at(
    from: &[f32],
    from_step: usize,
    (rows, columns): (usize, usize),
    to: *mut f32,
    to_step: usize,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    let fits = (rows - 1) * from_step + columns <= from.len();
    assert!(fits && super::has_tiles(), "a transposed copy doesn't fit");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the processor was found to have these instructions, what is read lies in its memory, and what is
    // written by the caller's word.
    unsafe {
        all(from.as_ptr(), from_step, (rows, columns), to, to_step);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (to, to_step);
}

/// # Safety
///
/// The processor has AVX2, and both matrices lie in their memory.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[expect(unsafe_code, reason = "registers are read and written by pointers")]
unsafe fn all(
    from: *const f32,
    from_step: usize,
    (rows, columns): (usize, usize),
    to: *mut f32,
    to_step: usize,
) {
    // So many rows together that what is written comes in whole lines of the cache.
    for first in (0..rows).step_by(TOGETHER) {
        let last = rows.min(first + TOGETHER);
        for column in (0..columns).step_by(SIDE) {
            for row in (first..last).step_by(SIDE) {
                let dims = (SIDE.min(last - row), SIDE.min(columns - column));
                // SAFETY: as the caller says; the block is inside both matrices.
                unsafe {
                    let from = from.add(row * from_step + column);
                    block(
                        from,
                        from_step,
                        dims,
                        to.add(column * to_step + row),
                        to_step,
                    );
                }
            }
        }
    }
}

/// At most eight rows of at most eight numbers.
///
/// # Safety
///
/// The processor has AVX2, and both matrices lie in their memory.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[expect(unsafe_code, reason = "registers are read and written by pointers")]
unsafe fn block(
    from: *const f32,
    from_step: usize,
    (high, wide): (usize, usize),
    to: *mut f32,
    to_step: usize,
) {
    // SAFETY: as the caller says; masks leave out what is beyond the last row and column.
    unsafe {
        let mut block = [Avx2::zero(); SIDE];
        if high == SIDE && wide == SIDE {
            for (line, block) in block.iter_mut().enumerate() {
                *block = Avx2::load(from.add(line * from_step));
            }
            for (line, turned) in turned(block).into_iter().enumerate() {
                Avx2::store(to.add(line * to_step), turned);
            }
        } else {
            let (across, down) = (Avx2::mask(wide), Avx2::mask(high));
            for (line, block) in block[..high].iter_mut().enumerate() {
                *block = Avx2::load_some(from.add(line * from_step), across);
            }
            for (line, turned) in turned(block).into_iter().take(wide).enumerate() {
                Avx2::store_some(to.add(line * to_step), down, turned);
            }
        }
    }
}

/// Eight rows of eight as columns: pairs of numbers, then of pairs, then of halves.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn turned(rows: [__m256; SIDE]) -> [__m256; SIDE] {
    let pairs = |first: usize| (rows[first], rows[first + 1]);
    let low = [0, 2, 4, 6].map(|first| {
        let (upper, lower) = pairs(first);
        _mm256_unpacklo_ps(upper, lower)
    });
    let high = [0, 2, 4, 6].map(|first| {
        let (upper, lower) = pairs(first);
        _mm256_unpackhi_ps(upper, lower)
    });
    let fours = |pairs: [__m256; 4]| {
        [
            _mm256_shuffle_ps::<0b01_00_01_00>(pairs[0], pairs[1]),
            _mm256_shuffle_ps::<0b11_10_11_10>(pairs[0], pairs[1]),
            _mm256_shuffle_ps::<0b01_00_01_00>(pairs[2], pairs[3]),
            _mm256_shuffle_ps::<0b11_10_11_10>(pairs[2], pairs[3]),
        ]
    };
    // Columns 0 and 4, 1 and 5, of the upper rows and of the lower ones; then 2 and 6, 3 and 7.
    let (even, odd) = (fours(low), fours(high));
    let [up0, up1, down0, down1] = even;
    let [up2, up3, down2, down3] = odd;
    [
        _mm256_permute2f128_ps::<0x20>(up0, down0),
        _mm256_permute2f128_ps::<0x20>(up1, down1),
        _mm256_permute2f128_ps::<0x20>(up2, down2),
        _mm256_permute2f128_ps::<0x20>(up3, down3),
        _mm256_permute2f128_ps::<0x31>(up0, down0),
        _mm256_permute2f128_ps::<0x31>(up1, down1),
        _mm256_permute2f128_ps::<0x31>(up2, down2),
        _mm256_permute2f128_ps::<0x31>(up3, down3),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        if !super::super::has_tiles() {
            return;
        }
        for (rows, columns) in [
            (1, 1),
            (8, 8),
            (3, 20),
            (17, 9),
            (32, 24),
            (70, 20),
            (0, 5),
            (5, 0),
        ] {
            let (from_step, to_step) = (columns + 2, rows + 3);
            let from: Vec<f32> = (0..rows * from_step).map(|x| x as f32).collect();
            let mut to = vec![-1.0; columns * to_step];
            transpose(&from, from_step, (rows, columns), &mut to, to_step);
            for (index, x) in to.iter().enumerate() {
                let (column, row) = (index / to_step, index % to_step);
                let expected = if row < rows {
                    from[row * from_step + column]
                } else {
                    -1.0
                };
                assert_eq!(x.to_bits(), expected.to_bits());
            }
        }
    }
}
