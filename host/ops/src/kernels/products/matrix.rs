//! Views of the matrices that multiplications read and write: memory, sizes and strides.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::kernels::memory::fill::SharedSlice;

/// A view of a matrix (rows, columns) to be read, with any strides.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(super) numbers: &'a [T],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_step: usize,
    pub(super) column_step: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A row-major matrix.
    pub(crate) fn new(numbers: &'a [T], rows: usize, columns: usize) -> Matrix<'a, T> {
        Matrix::with_steps(numbers, rows, columns, (columns, 1))
    }

    /// A matrix with strides from row to row and from column to column.
    pub(crate) fn with_steps(
        numbers: &'a [T],
        rows: usize,
        columns: usize,
        (row_step, column_step): (usize, usize),
    ) -> Matrix<'a, T> {
        Matrix {
            numbers,
            rows,
            columns,
            row_step,
            column_step,
        }
    }

    /// The transposed view.
    pub(crate) fn t(self) -> Matrix<'a, T> {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            row_step: self.column_step,
            column_step: self.row_step,
            ..self
        }
    }

    pub(super) fn reach(&self) -> usize {
        reach(self.rows, self.columns, self.row_step, self.column_step)
    }
}

/// Number of elements from the first of a matrix to the last, both included.
fn reach(rows: usize, columns: usize, row_step: usize, column_step: usize) -> usize {
    match (rows.checked_sub(1), columns.checked_sub(1)) {
        (Some(row), Some(column)) => row * row_step + column * column_step + 1,
        _ => 0,
    }
}

/// A view of a matrix to be written.
pub(crate) struct TargetMatrix<'a, T> {
    pub(super) start: *mut T,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_step: usize,
    pub(super) column_step: usize,
    /// Whether the product is added to the elements already there.
    pub(super) adds: bool,
    /// Initial value of each row, to which the product is added: an element for each column.
    pub(super) begin: Option<&'a [T]>,
    /// Whether negative elements of the product are replaced by 0; for a product whose depth is not divided further.
    pub(super) rectifies: bool,
    lifetime: PhantomData<&'a mut T>,
}

// SAFETY: threads share it only inside `multiply_all`, where each writes the elements of its own parts; `T: Send`.
#[expect(unsafe_code, reason = "threads write to parts of one matrix")]
unsafe impl<T: Send> Sync for TargetMatrix<'_, T> {}

impl<'a, T> TargetMatrix<'a, T> {
    /// A row-major target in uninitialised memory, all of which the product writes.
    pub(crate) fn uninit(
        slots: &'a mut [MaybeUninit<T>],
        rows: usize,
        columns: usize,
    ) -> TargetMatrix<'a, T> {
        TargetMatrix::uninit_with_strides(slots, rows, columns, (columns, 1))
    }

    /// As [`TargetMatrix::uninit`], with strides from row to row and from column to column.
    ///
    /// One of them is 1, and the other at least the length of a column or row.
    pub(crate) fn uninit_with_strides(
        slots: &'a mut [MaybeUninit<T>],
        rows: usize,
        columns: usize,
        (row_step, column_step): (usize, usize),
    ) -> TargetMatrix<'a, T> {
        let is_apart = if column_step == 1 {
            row_step >= columns
        } else {
            row_step == 1 && column_step >= rows
        };
        assert!(is_apart, "the lines of a product's target overlap");
        let reach = reach(rows, columns, row_step, column_step);
        assert!(reach <= slots.len(), "a product's target is too short");
        TargetMatrix {
            start: slots.as_mut_ptr().cast(),
            rows,
            columns,
            row_step,
            column_step,
            adds: false,
            begin: None,
            rectifies: false,
            lifetime: PhantomData,
        }
    }

    /// Adds this row, with an element for each column, to each row of the product; for row-major targets.
    pub(crate) fn with_row(self, row: Option<&'a [T]>) -> TargetMatrix<'a, T> {
        let fits = row.is_none_or(|row| row.len() == self.columns && self.column_step == 1);
        assert!(fits, "what a product's rows begin with doesn't fit");
        TargetMatrix { begin: row, ..self }
    }

    /// A row-major target to whose elements the product is added.
    pub(crate) fn adding(numbers: &'a mut [T], rows: usize, columns: usize) -> TargetMatrix<'a, T> {
        TargetMatrix::adding_with_step(numbers, rows, columns, columns)
    }

    /// A row-major target whose elements the product replaces.
    pub(crate) fn replacing(
        numbers: &'a mut [T],
        rows: usize,
        columns: usize,
    ) -> TargetMatrix<'a, T> {
        TargetMatrix {
            adds: false,
            ..TargetMatrix::adding(numbers, rows, columns)
        }
    }

    /// As [`TargetMatrix::replacing`], with a stride from row to row, at least the length of a row.
    pub(crate) fn replacing_with_step(
        numbers: &'a mut [T],
        rows: usize,
        columns: usize,
        row_step: usize,
    ) -> TargetMatrix<'a, T> {
        TargetMatrix {
            adds: false,
            ..TargetMatrix::adding_with_step(numbers, rows, columns, row_step)
        }
    }

    /// A row-major target from `start` on, in memory that other threads write to as well.
    ///
    /// For a matrix that holds rows of several targets side by side.
    ///
    /// # Safety
    ///
    /// Nothing else accesses these rows and columns while the target lives.
    #[expect(unsafe_code, reason = "the caller knows that targets are disjoint")]
    pub(crate) unsafe fn shared(
        slots: &'a SharedSlice<'_, MaybeUninit<T>>,
        start: usize,
        (rows, columns): (usize, usize),
        row_step: usize,
    ) -> TargetMatrix<'a, T> {
        assert!(
            row_step >= columns,
            "the lines of a product's target overlap"
        );
        let end = start + reach(rows, columns, row_step, 1);
        TargetMatrix {
            start: slots.slots(start..end).cast(),
            rows,
            columns,
            row_step,
            column_step: 1,
            adds: false,
            begin: None,
            rectifies: false,
            lifetime: PhantomData,
        }
    }

    /// The same target, with the product added to the elements already there.
    ///
    /// # Safety
    ///
    /// All of its elements have been written.
    #[expect(unsafe_code, reason = "the caller knows what is written")]
    pub(crate) unsafe fn added(self) -> TargetMatrix<'a, T> {
        TargetMatrix { adds: true, ..self }
    }

    /// As [`TargetMatrix::adding`], with a stride from row to row, at least the length of a row.
    pub(crate) fn adding_with_step(
        numbers: &'a mut [T],
        rows: usize,
        columns: usize,
        row_step: usize,
    ) -> TargetMatrix<'a, T> {
        assert!(
            row_step >= columns && reach(rows, columns, row_step, 1) <= numbers.len(),
            "a product's target is too short"
        );
        TargetMatrix {
            start: numbers.as_mut_ptr(),
            rows,
            columns,
            row_step,
            column_step: 1,
            adds: true,
            begin: None,
            rectifies: false,
            lifetime: PhantomData,
        }
    }
}

impl<T> TargetMatrix<'_, T> {
    /// Some columns of a row of a row-major target.
    ///
    /// # Safety
    ///
    /// Row and columns lie inside the target, and nothing else accesses them while the slice lives.
    #[expect(unsafe_code, reason = "threads write to parts of one matrix")]
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint")]
    pub(super) unsafe fn line(&self, row: usize, columns: Range<usize>) -> &mut [MaybeUninit<T>] {
        // SAFETY: by this function's contract row and columns lie inside the target, whose memory was checked when it
        // was made, and nothing else accesses them.
        unsafe {
            let start = self.start.add(row * self.row_step + columns.start);
            std::slice::from_raw_parts_mut(start.cast(), columns.len())
        }
    }
}
