//! Products of matrices, by `ndarray`.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeError};

use super::rows::WrongShape;

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

    fn view(self) -> Result<ArrayView2<'a, f64>, WrongShape> {
        let shape = (self.values.len() / self.width.max(1), self.width);
        let view = ArrayView2::from_shape(shape, self.values).map_err(|error| wrong(&error))?;
        Ok(if self.transposed {
            view.reversed_axes()
        } else {
            view
        })
    }
}

/// Writes `left` times `right` to `to`, row-major.
pub(super) fn multiply(
    left: Matrix<'_>,
    right: Matrix<'_>,
    to: &mut Vec<f64>,
) -> Result<(), WrongShape> {
    to.clear();
    to.resize(left.view()?.nrows() * right.view()?.ncols(), 0.0);
    add_product(left, right, to)
}

/// Adds `left` times `right` to `to`, row-major.
pub(super) fn add_product(
    left: Matrix<'_>,
    right: Matrix<'_>,
    to: &mut [f64],
) -> Result<(), WrongShape> {
    let (left, right) = (left.view()?, right.view()?);
    if left.ncols() != right.nrows() {
        let message = format!(
            "a matrix of {} columns can't be multiplied by one of {} rows",
            left.ncols(),
            right.nrows()
        );
        return Err(WrongShape(message));
    }
    let mut to = ArrayViewMut2::from_shape((left.nrows(), right.ncols()), to)
        .map_err(|error| wrong(&error))?;
    general_mat_mul(1.0, &left, &right, 1.0, &mut to);
    Ok(())
}

fn wrong(error: &ShapeError) -> WrongShape {
    WrongShape(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, step: f64) -> Vec<f64> {
        (0..count).map(|at| (at as f64 * step).sin()).collect()
    }

    #[test]
    fn a_product_is_that_of_three_loops_in_all_orders() {
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
            let mut got = Vec::new();
            for left in lefts {
                for right in rights {
                    multiply(left, right, &mut got).expect("they fit");
                    add_product(left, right, &mut got).expect("they fit");
                    let mut both = got.iter().zip(&expected);
                    assert!(both.all(|(got, once)| (got - 2.0 * once).abs() < 1e-12));
                }
            }
        }
        let three = [1.0; 3];
        let told = multiply(
            Matrix::new(&three, 3),
            Matrix::new(&three, 3),
            &mut Vec::new(),
        );
        assert!(told.is_err_and(|why| why.to_string().contains("3 columns")));
    }
}
