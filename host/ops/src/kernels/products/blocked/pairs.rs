//! Copies of matrices in pairs of elements along the depth, rounded to `bf16` (`words`).

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::kernels::products::tile::{strips, tile_columns, transpose, transpose_strip};
use crate::kernels::products::words::{across, along};
use crate::kernels::{Matrix, write_rows, written, zeros};

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
            along(from, left.row_step, (height, depth.len()), words, &mut room);
            transpose_strip(&room, words, (height, words), to);
            continue;
        }
        assert!(left.row_step == 1, "a matrix of other strides is packed");
        across(from, left.column_step, (depth.len(), height), height, to);
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
            across(from, right.row_step, (depth, count), wide, to);
            return to;
        }
        assert!(right.row_step == 1, "a matrix of other strides is packed");
        room.resize(count * words, 0.0);
        along(from, right.column_step, (count, depth), words, &mut room);
        transpose(&room, words, (count, words), to, wide);
        to
    });
    // SAFETY: `write_rows` has had all of it written.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(to)
    }
}
