//! Products of matrices, in tiles of which the sums stay in registers.

/// Rows and columns of a tile: its sums, and what is read for one step, are 14 registers of two elements.
const ROWS: usize = 2;
const COLUMNS: usize = 8;

/// A matrix over a slice: as it lies there, or its transpose.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    values: &'a [f64],
    /// Elements of a row of the slice.
    width: usize,
    transposed: bool,
}

impl<'a> Matrix<'a> {
    /// Row-major, with rows of `width` elements, at least one.
    pub(super) fn new(values: &'a [f64], width: usize) -> Self {
        Matrix {
            values,
            width,
            transposed: false,
        }
    }

    pub(super) fn transposed(self) -> Self {
        Matrix {
            transposed: !self.transposed,
            ..self
        }
    }

    fn rows(&self) -> usize {
        if self.transposed {
            self.width
        } else {
            self.values.len() / self.width
        }
    }

    /// Writes `N` columns from `first` on to `to`, row by row; where there are none, zeros.
    fn pack<const N: usize>(&self, first: usize, to: &mut Vec<f64>) {
        to.clear();
        if self.transposed {
            let inner = self.width;
            to.resize(inner * N, 0.0);
            let lines = self.values.chunks_exact(inner).skip(first).take(N);
            for (column, line) in lines.enumerate() {
                for (packed, &value) in to.chunks_exact_mut(N).zip(line) {
                    packed[column] = value;
                }
            }
        } else {
            for row in self.values.chunks_exact(self.width) {
                let found = row.iter().skip(first).copied();
                to.extend(found.chain(std::iter::repeat(0.0)).take(N));
            }
        }
    }
}

/// Multiplies matrices, by buffers that it keeps.
#[derive(Default)]
pub(super) struct Product {
    left: Vec<Vec<f64>>,
    right: Vec<f64>,
}

impl Product {
    /// Writes `left` times `right` to `to`, row-major.
    pub(super) fn write(&mut self, left: Matrix<'_>, right: Matrix<'_>, to: &mut Vec<f64>) {
        let (rows, columns) = (left.rows(), right.transposed().rows());
        to.clear();
        to.resize(rows * columns, 0.0);
        self.left.resize_with(rows.div_ceil(ROWS), Vec::new);
        for (tile, packed) in self.left.iter_mut().enumerate() {
            left.transposed().pack::<ROWS>(tile * ROWS, packed);
        }
        for first in (0..columns).step_by(COLUMNS) {
            right.pack::<COLUMNS>(first, &mut self.right);
            for (packed, lines) in self.left.iter().zip(to.chunks_mut(ROWS * columns)) {
                let sums = tile(packed, &self.right);
                for (line, sums) in lines.chunks_exact_mut(columns).zip(&sums) {
                    let part = line.iter_mut().skip(first);
                    part.zip(sums).for_each(|(to, &sum)| *to = sum);
                }
            }
        }
    }
}

/// The sums of one tile, over packed rows and columns.
fn tile(left: &[f64], right: &[f64]) -> [[f64; COLUMNS]; ROWS] {
    let mut sums = [[0.0; COLUMNS]; ROWS];
    let (left, _) = left.as_chunks::<ROWS>();
    let (right, _) = right.as_chunks::<COLUMNS>();
    for (left, right) in left.iter().zip(right) {
        for (sums, &factor) in sums.iter_mut().zip(left) {
            for (sum, &value) in sums.iter_mut().zip(right) {
                *sum += factor * value;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, step: f64) -> Vec<f64> {
        (0..count).map(|at| (at as f64 * step).sin()).collect()
    }

    #[test]
    fn a_product_is_that_of_three_loops_in_all_orders_and_sizes() {
        for (rows, inner, columns) in [(1, 1, 1), (2, 3, 8), (5, 7, 9), (4, 16, 17)] {
            let (left, right) = (numbers(rows * inner, 0.7), numbers(inner * columns, 0.3));
            let mut expected = vec![0.0; rows * columns];
            for row in 0..rows {
                for column in 0..columns {
                    for at in 0..inner {
                        expected[row * columns + column] +=
                            left[row * inner + at] * right[at * columns + column];
                    }
                }
            }
            let turn = |values: &[f64], width: usize| -> Vec<f64> {
                let height = values.len() / width;
                (0..values.len())
                    .map(|at| values[at % height * width + at / height])
                    .collect()
            };
            let (left_t, right_t) = (turn(&left, inner), turn(&right, columns));
            let lefts = [
                Matrix::new(&left, inner),
                Matrix::new(&left_t, rows).transposed(),
            ];
            let rights = [
                Matrix::new(&right, columns),
                Matrix::new(&right_t, inner).transposed(),
            ];
            let (mut product, mut got) = (Product::default(), Vec::new());
            for left in lefts {
                for right in rights {
                    product.write(left, right, &mut got);
                    assert_eq!(got, expected);
                }
            }
        }
    }
}
