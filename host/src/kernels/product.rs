//! Matrix products, by the crate `gemm`: each part of one thread, parts side by side.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use candle_core::WithDType;
use gemm::Parallelism;
use num_traits::Float;

use super::region;

/// A matrix to be read: (rows, columns), with any steps between its numbers.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    numbers: &'a [T],
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
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

    fn reach(&self) -> usize {
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
    start: *mut T,
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
    /// Whether the product is added to what is there.
    adds: bool,
    /// What each row begins with, one number for each column.
    begin: Option<&'a [T]>,
    lifetime: PhantomData<&'a mut T>,
}

// SAFETY: it is written through [`multiply_all`] alone, where each thread has other places.
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
        assert!(
            rows * columns <= numbers.len(),
            "a product's target is too short"
        );
        Target {
            start: numbers.as_mut_ptr(),
            rows,
            columns,
            row_step: columns,
            column_step: 1,
            adds: true,
            begin: None,
            lifetime: PhantomData,
        }
    }
}

/// left · right, into a target.
pub(crate) struct Job<'a, T> {
    target: Target<'a, T>,
    left: Matrix<'a, T>,
    right: Matrix<'a, T>,
}

impl<'a, T: WithDType + Float> Job<'a, T> {
    /// The product of (m, k) and (k, n) into (m, n).
    pub(crate) fn new(target: Target<'a, T>, left: Matrix<'a, T>, right: Matrix<'a, T>) -> Self {
        assert!(
            left.rows == target.rows
                && right.columns == target.columns
                && left.columns == right.rows
                && left.reach() <= left.numbers.len()
                && right.reach() <= right.numbers.len(),
            "the matrices of a product don't fit"
        );
        Job {
            target,
            left,
            right,
        }
    }

    /// How many operations it takes: two for each multiplication with its addition.
    pub(crate) fn operations(&self) -> usize {
        2 * self.target.rows * self.target.columns * self.left.columns
    }

    /// The part of some rows and columns.
    ///
    /// # Safety
    ///
    /// Nobody else writes to these places meanwhile.
    #[expect(unsafe_code, reason = "`gemm` takes pointers")]
    unsafe fn run(&self, rows: Range<usize>, columns: Range<usize>) {
        let (target, left, right) = (&self.target, &self.left, &self.right);
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let adds = target.adds || target.begin.is_some();
        let alpha = if adds { T::one() } else { T::zero() };
        if let Some(begin) = target.begin {
            for row in rows.clone() {
                let begin = &begin[columns.clone()];
                // SAFETY: the columns of the row lie inside the target, side by side.
                unsafe {
                    let start = target.start.add(row * target.row_step + columns.start);
                    start.copy_from_nonoverlapping(begin.as_ptr(), begin.len());
                }
            }
        }
        // SAFETY: all three matrices were found to lie in their memory, the ranges lie inside them, and
        // by the caller's word nobody else writes there.
        unsafe {
            let start = target
                .start
                .add(rows.start * target.row_step + columns.start * target.column_step);
            gemm::gemm(
                rows.len(),
                columns.len(),
                left.columns,
                start,
                target.column_step.cast_signed(),
                target.row_step.cast_signed(),
                adds,
                left.numbers.as_ptr().add(rows.start * left.row_step),
                left.column_step.cast_signed(),
                left.row_step.cast_signed(),
                right
                    .numbers
                    .as_ptr()
                    .add(columns.start * right.column_step),
                right.column_step.cast_signed(),
                right.row_step.cast_signed(),
                alpha,
                T::one(),
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }

    /// Part `index` of `count`: some of the rows or of the columns, of whichever there are more.
    ///
    /// # Safety
    ///
    /// No part is done twice at once.
    #[expect(unsafe_code, reason = "parts are disjoint")]
    unsafe fn part(&self, index: usize, count: usize) {
        let (rows, columns) = (self.target.rows, self.target.columns);
        // SAFETY: parts of different indices are disjoint.
        unsafe {
            if columns <= rows {
                self.run(region::range(rows, STEP, index, count), 0..columns);
            } else {
                self.run(0..rows, region::range(columns, STEP, index, count));
            }
        }
    }
}

/// Parts end where the kernels' blocks do.
const STEP: usize = 16;

/// A product by the calling thread alone.
#[expect(unsafe_code, reason = "`gemm` takes pointers")]
pub(crate) fn multiply<T: WithDType + Float>(job: &mut Job<'_, T>) {
    // SAFETY: the target is borrowed for this call alone.
    unsafe { job.part(0, 1) };
}

/// Products and other work side by side: `beside(part, parts)` is called by each thread that takes part.
#[expect(unsafe_code, reason = "`gemm` takes pointers")]
pub(crate) fn multiply_all<T: WithDType + Float>(
    jobs: &mut [Job<'_, T>],
    beside: impl Fn(usize, usize) + Sync,
) {
    let operations = jobs.iter().map(Job::operations).sum();
    let parts = region::parts(operations);
    let jobs = &*jobs;
    region::run(parts, |part| {
        for job in jobs {
            // SAFETY: each part is done once, and the targets are borrowed for this call alone.
            unsafe { job.part(part, parts) };
        }
        beside(part, parts);
    });
}

#[cfg(test)]
mod tests {
    use super::super::Fresh;
    use super::*;

    /// (rows, columns) of small whole numbers: products of them are exact.
    fn numbers(rows: usize, columns: usize, seed: usize) -> Vec<f32> {
        let number = |index: usize| ((index * 7 + seed * 13) % 11) as f32 - 5.0;
        (0..rows * columns).map(number).collect()
    }

    #[expect(clippy::many_single_char_names, reason = "a formula")]
    fn slow(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f32> {
        let dot = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        (0..m * n).map(|index| dot(index / n, index % n)).collect()
    }

    #[test]
    #[expect(unsafe_code, reason = "the target is written whole")]
    fn products_of_all_sizes_and_orders_are_the_slow_ones() {
        for (m, n, k) in [
            (1, 1, 1),
            (3, 5, 7),
            (64, 256, 96),
            (300, 33, 65),
            (1, 700, 300),
        ] {
            let (a, b) = (numbers(m, k, 1), numbers(k, n, 2));
            let expected = slow(&a, &b, m, n, k);
            let mut y = Fresh::new(m * n);
            let target = Target::fresh(y.places(), m, n);
            let job = Job::new(target, Matrix::new(&a, m, k), Matrix::new(&b, k, n));
            multiply_all(&mut [job], |_, _| {});
            // SAFETY: the product has written all.
            let mut y = unsafe { y.written() };
            assert_eq!(y, expected);
            let target = Target::adding(&mut y, m, n);
            multiply(&mut Job::new(
                target,
                Matrix::new(&a, m, k),
                Matrix::new(&b, k, n),
            ));
            let twice: Vec<f32> = expected.iter().map(|x| 2.0 * x).collect();
            assert_eq!(y, twice);
            // Transposed: (b' a')' = a b.
            let mut y = Fresh::new(m * n);
            let target = Target::fresh_with_steps(y.places(), n, m, (1, n));
            let job = Job::new(target, Matrix::new(&b, k, n).t(), Matrix::new(&a, m, k).t());
            multiply_all(&mut [job], |_, _| {});
            // SAFETY: the product has written all.
            assert_eq!(unsafe { y.written() }, expected);
        }
    }
}
