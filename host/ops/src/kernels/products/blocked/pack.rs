//! Copies of matrices in the order in which tiles read them: strips of the left one, panels of the right one.

use std::iter::repeat;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::{block_depth, pairs};
use crate::kernels::math::Number;
use crate::kernels::memory::fill::{Rows, Schedule, UninitRows, fill_parts};
use crate::kernels::products::tile::{BEYOND, Terms, strips, tile_columns, transpose_strip};
use crate::kernels::{
    Cursor, Matrix, PANEL, transpose, transpose_whole, write_all, write_rows, written, zeros,
};
use crate::vectorised;

/// A right matrix (depth, columns), all of it in panels: (panels, words, [`tile_columns`]).
pub(crate) struct PackedRight {
    panels: Vec<f32>,
    words: usize,
    columns: usize,
    pub(super) terms: Terms,
}

impl PackedRight {
    /// Packs a row-major or column-major matrix, on at most `threads` threads.
    pub(crate) fn new(threads: usize, right: Matrix<'_, f32>, terms: Terms) -> PackedRight {
        let (columns, wide) = (right.columns, tile_columns());
        let words = terms.words(right.rows);
        let count = columns.div_ceil(wide);
        let memory = UninitRows::new(count, words * wide);
        // At least two chunks for each thread, where there are enough panels.
        let together = if right.column_step == 1 {
            MOST_TOGETHER
        } else {
            1
        };
        let schedule =
            Schedule::of_size(threads, count, (count / (2 * threads)).clamp(1, together));
        let panels = fill_parts(schedule, memory, |panels, slots| {
            let first = panels.start * wide;
            pack_panels(
                right,
                (&(0..words), terms),
                &(first..columns.min(panels.end * wide)),
                slots,
            )
        });
        PackedRight {
            panels,
            words,
            columns,
            terms,
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The panels from a word along the depth on, and the stride from panel to panel.
    pub(super) fn from(&self, first: usize) -> (&[f32], usize) {
        let wide = tile_columns();
        (&self.panels[first * wide..], self.words * wide)
    }
}

/// A left matrix (rows, depth), all of it in strips: blocks of [`block_depth`] words after each other.
pub(super) struct PackedLeft {
    blocks: Vec<Vec<f32>>,
    pub(super) terms: Terms,
}

impl PackedLeft {
    /// Packs a row-major or column-major matrix, on at most `threads` threads.
    pub(super) fn new(threads: usize, left: Matrix<'_, f32>, terms: Terms) -> PackedLeft {
        let words = terms.words(left.columns);
        let count = words.div_ceil(block_depth());
        let mut blocks = vec![Vec::new(); count];
        let memory = Rows::new(&mut blocks, 1);
        let schedule = Schedule::of_size(threads, count, 1);
        fill_parts(schedule, memory, |own, blocks| {
            for (block, index) in blocks.iter_mut().zip(own.clone()) {
                let depth = index * block_depth()..words.min((index + 1) * block_depth());
                block.resize(strips_size(left.rows, depth.len()), 0.0);
                pack_strips(left, &(0..left.rows), (&depth, terms), block);
            }
        });
        PackedLeft { blocks, terms }
    }

    /// The strips of the block that begins with this word along the depth.
    pub(super) fn from(&self, first: usize) -> &[f32] {
        &self.blocks[first / block_depth()]
    }
}

/// Memory for the strips of this many rows and words along the depth.
pub(super) fn strips_size(rows: usize, depth: usize) -> usize {
    rows * depth + BEYOND
}

/// Packs some rows and words along the depth of a left matrix into strips.
pub(super) fn pack_strips(
    left: Matrix<'_, f32>,
    rows: &Range<usize>,
    (depth, terms): (&Range<usize>, Terms),
    to: &mut [f32],
) {
    if terms == Terms::Pairs {
        return pairs::pack_strips(left, rows, &terms.elements(depth, left.columns), to);
    }
    let start = rows.start * left.row_step + depth.start * left.column_step;
    for strip in strips(rows.len()) {
        let from = &left.numbers[start + strip.start * left.row_step..];
        let to = &mut to[strip.start * depth.len()..];
        if left.column_step == 1 {
            transpose_strip(from, left.row_step, (strip.len(), depth.len()), to);
        } else {
            assert!(left.row_step == 1, "a matrix of other strides is packed");
            copy_strip(from, left.column_step, (strip.len(), depth.len()), to);
        }
    }
}

/// Packs some columns and words along the depth of a right matrix into panels.
///
/// The last panel has zeros beyond the last column.
pub(super) fn pack_panels<'a>(
    right: Matrix<'_, f32>,
    (depth, terms): (&Range<usize>, Terms),
    columns: &Range<usize>,
    to: &'a mut [MaybeUninit<f32>],
) -> &'a mut [f32] {
    if terms == Terms::Pairs {
        return pairs::pack_panels(right, &terms.elements(depth, right.rows), columns, to);
    }
    let start = depth.start * right.row_step + columns.start * right.column_step;
    let from = &right.numbers[start..];
    let wide = tile_columns();
    let count = columns.len().div_ceil(wide);
    let (depth, columns) = (depth.len(), columns.len());
    // Whole panels of a row-major matrix are packed together.
    let groups = if right.column_step == 1 {
        columns / (MOST_TOGETHER * wide)
    } else {
        0
    };
    let (together, rest) = to.split_at_mut(groups * MOST_TOGETHER * depth * wide);
    write_rows(together, &(0..groups), |group, to| {
        let from = &from[group * MOST_TOGETHER * wide..];
        copy_panels(from, right.row_step, depth, wide, to)
    });
    write_rows(rest, &(groups * MOST_TOGETHER..count), |panel, to| {
        let first = panel * wide;
        let dims = (depth, wide.min(columns - first));
        let from = &from[first * right.column_step..];
        if right.column_step == 1 {
            copy_panel(from, right.row_step, dims, wide, to)
        } else {
            assert!(right.row_step == 1, "a matrix of other strides is packed");
            transpose_panel(from, right.column_step, dims, wide, to)
        }
    });
    // SAFETY: `write_rows` has had both parts written.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(to)
    }
}

/// Packs at most `wide` columns of a column-major matrix, with a stride of `step` from column to column.
fn transpose_panel<'a>(
    from: &[f32],
    step: usize,
    (depth, columns): (usize, usize),
    wide: usize,
    to: &'a mut [MaybeUninit<f32>],
) -> &'a mut [f32] {
    if columns == wide {
        return transpose_whole(from, step, (columns, depth), to);
    }
    let to = zeros(to);
    transpose(from, step, (columns, depth), to, wide);
    to
}

/// Panels of a row-major matrix that are packed together.
///
/// So several consecutive cache lines of a row are read at once: activations come from main memory, where that takes two
/// thirds of the time.
const MOST_TOGETHER: usize = 4;

/// Number of columns of a panel with AVX2.
const HALF: usize = PANEL / 2;

vectorised! {
    /// Packs [`MOST_TOGETHER`] panels of a row-major matrix, with a stride of `step` from row to row.
    fn copy_panels<'a, T: Number>(
        from: &[T],
        step: usize,
        depth: usize,
        wide: usize,
        to: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let size = depth * wide;
        for row in 0..depth {
            let from = &from[row * step..][..MOST_TOGETHER * wide];
            for (panel, from) in from.chunks_exact(wide).enumerate() {
                let to = &mut to[panel * size + row * wide..][..wide];
                match (from.first_chunk::<PANEL>(), from.first_chunk::<HALF>()) {
                    (Some(line), _) if wide == PANEL => write_all(to, *line),
                    (_, Some(line)) if wide == HALF => write_all(to, *line),
                    _ => write_all(to, from.iter().copied()),
                };
            }
        }
        assert!(to.len() == MOST_TOGETHER * size, "panels of another size");
        // SAFETY: the loops have written each row of each panel, and these are all of the memory.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            written(to)
        }
    }
}

vectorised! {
    /// Packs at most `wide` columns of a row-major matrix, with a stride of `step` from row to row.
    fn copy_panel<'a, T: Number>(
        from: &[T],
        step: usize,
        dims: (usize, usize),
        wide: usize,
        to: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let (depth, columns) = dims;
        let mut to = Cursor::new(to);
        for row in 0..depth {
            let from = &from[row * step..][..columns];
            match (from.first_chunk::<PANEL>(), from.first_chunk::<HALF>()) {
                (Some(line), _) if wide == PANEL => to.write(PANEL, line.iter().copied()),
                (_, Some(line)) if wide == HALF => to.write(HALF, line.iter().copied()),
                _ => to.write(wide, from.iter().copied().chain(repeat(T::ZERO))),
            }
        }
        to.finish()
    }
}

/// Copies `rows` elements from each of `depth` lines, a stride apart, directly after each other.
fn copy_strip(from: &[f32], step: usize, (rows, depth): (usize, usize), to: &mut [f32]) {
    match rows {
        12 => copy_lines::<12>(from, step, depth, to),
        11 => copy_lines::<11>(from, step, depth, to),
        10 => copy_lines::<10>(from, step, depth, to),
        6 => copy_lines::<6>(from, step, depth, to),
        5 => copy_lines::<5>(from, step, depth, to),
        _ => {
            for (line, to) in to.chunks_exact_mut(rows).take(depth).enumerate() {
                to.copy_from_slice(&from[line * step..][..rows]);
            }
        }
    }
}

/// [`copy_strip`] for a number of rows that the compiler knows.
fn copy_lines<const ROWS: usize>(from: &[f32], step: usize, depth: usize, to: &mut [f32]) {
    let (to, _) = to.as_chunks_mut::<ROWS>();
    for (line, to) in to.iter_mut().take(depth).enumerate() {
        if let Some(from) = from[line * step..].first_chunk() {
            *to = *from;
        }
    }
}
