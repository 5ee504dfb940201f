//! Matrix multiplication by the crate `gemm`: each part on one thread, parts in parallel.

use std::mem::MaybeUninit;
use std::ops::Range;

use gemm::Parallelism;

use super::matrix::{Matrix, TargetMatrix};
use super::outer;
use crate::kernels::math::Number;
use crate::kernels::memory::fill::{Rows, Schedule, fill_chunks};
use crate::kernels::parallel::region;
use crate::kernels::{UninitBuffer, add_rows, has_tiles, transpose_at, write_all, written};
use crate::vectorised;

vectorised! {
    /// Copies a row of a column-major matrix of `rows` rows into `line`.
    fn transpose<'a, T: Number>(
        transposed: &[T],
        row: usize,
        rows: usize,
        line: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        write_all(line, transposed.chunks_exact(rows).map(|column| column[row]))
    }
}

/// A matrix multiplication, left · right, into a target.
pub(crate) struct Job<'a, T> {
    target: TargetMatrix<'a, T>,
    left: Matrix<'a, T>,
    right: Matrix<'a, T>,
}

impl<'a, T: Number> Job<'a, T> {
    /// Multiplies (m, k) by (k, n) into (m, n).
    pub(crate) fn new(
        target: TargetMatrix<'a, T>,
        left: Matrix<'a, T>,
        right: Matrix<'a, T>,
    ) -> Self {
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

    /// Number of operations: two for each multiply-add.
    pub(crate) fn operations(&self) -> usize {
        2 * self.target.rows * self.target.columns * self.left.columns
    }

    /// Computes some rows and columns of the product.
    ///
    /// # Safety
    ///
    /// They lie inside the target, and nothing else accesses their elements during the call.
    #[expect(unsafe_code, reason = "`gemm` takes pointers")]
    unsafe fn run(&self, rows: Range<usize>, columns: Range<usize>) {
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        if self.is_outer() {
            for row in rows {
                let factor = self.left.numbers[row * self.left.row_step];
                // SAFETY: by this function's contract row and columns lie inside the target, and nothing else accesses
                // their elements.
                let line = unsafe { self.target.line(row, columns.clone()) };
                outer::write_row(factor, &self.right.numbers[columns.clone()], line);
            }
            return;
        }
        if self.is_better_transposed(&rows, &columns) {
            // SAFETY: by this function's contract rows and columns lie inside the target and nothing else accesses
            // their elements, which is all that `run_transposed` requires.
            unsafe { self.run_transposed(rows, columns) };
            return;
        }
        let target = &self.target;
        if let Some(begin) = target.begin {
            for row in rows.clone() {
                // SAFETY: by this function's contract row and columns lie inside the target, and nothing else accesses
                // their elements.
                let line = unsafe { target.line(row, columns.clone()) };
                write_all(line, begin[columns.clone()].iter().copied());
            }
        }
        let adds = target.adds || target.begin.is_some();
        let steps = (target.row_step, target.column_step);
        // SAFETY: by this function's contract the ranges lie inside the target and nothing else accesses their
        // elements, which have been written where the product is added to them: by the loop above, or before the target
        // was made.
        unsafe {
            let start = rows.start * target.row_step + columns.start * target.column_step;
            self.multiply(rows, columns, target.start.add(start), steps, adds);
        }
    }

    /// Whether the product is an outer product that is written row by row.
    fn is_outer(&self) -> bool {
        let (target, right) = (&self.target, &self.right);
        self.left.columns == 1
            && (target.column_step, right.column_step) == (1, 1)
            && !target.adds
            && target.begin.is_none()
    }

    /// Whether it is faster to compute the product column-major and to transpose it afterwards.
    ///
    /// `gemm` packs the matrix that has the dimension contiguous in the target: of a row-major target the right one.
    /// Where the left one has few rows, it is cheaper to have that one packed.
    fn is_better_transposed(&self, rows: &Range<usize>, columns: &Range<usize>) -> bool {
        let packs_right = self.right.row_step == 1 && self.right.column_step != 1;
        let is_line = self.target.column_step == 1 && !self.target.adds;
        is_line && packs_right && rows.len() > 1 && rows.len() <= 128 && rows.len() < columns.len()
    }

    /// Computes some rows and columns of the product, transposed first.
    ///
    /// # Safety
    ///
    /// They lie inside the target, and nothing else accesses their elements during the call.
    #[expect(unsafe_code, reason = "`gemm` takes pointers")]
    unsafe fn run_transposed(&self, rows: Range<usize>, columns: Range<usize>) {
        let count = rows.len();
        let mut transposed = UninitBuffer::new(count * columns.len());
        let start = transposed.slots().as_mut_ptr().cast();
        // SAFETY: the memory belongs to this call and has an element for each of these rows and columns, all of which
        // the multiplication writes.
        let transposed = unsafe {
            self.multiply(rows.clone(), columns.clone(), start, (1, count), false);
            transposed.written()
        };
        let in_tiles = T::as_single(&transposed).filter(|_| has_tiles());
        if let Some(transposed) = in_tiles {
            let dims = (columns.len(), count);
            let start = rows.start * self.target.row_step + columns.start;
            // SAFETY: by this function's contract rows and columns lie inside the target and nothing else accesses
            // their elements; `as_single` has shown that `T` is `f32`.
            unsafe {
                let to = self.target.start.add(start).cast();
                transpose_at(transposed, count, dims, to, self.target.row_step);
            }
        }
        for (index, row) in rows.enumerate() {
            // SAFETY: by this function's contract row and columns lie inside the target, and nothing else accesses
            // their elements.
            let line = unsafe { self.target.line(row, columns.clone()) };
            let line = if in_tiles.is_some() {
                // SAFETY: `transpose_at` has written these columns of every row.
                unsafe { written(line) }
            } else {
                transpose(&transposed, index, count, line)
            };
            if let Some(begin) = self.target.begin {
                add_rows(line, &begin[columns.clone()], columns.len(), 0);
            }
        }
    }

    /// Computes rows and columns of the product into memory with strides of its own.
    ///
    /// # Safety
    ///
    /// Rows and columns lie inside the target. The memory reaches as far as the strides do, and nothing else accesses
    /// it during the call; where the product is added to it, it has been written.
    #[expect(unsafe_code, reason = "`gemm` takes pointers")]
    unsafe fn multiply(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        start: *mut T,
        (row_step, column_step): (usize, usize),
        adds: bool,
    ) {
        let (left, right) = (&self.left, &self.right);
        let alpha = if adds { T::one() } else { T::zero() };
        // SAFETY: `Job::new` has checked that left and right lie in their memory and fit the target; by this function's
        // contract the ranges lie inside it, and the memory at `start` is exclusive, large enough, and written where it
        // is read.
        unsafe {
            gemm::gemm(
                rows.len(),
                columns.len(),
                left.columns,
                start,
                column_step.cast_signed(),
                row_step.cast_signed(),
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

    /// Computes part `index` of `count`: a range of the rows or of the columns, whichever are more. Of an outer product
    /// it is a range of the rows if there are enough, as they are contiguous.
    ///
    /// # Safety
    ///
    /// No part is computed twice at the same time, and parts computed at the same time have the same `count`.
    #[expect(unsafe_code, reason = "parts are disjoint")]
    unsafe fn part(&self, index: usize, count: usize) {
        let (rows, columns) = (self.target.rows, self.target.columns);
        let is_by_rows = columns <= rows || self.is_outer() && rows >= count * STEP;
        // SAFETY: `region::range` gives parts disjoint ranges inside the target, and by this function's contract no
        // other thread computes this one.
        unsafe {
            if is_by_rows {
                self.run(region::range(rows, STEP, index, count), 0..columns);
            } else {
                self.run(0..rows, region::range(columns, STEP, index, count));
            }
        }
    }
}

/// Rows or columns of parts are multiples of this, so that parts end where the kernels' blocks do.
const STEP: usize = 16;

/// Runs a multiplication on the calling thread alone.
#[expect(unsafe_code, reason = "`gemm` takes pointers")]
pub(crate) fn multiply<T: Number>(job: &mut Job<'_, T>) {
    // SAFETY: the job is mutably borrowed for this call, whose only part this is, so nothing else accesses its target.
    unsafe { job.part(0, 1) };
}

/// left · right into uninitialised memory of its size, row-major, on the calling thread alone.
pub(crate) fn multiply_uninit<'a, T: Number>(
    slots: &'a mut [MaybeUninit<T>],
    left: Matrix<'_, T>,
    right: Matrix<'_, T>,
) -> &'a mut [T] {
    let (rows, columns) = (left.rows, right.columns);
    assert!(
        slots.len() == rows * columns,
        "a product's target is not of its size"
    );
    let target = TargetMatrix::uninit(&mut *slots, rows, columns);
    multiply(&mut Job::new(target, left, right));
    // SAFETY: the target is all of the memory, and the multiplication has written each of its rows and columns.
    #[expect(unsafe_code, reason = "they are written")]
    unsafe {
        written(slots)
    }
}

/// The matrices of a product, and a row to be added to each of its rows, if any.
#[derive(Clone, Copy)]
pub(crate) struct Factors<'a, T> {
    pub(crate) left: Matrix<'a, T>,
    pub(crate) right: Matrix<'a, T>,
    pub(crate) row: Option<&'a [T]>,
}

/// Runs multiplications and other work in parallel, and returns the products that are wanted.
///
/// Each part also calls `beside` for some of the elements of `sums`, with their range.
pub(crate) fn multiply_all_uninit<T: Number, const N: usize>(
    factors: [Option<Factors<'_, T>>; N],
    sums: &mut [T],
    beside: impl Fn(Range<usize>, &mut [T]) + Sync,
) -> [Option<Vec<T>>; N] {
    let size = |factors: Factors<'_, T>| factors.left.rows * factors.right.columns;
    let mut products = factors.map(|factors| factors.map(size).map(UninitBuffer::new));
    let mut jobs = Vec::with_capacity(N);
    for (factors, product) in factors.into_iter().zip(&mut products) {
        if let (Some(Factors { left, right, row }), Some(product)) = (factors, product) {
            let target = TargetMatrix::uninit(product.slots(), left.rows, right.columns);
            jobs.push(Job::new(target.with_row(row), left, right));
        }
    }
    multiply_all(&mut jobs, sums, beside);
    // SAFETY: the target of each multiplication is all of its product's memory, and `multiply_all` has written each of
    // its rows and columns.
    #[expect(unsafe_code, reason = "they are written")]
    let written = |product: UninitBuffer<T>| unsafe { product.written() };
    products.map(|product| product.map(written))
}

/// Runs multiplications and other work in parallel; see [`multiply_all_uninit`].
fn multiply_all<T: Number>(
    jobs: &mut [Job<'_, T>],
    sums: &mut [T],
    beside: impl Fn(Range<usize>, &mut [T]) + Sync,
) {
    let operations = jobs.iter().map(Job::operations).sum();
    let parts = region::parts(operations);
    let jobs = &*jobs;
    let schedule = Schedule::per_thread(parts, sums.len(), STEP);
    let room = || ();
    fill_chunks(
        schedule,
        Rows::new(sums, 1),
        room,
        |(), part, range, sums| {
            for job in jobs {
                // SAFETY: `fill_chunks` runs each chunk once, and this schedule has `parts` of them; the jobs are
                // mutably borrowed for this call, so nothing else accesses their targets.
                #[expect(unsafe_code, reason = "`gemm` takes pointers")]
                unsafe {
                    job.part(part, parts);
                }
            }
            if !range.is_empty() {
                beside(range.clone(), sums);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A (rows, columns) matrix of small integers, whose products are exact.
    fn numbers(rows: usize, columns: usize, seed: usize) -> Vec<f32> {
        let number = |index: usize| ((index * 7 + seed * 13) % 11) as f32 - 5.0;
        (0..rows * columns).map(number).collect()
    }

    #[expect(clippy::many_single_char_names, reason = "a formula")]
    fn slow(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f32> {
        let dot = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        (0..m * n).map(|index| dot(index / n, index % n)).collect()
    }

    /// The product by [`multiply_all_uninit`].
    fn product(left: Matrix<'_, f32>, right: Matrix<'_, f32>, row: Option<&[f32]>) -> Vec<f32> {
        let factors = Factors { left, right, row };
        let [product] = multiply_all_uninit([Some(factors)], &mut [], |_, _| {});
        product.expect("it is wanted")
    }

    #[test]
    fn products_of_all_sizes_and_orders_are_the_slow_ones() {
        for (m, n, k) in [
            (1, 1, 1),
            (3, 5, 7),
            (64, 256, 96),
            (300, 33, 65),
            (1, 700, 300),
            (33, 70, 1),
            (5, 3, 1),
        ] {
            let (a, b) = (numbers(m, k, 1), numbers(k, n, 2));
            let expected = slow(&a, &b, m, n, k);
            let mut y = product(Matrix::new(&a, m, k), Matrix::new(&b, k, n), None);
            assert_eq!(y, expected);
            let mut alone = UninitBuffer::new(m * n);
            let (left, right) = (Matrix::new(&a, m, k), Matrix::new(&b, k, n));
            assert_eq!(multiply_uninit(alone.slots(), left, right), expected);
            let target = TargetMatrix::adding(&mut y, m, n);
            multiply(&mut Job::new(
                target,
                Matrix::new(&a, m, k),
                Matrix::new(&b, k, n),
            ));
            let twice: Vec<f32> = expected.iter().map(|x| 2.0 * x).collect();
            assert_eq!(y, twice);
            // Transposed: (b' a')' = a b.
            let mut y = UninitBuffer::new(m * n);
            let target = TargetMatrix::uninit_with_strides(y.slots(), n, m, (1, n));
            let job = Job::new(target, Matrix::new(&b, k, n).t(), Matrix::new(&a, m, k).t());
            multiply_all(&mut [job], &mut [], |_, _| {});
            // SAFETY: the multiplication has written each of the n · m elements.
            #[expect(unsafe_code, reason = "they are written")]
            let y = unsafe { y.written() };
            assert_eq!(y, expected);
            // With a row added and the right matrix transposed, so that some are computed transposed first.
            let right: Vec<f32> = (0..n * k)
                .map(|index| b[index % k * n + index / k])
                .collect();
            let row = numbers(1, n, 3);
            let right = Matrix::new(&right, n, k).t();
            let y = product(Matrix::new(&a, m, k), right, Some(&row));
            let with_row: Vec<f32> = (0..m * n)
                .map(|index| expected[index] + row[index % n])
                .collect();
            assert_eq!(y, with_row);
        }
    }
}
