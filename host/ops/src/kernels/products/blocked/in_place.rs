//! Products of a few rows by a transposed matrix that is read in place: a linear layer of a small batch.
//!
//! Packing pays where what is packed is read often. A weight (outputs, inputs) of a layer with few rows is read only
//! once for each tile of rows; but its own rows are contiguous along the depth. So the transposed product, W · xᵀ, is
//! computed, in which W is the left matrix and needs no packing, and each unit of it is transposed while it is in cache.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::{PackedRight, blocks, even_unit, tiles};
use crate::kernels::memory::fill::SharedSlice;
use crate::kernels::parallel::region;
use crate::kernels::products::prefetch::Prefetch;
use crate::kernels::products::tile::{
    Terms, multiply_panels, tile_columns, tile_rows, transpose_at,
};
use crate::kernels::{LeftMatrix, Matrix, TargetMatrix, UninitBuffer};

/// Number of rows of the left matrix from which on packing the right one costs next to nothing.
const MOST_ROWS: usize = 256;

/// Number of `f32` after which addresses share a set of the L1 cache, and the lines that a set has.
const L1_WAY: usize = 1024;
const L1_LINES: usize = 8;

/// Whether a product of (rows, depth) by the transposed (columns, depth) is faster with the latter read in place.
pub(crate) fn pays_in_place(rows: usize, depth: usize, columns: usize) -> bool {
    // The rows of a tile must not compete for the lines of one set.
    let is_spread = !depth.is_multiple_of(L1_WAY) || tile_rows() < L1_LINES;
    // Rows become columns of panels, the last of which must not be mostly empty.
    let empty = rows.next_multiple_of(tile_columns()) - rows;
    rows <= MOST_ROWS && rows < columns && 16 * empty <= rows && is_spread
}

/// Multiplies `left` (rows, depth) by the transposed `weight` (columns, depth), both row-major.
///
/// Each row of the product begins with `row`, if any, and negative elements are replaced by 0 if `rectifies`. The bits
/// are those of [`multiply_blocked`](super::multiply_blocked).
pub(crate) fn multiply_in_place(
    threads: usize,
    left: Matrix<'_, f32>,
    weight: Matrix<'_, f32>,
    (row, rectifies): (Option<&[f32]>, bool),
) -> Vec<f32> {
    let (rows, depth, columns) = (left.rows, left.columns, weight.rows);
    let fits = weight.columns == depth
        && weight.column_step == 1
        && weight.reach() <= weight.numbers.len()
        && left.reach() <= left.numbers.len()
        && row.is_none_or(|row| row.len() == columns);
    assert!(fits, "the matrices of a product don't fit");
    let packed = PackedRight::new(threads, left.t(), Terms::Singles);
    let mut product = UninitBuffer::new(rows * columns);
    let shared = SharedSlice::new(product.slots());
    let unit = even_unit(threads, columns, tile_rows());
    let room = || vec![0.0; unit * rows];
    region::distribute(threads, columns.div_ceil(unit), room, |room, index| {
        let own = index * unit..columns.min((index + 1) * unit);
        let transposed = &mut room[..own.len() * rows];
        for (index, line) in transposed.chunks_exact_mut(rows).enumerate() {
            line.fill(row.map_or(0.0, |row| row[own.start + index]));
        }
        multiply_unit(transposed, weight, &own, &packed, rectifies);
        // SAFETY: units are run once each, and these columns are those of this one.
        #[expect(unsafe_code, reason = "units are disjoint")]
        unsafe {
            write_columns(transposed, &own, (rows, columns), &shared);
        }
    });
    // SAFETY: the units are all columns, and each has written every row of its own.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        product.written()
    }
}

/// Adds some rows of the weight times the packed matrix to `transposed`.
fn multiply_unit(
    transposed: &mut [f32],
    weight: Matrix<'_, f32>,
    own: &Range<usize>,
    packed: &PackedRight,
    rectifies: bool,
) {
    let mut target = TargetMatrix::adding(transposed, own.len(), packed.columns());
    for (depth, next) in blocks(own, weight.rows, weight.columns) {
        target.rectifies = rectifies && depth.end == weight.columns;
        let left = LeftMatrix {
            numbers: &weight.numbers[own.start * weight.row_step + depth.start..],
            row: weight.row_step,
            steps: (0, 1),
        };
        let mut ahead = Prefetch::of(weight, &next.0, &next.1, tiles(&target));
        let right = packed.from(depth.start);
        multiply_panels(&target, depth.len(), left, right, &mut ahead);
    }
}

/// Writes a transposed unit to its columns `own` of a product of `dims` (rows, columns).
///
/// # Safety
///
/// Nothing else accesses these columns during the call.
#[expect(unsafe_code, reason = "units are disjoint")]
unsafe fn write_columns(
    transposed: &[f32],
    own: &Range<usize>,
    (rows, columns): (usize, usize),
    product: &SharedSlice<'_, MaybeUninit<f32>>,
) {
    let end = (rows - 1) * columns + own.end;
    let to = product.slots(own.start..end).cast();
    // SAFETY: `slots` has checked that the columns of all rows lie in the product, and by this function's contract
    // nothing else accesses them.
    unsafe { transpose_at(transposed, rows, (own.len(), rows), to, columns) };
}
