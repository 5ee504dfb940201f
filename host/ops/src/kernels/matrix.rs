//! Matrices that products read and write: where their numbers lie.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::region::Shared;

/// A matrix to be read: (rows, columns), with any steps between its numbers.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    pub(super) numbers: &'a [T],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_step: usize,
    pub(super) column_step: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Row after row.
    pub(crate) fn new(numbers: &'a [T], rows: usize, columns: usize) -> Matrix<'a, T> {
        Matrix::with_steps(numbers, rows, columns, (columns, 1))
    }

    /// With steps from row to row and from column to column.
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

    /// Transposed.
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

/// How many numbers a matrix reaches over.
fn reach(rows: usize, columns: usize, row_step: usize, column_step: usize) -> usize {
    match (rows.checked_sub(1), columns.checked_sub(1)) {
        (Some(row), Some(column)) => row * row_step + column * column_step + 1,
        _ => 0,
    }
}

/// A matrix to be written.
pub(crate) struct Target<'a, T> {
    pub(super) start: *mut T,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_step: usize,
    pub(super) column_step: usize,
    /// Whether the product is added to what is there.
    pub(super) adds: bool,
    /// What each row begins with, one number for each column.
    pub(super) begin: Option<&'a [T]>,
    lifetime: PhantomData<&'a mut T>,
}

// SAFETY: it is written through `multiply_all` alone, where each thread has other places.
#[expect(unsafe_code, reason = "threads write to parts of one matrix")]
unsafe impl<T: Send> Sync for Target<'_, T> {}

impl<'a, T> Target<'a, T> {
    /// Row after row in memory that nothing was written to yet; all of it is written.
    pub(crate) fn fresh(
        places: &'a mut [MaybeUninit<T>],
        rows: usize,
        columns: usize,
    ) -> Target<'a, T> {
        Target::fresh_with_steps(places, rows, columns, (columns, 1))
    }

    /// The same with steps from row to row and from column to column, of which one is 1 and the other
    /// at least as long as a line.
    pub(crate) fn fresh_with_steps(
        places: &'a mut [MaybeUninit<T>],
        rows: usize,
        columns: usize,
        (row_step, column_step): (usize, usize),
    ) -> Target<'a, T> {
        let is_apart = if column_step == 1 {
            row_step >= columns
        } else {
            row_step == 1 && column_step >= rows
        };
        assert!(is_apart, "the lines of a product's target overlap");
        let reach = reach(rows, columns, row_step, column_step);
        assert!(reach <= places.len(), "a product's target is too short");
        Target {
            start: places.as_mut_ptr().cast(),
            rows,
            columns,
            row_step,
            column_step,
            adds: false,
            begin: None,
            lifetime: PhantomData,
        }
    }

    /// With these numbers, one for each column, added to each row; for targets of rows.
    pub(crate) fn with_row(self, row: Option<&'a [T]>) -> Target<'a, T> {
        let fits = row.is_none_or(|row| row.len() == self.columns && self.column_step == 1);
        assert!(fits, "what a product's rows begin with doesn't fit");
        Target { begin: row, ..self }
    }

    /// Row after row in memory to which the product is added.
    pub(crate) fn adding(numbers: &'a mut [T], rows: usize, columns: usize) -> Target<'a, T> {
        Target::adding_with_step(numbers, rows, columns, columns)
    }

    /// Row after row in memory whose numbers the product takes the place of.
    pub(crate) fn replacing(numbers: &'a mut [T], rows: usize, columns: usize) -> Target<'a, T> {
        Target {
            adds: false,
            ..Target::adding(numbers, rows, columns)
        }
    }

    /// As [`Target::replacing`], with a step from row to row, at least as long as a row.
    pub(crate) fn replacing_with_step(
        numbers: &'a mut [T],
        rows: usize,
        columns: usize,
        row_step: usize,
    ) -> Target<'a, T> {
        Target {
            adds: false,
            ..Target::adding_with_step(numbers, rows, columns, row_step)
        }
    }

    /// Row after row in memory that other threads write to as well, from `start` on: where a matrix has lines
    /// of several targets side by side.
    ///
    /// # Safety
    ///
    /// Nobody else writes to these rows and columns meanwhile.
    #[expect(unsafe_code, reason = "the caller knows that targets are disjoint")]
    pub(crate) unsafe fn shared(
        places: &'a Shared<'_, MaybeUninit<T>>,
        start: usize,
        (rows, columns): (usize, usize),
        row_step: usize,
    ) -> Target<'a, T> {
        assert!(
            row_step >= columns,
            "the lines of a product's target overlap"
        );
        let end = start + reach(rows, columns, row_step, 1);
        Target {
            start: places.places(start..end).cast(),
            rows,
            columns,
            row_step,
            column_step: 1,
            adds: false,
            begin: None,
            lifetime: PhantomData,
        }
    }

    /// The same, with the product added to what is there.
    ///
    /// # Safety
    ///
    /// All of its rows and columns have been written.
    #[expect(unsafe_code, reason = "the caller knows what is written")]
    pub(crate) unsafe fn added(self) -> Target<'a, T> {
        Target { adds: true, ..self }
    }

    /// As [`Target::adding`], with a step from row to row, at least as long as a row.
    pub(crate) fn adding_with_step(
        numbers: &'a mut [T],
        rows: usize,
        columns: usize,
        row_step: usize,
    ) -> Target<'a, T> {
        assert!(
            row_step >= columns && reach(rows, columns, row_step, 1) <= numbers.len(),
            "a product's target is too short"
        );
        Target {
            start: numbers.as_mut_ptr(),
            rows,
            columns,
            row_step,
            column_step: 1,
            adds: true,
            begin: None,
            lifetime: PhantomData,
        }
    }
}

impl<T> Target<'_, T> {
    /// Some columns of a row of a target of rows.
    ///
    /// # Safety
    ///
    /// Row and columns lie inside the target, and nobody else writes there meanwhile.
    #[expect(unsafe_code, reason = "threads write to parts of one matrix")]
    #[expect(clippy::mut_from_ref, reason = "the parts are disjoint")]
    pub(super) unsafe fn line(&self, row: usize, columns: Range<usize>) -> &mut [MaybeUninit<T>] {
        // SAFETY: by the caller's word.
        unsafe {
            let start = self.start.add(row * self.row_step + columns.start);
            std::slice::from_raw_parts_mut(start.cast(), columns.len())
        }
    }
}
