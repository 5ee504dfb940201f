//! Products of a few rows by a matrix, such as a linear layer's for the next token of a text.
//!
//! They multiply once or a few times for each element of the matrix, so they take as long as reading it from memory does: it is
//! read once, in its own order, by all threads, and nothing is packed.
//!
//! A matrix that lies row after row is read whole rows at a time: a memory's throughput is a tenth to a third lower for parts of rows.
//! Threads therefore share its depth, and their sums are added in the end; a matrix with long rows is cut between its columns.
//!
//! **Bits.** Each element of the product is summed in an order of its own, which depends on the matrix's shape and order alone: not on
//! how many threads there are, and not on the other rows.

use std::ops::Range;

use crate::kernels::fill::{Schedule, UninitRows, fill_parts};
use crate::kernels::math::{LANES, Number, total};
use crate::kernels::{region, zeros};
use crate::vectorised;

/// Largest number of rows. From there on, packing costs less than reading the rows once for each column.
pub(crate) const FEW_ROWS: usize = 8;

/// A matrix (depth, columns), and how it lies in memory.
#[derive(Clone, Copy)]
pub(crate) enum StreamedMatrix<'a, T> {
    /// Column after column.
    Columns(&'a [T]),
    /// Row after row.
    Rows(&'a [T]),
}

/// Largest number of columns of a matrix, row after row, whose depth is shared among threads.
const LONGEST_ROW: usize = 4096;

/// Sums of elements of the product that stay in the caches while a matrix is read row after row.
const SUMS: usize = 8192;

/// Parts of the depth, if it is large enough. More threads than that have nothing to do.
const DEPTH_PARTS: usize = 16;

/// Least rows of the matrix in a part of the depth.
const PART_ROWS: usize = 32;

/// Chunks of each thread where the matrix lies column after column: a thread that is interrupted leaves the rest to others.
const UNITS: usize = 8;

/// Columns in a chunk: multiples of two vectors, and as many for each thread.
const STEP: usize = 32;

/// Returns left · right, row-major: of `left` (rows, depth), which is row-major, and `right` (depth, columns). Each row of the product
/// begins with `row`, if any. None of the sizes is 0.
pub(crate) fn multiply_few_rows<T: Number>(
    left: &[T],
    right: StreamedMatrix<'_, T>,
    [rows, depth, columns]: [usize; 3],
    row: Option<&[T]>,
) -> Vec<T> {
    let (StreamedMatrix::Columns(elements) | StreamedMatrix::Rows(elements)) = right;
    let fits = left.len() == rows * depth
        && elements.len() == depth * columns
        && row.is_none_or(|row| row.len() == columns);
    assert!(fits, "the matrices of a product don't fit");
    match right {
        StreamedMatrix::Columns(right) => {
            by_columns([rows, depth, columns], row, UNITS, |y, part| {
                add_dots(y, left, right, depth, part);
            })
        }
        StreamedMatrix::Rows(right) if columns > LONGEST_ROW => {
            let units = columns.div_ceil(region::parts(2 * rows * depth * columns) * LONGEST_ROW);
            by_columns([rows, depth, columns], row, units, |y, part| {
                add_rows_times(y, left, right, 0..depth, part);
            })
        }
        StreamedMatrix::Rows(right) => by_depth(left, right, [rows, depth, columns], row),
    }
}

/// The product by threads of which each has some columns; `add` adds those of all rows, row after row, to what is there.
fn by_columns<T: Number>(
    [rows, depth, columns]: [usize; 3],
    row: Option<&[T]>,
    units: usize,
    add: impl Fn(&mut [T], Range<usize>) + Sync,
) -> Vec<T> {
    let threads = region::parts(2 * rows * depth * columns);
    let own = columns.div_ceil(threads);
    let size = match threads {
        1 => columns,
        _ => own.div_ceil(units.max(1)).next_multiple_of(STEP),
    };
    let schedule = Schedule::of_size(threads, columns, size);
    // A chunk has its columns of all rows, row after row.
    let product = fill_parts(schedule, UninitRows::new(columns, rows), |columns, y| {
        let y = zeros(y);
        if let Some(row) = row {
            for y in y.chunks_exact_mut(columns.len()) {
                y.copy_from_slice(&row[columns.clone()]);
            }
        }
        add(y, columns.clone());
        y
    });
    if rows == 1 {
        return product;
    }
    let mut y = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        for chunk in product.chunks(size * rows) {
            let width = chunk.len() / rows;
            y.extend_from_slice(&chunk[row * width..(row + 1) * width]);
        }
    }
    y
}

/// The product by threads of which each has parts of the depth.
fn by_depth<T: Number>(
    left: &[T],
    right: &[T],
    [rows, depth, columns]: [usize; 3],
    row: Option<&[T]>,
) -> Vec<T> {
    let size = rows * columns;
    let parts = depth.div_ceil(PART_ROWS).min(DEPTH_PARTS);
    let schedule = Schedule::of_size(region::parts(2 * depth * size), parts, 1);
    let sums = fill_parts(schedule, UninitRows::new(parts, size), |own, y| {
        let y = zeros(y);
        for (part, y) in own.clone().zip(y.chunks_exact_mut(size)) {
            let own = region::range(depth, AT_ONCE, part, parts);
            add_rows_times(y, left, right, own, 0..columns);
        }
        y
    });
    let mut y = match row {
        Some(row) => row.repeat(rows),
        None => vec![T::ZERO; size],
    };
    for sums in sums.chunks_exact(size) {
        for (y, &sum) in y.iter_mut().zip(sums) {
            *y += sum;
        }
    }
    y
}

/// The products of a row and two columns of its length, each in the same order.
///
/// A register of the row is loaded once for both. What is left of fewer elements than [`LANES`] is added in the end. Products are rounded
/// before they are added: compilers make vectors of that, and none of fused operations here.
#[inline(always)]
fn two_dots<T: Number>(left: &[T], one: &[T], other: &[T]) -> [T; 2] {
    let (mut sums, mut others) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    let (blocks, rest) = left.as_chunks::<LANES>();
    let (of_one, rest_of_one) = one.as_chunks::<LANES>();
    let (of_other, rest_of_other) = other.as_chunks::<LANES>();
    for ((x, one), other) in blocks.iter().zip(of_one).zip(of_other) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += one[lane] * x[lane];
        }
        for (lane, sum) in others.iter_mut().enumerate() {
            *sum += other[lane] * x[lane];
        }
    }
    let (mut sum, mut of_others) = (total(sums), total(others));
    for ((&x, &one), &other) in rest.iter().zip(rest_of_one).zip(rest_of_other) {
        sum += one * x;
        of_others += other * x;
    }
    [sum, of_others]
}

vectorised! {
    /// Adds the products of rows (depth) and some columns of a matrix that lies column after column.
    fn add_dots<T: Number>(y: &mut [T], left: &[T], right: &[T], depth: usize, columns: Range<usize>) {
        let width = columns.len();
        let rows = y.len() / width.max(1);
        for index in (0..width).step_by(2) {
            let first = (columns.start + index) * depth;
            let one = &right[first..first + depth];
            // The last of an odd number has itself beside it.
            let other = if index + 1 < width { &right[first + depth..first + 2 * depth] } else { one };
            // Both are in the L1 cache for all rows but the first.
            for row in 0..rows {
                let products = two_dots(&left[row * depth..(row + 1) * depth], one, other);
                for (y, product) in y[row * width + index..(row + 1) * width].iter_mut().zip(products) {
                    *y += product;
                }
            }
        }
    }
}

/// Rows of the matrix that are added at once: a sum is loaded and stored once for them.
const AT_ONCE: usize = 4;

vectorised! {
    /// Adds the products of rows (all of the depth) and some columns of a matrix that lies row after row, by some of its rows, in their
    /// order.
    fn add_rows_times<T: Number>(y: &mut [T], left: &[T], right: &[T], own: Range<usize>, columns: Range<usize>) {
        let width = columns.len();
        let rows = y.len() / width.max(1);
        let (depth, all) = (left.len() / rows.max(1), right.len() * rows / left.len().max(1));
        // The sums of a block stay in the cache.
        let block = (SUMS / rows.max(1)).next_multiple_of(STEP);
        for start in (0..width).step_by(block) {
            let end = (start + block).min(width);
            let part = |row: usize| &right[row * all + columns.start + start..row * all + columns.start + end];
            let whole = own.start + own.len() - own.len() % AT_ONCE;
            for first in (own.start..whole).step_by(AT_ONCE) {
                let [one, two, three, four] = std::array::from_fn(|index| part(first + index));
                for (y, left) in y.chunks_exact_mut(width).zip(left.chunks_exact(depth)) {
                    let x = &left[first..first + AT_ONCE];
                    let factors = one.iter().zip(two).zip(three.iter().zip(four));
                    for (y, ((&one, &two), (&three, &four))) in y[start..end].iter_mut().zip(factors) {
                        let half = two.times_plus::<FUSED>(x[1], one.times_plus::<FUSED>(x[0], *y));
                        *y = four.times_plus::<FUSED>(x[3], three.times_plus::<FUSED>(x[2], half));
                    }
                }
            }
            for row in whole..own.end {
                for (y, left) in y.chunks_exact_mut(width).zip(left.chunks_exact(depth)) {
                    let x = left[row];
                    for (y, &weight) in y[start..end].iter_mut().zip(part(row)) {
                        *y = weight.times_plus::<FUSED>(x, *y);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(count: usize, seed: usize) -> Vec<f32> {
        let element = |index: usize| ((index * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0;
        (0..count).map(element).collect()
    }

    /// The product in double precision, and the sums of its terms' sizes.
    fn exact(
        left: &[f32],
        right: &[f32],
        [rows, depth, columns]: [usize; 3],
        row: &[f32],
    ) -> Vec<(f64, f64)> {
        let of = |index: usize| {
            let (r, c) = (index / columns, index % columns);
            let begin = (f64::from(row[c]), f64::from(row[c]).abs());
            (0..depth).fold(begin, |(sum, size), k| {
                let term = f64::from(left[r * depth + k]) * f64::from(right[k * columns + c]);
                (sum + term, size + term.abs())
            })
        };
        (0..rows * columns).map(of).collect()
    }

    #[test]
    fn products_are_those_of_double_numbers_in_both_orders_and_by_any_number_of_rows() {
        // Several chunks and threads, depths that are no multiples of vectors, and single columns.
        for (depth, columns) in [(1, 1), (7, 3), (33, 130), (301, 1700), (64, 50), (9, 4200)] {
            let (all, row) = (elements(FEW_ROWS * depth, 1), elements(columns, 3));
            let right = elements(depth * columns, 2);
            let transposed: Vec<f32> = (0..depth * columns)
                .map(|index| right[index % depth * columns + index / depth])
                .collect();
            let orders = [
                StreamedMatrix::Rows(&right),
                StreamedMatrix::Columns(&transposed),
            ];
            for order in orders {
                let product = |rows: usize| {
                    let left = &all[..rows * depth];
                    multiply_few_rows(left, order, [rows, depth, columns], Some(&row))
                };
                let most = product(FEW_ROWS);
                for rows in 1..=FEW_ROWS {
                    // A row doesn't depend on the others.
                    assert_eq!(product(rows), most[..rows * columns]);
                }
                let exact = exact(&all, &right, [FEW_ROWS, depth, columns], &row);
                for (found, (expected, size)) in most.iter().zip(exact) {
                    let error = (f64::from(*found) - expected).abs();
                    assert!(error <= 1e-6 * size.max(1e-3), "{error} of {size}");
                }
            }
        }
    }

    #[test]
    fn bits_dont_depend_on_how_columns_are_divided() {
        let (depth, columns) = (77, 200);
        let (left, right) = (elements(depth, 1), elements(depth * columns, 2));
        let mut whole = vec![0.0; columns];
        add_rows_times(&mut whole, &left, &right, 0..depth, 0..columns);
        let mut dots = vec![0.0; columns];
        add_dots(&mut dots, &left, &right, depth, 0..columns);
        for cut in [1, 32, 131] {
            let mut parts = vec![0.0; columns];
            let (one, other) = parts.split_at_mut(cut);
            add_rows_times(one, &left, &right, 0..depth, 0..cut);
            add_rows_times(other, &left, &right, 0..depth, cut..columns);
            assert_eq!(parts, whole);
            parts.fill(0.0);
            let (one, other) = parts.split_at_mut(cut);
            add_dots(one, &left, &right, depth, 0..cut);
            add_dots(other, &left, &right, depth, cut..columns);
            assert_eq!(parts, dots);
        }
    }
}
