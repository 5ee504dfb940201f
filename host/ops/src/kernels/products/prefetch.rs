//! Prefetching of the block that a unit packs next.
//!
//! A block has few consecutive cache lines in each of many rows, on pages of their own, so that the processor itself
//! doesn't recognise the order in which they are read. Activations come from main memory: without prefetching, packing
//! a block takes four times as long. After a unit's last block comes the first one of the unit after it, which the same
//! thread processes next.

use std::ops::Range;

use super::matrix::Matrix;
use crate::kernels::prefetch;

/// Number of `f32` in a cache line.
const LINE: usize = 16;

/// The cache lines of some rows and columns of a matrix, to be prefetched in small numbers; by default none.
#[derive(Default)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "there are no tiles")
)]
pub(super) struct Prefetch<'a> {
    numbers: &'a [f32],
    /// First element, number of elements and stride of the contiguous runs.
    start: usize,
    length: usize,
    step: usize,
    /// Number of runs.
    count: usize,
    /// The run and the element in it that come next.
    next: (usize, usize),
    /// Lines that are prefetched at once.
    at_once: usize,
}

impl<'a> Prefetch<'a> {
    /// The lines of a row-major or column-major matrix, evenly over this many calls.
    ///
    /// So the loads of a tile aren't kept waiting, and what is prefetched isn't replaced before it is used.
    pub(super) fn of(
        matrix: Matrix<'a, f32>,
        rows: &Range<usize>,
        columns: &Range<usize>,
        calls: usize,
    ) -> Prefetch<'a> {
        let is_row_major = matrix.column_step == 1;
        let (length, step, count) = if is_row_major {
            (columns.len(), matrix.row_step, rows.len())
        } else {
            (rows.len(), matrix.column_step, columns.len())
        };
        // A run that doesn't begin with a line has one more; it comes with the run before or after it.
        let lines = length.div_ceil(LINE) * count;
        Prefetch {
            numbers: matrix.numbers,
            start: rows.start * matrix.row_step + columns.start * matrix.column_step,
            length,
            step,
            count: if length == 0 { 0 } else { count },
            next: (0, 0),
            at_once: lines.div_ceil(calls.max(1)),
        }
    }

    /// Prefetches the next few lines, if any are left.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "there are no tiles")
    )]
    pub(super) fn some(&mut self) {
        for _ in 0..self.at_once {
            let (run, element) = self.next;
            if run >= self.count {
                return;
            }
            if let Some(first) = self.numbers.get(self.start + run * self.step + element) {
                prefetch(first);
            }
            self.next = if element + LINE < self.length {
                (run, element + LINE)
            } else {
                (run + 1, 0)
            };
        }
    }
}
