//! Transposed copies of matrices, eight by eight elements in registers.

use std::mem::MaybeUninit;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m256, _mm_castps_pd, _mm_movehl_ps, _mm_store_ss, _mm_storel_pd, _mm_storeu_ps,
    _mm256_castps256_ps128, _mm256_extractf128_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps,
    _mm256_unpackhi_ps, _mm256_unpacklo_ps,
};

#[cfg(target_arch = "x86_64")]
use super::registers::{Avx2, Registers};
use crate::kernels::written;

/// Number of rows and columns transposed at once.
const SIDE: usize = 8;

/// Rows and columns processed together: a cache line of each.
///
/// Lines of both matrices are often a power of two apart, so that few of them fit the L1 cache together: of each line all
/// elements are read, and written, before too many others are.
#[cfg(target_arch = "x86_64")]
const TOGETHER: usize = 2 * SIDE;

/// Writes a row-major matrix transposed: the element at (row, column) to `column * to_step + row`.
///
/// `from` has `dims` (rows, columns) and a stride of `from_step` from row to row. Panics unless [`super::has_tiles`].
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
    // SAFETY: `fits` has checked that everything written lies in `to`, which is mutably borrowed.
    unsafe { transpose_at(from, from_step, dims, to.as_mut_ptr(), to_step) };
}

/// [`transpose`] into uninitialised memory.
#[expect(unsafe_code, reason = "registers are read and written by pointers")]
pub(crate) fn transpose_uninit(
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
    // SAFETY: `fits` has checked that everything written lies in `to`, which is mutably borrowed.
    unsafe { transpose_at(from, from_step, dims, to.as_mut_ptr().cast(), to_step) };
}

/// [`transpose`] into uninitialised memory of the matrix's size.
pub(crate) fn transpose_whole<'a>(
    from: &[f32],
    from_step: usize,
    (rows, columns): (usize, usize),
    to: &'a mut [MaybeUninit<f32>],
) -> &'a mut [f32] {
    assert!(
        to.len() == rows * columns,
        "a transposed copy is not of its matrix's size"
    );
    transpose_uninit(from, from_step, (rows, columns), to, rows);
    // SAFETY: the transposed matrix is all of the memory, since its rows have no elements between them, and blocks
    // cover all of it.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(to)
    }
}

/// Whether the transposed matrix lies in memory of `length` elements.
fn fits((rows, columns): (usize, usize), to_step: usize, length: usize) -> bool {
    rows == 0 || columns == 0 || (columns - 1) * to_step + rows <= length
}

/// [`transpose`] into memory whose other elements belong to other threads.
///
/// # Safety
///
/// The elements written lie in memory, and nothing else accesses them during the call.
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
    // SAFETY: `has_tiles` holds only where the processor has AVX2, everything read was checked to lie in `from`, and by
    // this function's contract what is written lies in memory that nothing else accesses.
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
    for first in (0..rows).step_by(TOGETHER) {
        for left in (0..columns).step_by(TOGETHER) {
            for row in (first..rows.min(first + TOGETHER)).step_by(SIDE) {
                for column in (left..columns.min(left + TOGETHER)).step_by(SIDE) {
                    let dims = (SIDE.min(rows - row), SIDE.min(columns - column));
                    // SAFETY: by this function's contract the processor has AVX2 and both matrices lie in their memory;
                    // the block is inside both.
                    unsafe {
                        let from = from.add(row * from_step + column);
                        let to = to.add(column * to_step + row);
                        block(from, from_step, dims, to, to_step);
                    }
                }
            }
        }
    }
}

/// Number of elements after a transposed strip that [`transpose_strip`] may write.
pub(crate) const BEYOND: usize = 2 * SIDE;

/// Writes at most sixteen rows transposed and directly after each other, without masks.
///
/// `from` has `dims` (rows, columns) and a stride of `from_step` from row to row. Each transposed row is written as one
/// or two whole registers, whose ends the next row overwrites: up to [`BEYOND`] elements after the last one are
/// overwritten as well. Panics unless [`super::has_tiles`].
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "registers are read and written by pointers")
)]
pub(crate) fn transpose_strip(
    from: &[f32],
    from_step: usize,
    (rows, columns): (usize, usize),
    to: &mut [f32],
) {
    if rows == 0 || columns == 0 {
        return;
    }
    let fits = rows <= 2 * SIDE
        && (rows - 1) * from_step + columns <= from.len()
        && rows * columns + BEYOND <= to.len();
    assert!(fits && super::has_tiles(), "a transposed strip doesn't fit");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `has_tiles` holds only where the processor has AVX2, and both matrices were checked to lie in their memory,
    // with room for what is written beyond the end.
    unsafe {
        strip(from.as_ptr(), from_step, (rows, columns), to.as_mut_ptr());
    }
}

/// # Safety
///
/// The processor has AVX2, both matrices lie in their memory, and [`BEYOND`] elements follow the transposed one.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[expect(unsafe_code, reason = "registers are read and written by pointers")]
unsafe fn strip(from: *const f32, from_step: usize, (rows, columns): (usize, usize), to: *mut f32) {
    for column in (0..columns).step_by(SIDE) {
        let wide = SIDE.min(columns - column);
        // SAFETY: by this function's contract the processor has AVX2.
        let across = unsafe { Avx2::mask(wide) };
        let load = |row: usize| {
            // SAFETY: by this function's contract the matrix lies in its memory; the mask leaves out what is beyond
            // the last column.
            unsafe {
                if row >= rows {
                    Avx2::zero()
                } else if wide == SIDE {
                    Avx2::load(from.add(row * from_step + column))
                } else {
                    Avx2::load_some(from.add(row * from_step + column), across)
                }
            }
        };
        let upper = transposed([0, 1, 2, 3, 4, 5, 6, 7].map(load));
        if rows <= SIDE {
            for (line, upper) in upper.into_iter().take(wide).enumerate() {
                // SAFETY: the line begins inside the transposed matrix, and a register reaches less than `BEYOND`
                // elements further.
                unsafe { Avx2::store(to.add((column + line) * rows), upper) };
            }
            continue;
        }
        let lower = transposed([8, 9, 10, 11, 12, 13, 14, 15].map(load));
        for (line, (upper, lower)) in upper.into_iter().zip(lower).take(wide).enumerate() {
            // SAFETY: the line begins inside the transposed matrix, and two registers reach at most `BEYOND` elements
            // further.
            unsafe {
                let to = to.add((column + line) * rows);
                Avx2::store(to, upper);
                Avx2::store(to.add(SIDE), lower);
            }
        }
    }
}

/// Transposes at most eight rows of at most eight elements.
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
    // SAFETY: by this function's contract the processor has AVX2 and both matrices lie in their memory; masks leave out
    // what is beyond the last row and column.
    unsafe {
        let mut block = [Avx2::zero(); SIDE];
        if high == SIDE && wide == SIDE {
            for (line, block) in block.iter_mut().enumerate() {
                *block = Avx2::load(from.add(line * from_step));
            }
            for (line, column) in transposed(block).into_iter().enumerate() {
                Avx2::store(to.add(line * to_step), column);
            }
        } else {
            let across = Avx2::mask(wide);
            for (line, block) in block[..high].iter_mut().enumerate() {
                *block = Avx2::load_some(from.add(line * from_step), across);
            }
            for (line, column) in transposed(block).into_iter().take(wide).enumerate() {
                store_first(to.add(line * to_step), high, column);
            }
        }
    }
}

/// Stores the first `count` elements, at most eight, by fours, twos and ones: a store with a mask takes many times as long
/// on some processors.
///
/// # Safety
///
/// The processor has AVX2, and the elements lie in memory that nothing else accesses.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[expect(unsafe_code, reason = "registers are read and written by pointers")]
unsafe fn store_first(to: *mut f32, count: usize, numbers: __m256) {
    // SAFETY: by this function's contract the processor has AVX2 and the first `count` elements may be written; no more
    // than these are.
    unsafe {
        if count >= SIDE {
            Avx2::store(to, numbers);
            return;
        }
        let (mut to, mut rest) = (to, _mm256_castps256_ps128(numbers));
        if count & 4 != 0 {
            _mm_storeu_ps(to, rest);
            to = to.add(4);
            rest = _mm256_extractf128_ps::<1>(numbers);
        }
        if count & 2 != 0 {
            _mm_storel_pd(to.cast(), _mm_castps_pd(rest));
            to = to.add(2);
            rest = _mm_movehl_ps(rest, rest);
        }
        if count & 1 != 0 {
            _mm_store_ss(to, rest);
        }
    }
}

/// Transposes eight rows of eight elements: interleaves elements, then pairs, then halves of registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn transposed(rows: [__m256; SIDE]) -> [__m256; SIDE] {
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
    fn rows_of_a_strip_become_columns() {
        if !crate::kernels::products::tile::has_tiles() {
            return;
        }
        for (rows, columns) in [(1, 1), (6, 20), (8, 8), (11, 9), (12, 16), (16, 3), (0, 5)] {
            let from_step = columns + 2;
            let from: Vec<f32> = (0..rows * from_step).map(|x| x as f32).collect();
            let mut to = vec![-1.0; rows * columns + BEYOND];
            transpose_strip(&from, from_step, (rows, columns), &mut to);
            for (index, x) in to[..rows * columns].iter().enumerate() {
                let expected = from[index % rows * from_step + index / rows];
                assert_eq!(x.to_bits(), expected.to_bits());
            }
        }
    }

    #[test]
    fn rows_become_columns() {
        if !crate::kernels::products::tile::has_tiles() {
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
