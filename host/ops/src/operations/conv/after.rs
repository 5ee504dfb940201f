//! Operations after a convolution, done on its outputs while they are in the processor's cache.

use crate::kernels::UninitBuffer;
use crate::kernels::math::{Number, sum};
use crate::operations::pool::{quads_with_positions, spread_quads};
use crate::options::After;
use crate::vectorised;

impl After {
    /// Number of rows and columns after these operations.
    pub(super) fn outputs(self, rows: usize, columns: usize) -> (usize, usize) {
        if self.pool {
            (rows / 2, columns / 2)
        } else {
            (rows, columns)
        }
    }

    /// Adds the bias and applies `ReLU`, in place.
    ///
    /// `planes` has `windows` elements for each channel, and `bias` one.
    pub(super) fn finish<T: Number>(self, planes: &mut [T], bias: Option<&[T]>, windows: usize) {
        match bias {
            Some(bias) => add_by_rows(planes, bias, windows, self.relu),
            None if self.relu => add_by_rows(planes, &[], windows, true),
            None => {}
        }
    }

    /// The gradient of a convolution's outputs, from that of the operations after it.
    ///
    /// It is `g` itself or in `scratch`, where a last row or column that is in no square stays unchanged.
    pub(super) fn gradient<'a, T: Number>(
        self,
        g: &'a [T],
        y: &[T],
        squares: &[u8],
        (rows, columns): (usize, usize),
        scratch: &'a mut Scratch<T>,
    ) -> &'a [T] {
        let Scratch { masked, spread } = scratch;
        let g = if self.relu {
            mask(g, y, masked);
            &masked[..]
        } else {
            g
        };
        if !self.pool {
            return g;
        }
        let outputs = rows / 2 * (columns / 2);
        let whole = spread.chunks_exact_mut(rows * columns);
        let pooled = g.chunks_exact(outputs).zip(squares.chunks_exact(outputs));
        for (plane, (g, positions)) in whole.zip(pooled) {
            spread_quads(positions, g, columns, columns / 2, plane);
        }
        spread
    }
}

/// Scratch memory for the gradient of one image's outputs.
pub(super) struct Scratch<T> {
    masked: Vec<T>,
    spread: Vec<T>,
}

impl<T: Number> Scratch<T> {
    /// For images of `outputs` channels, planes of `rows` · `columns`.
    pub(super) fn new(after: After, outputs: usize, (rows, columns): (usize, usize)) -> Self {
        let (high, wide) = after.outputs(rows, columns);
        let room = |is_wanted: bool, count: usize| vec![T::ZERO; if is_wanted { count } else { 0 }];
        Scratch {
            masked: room(after.relu, outputs * high * wide),
            spread: room(after.pool, outputs * rows * columns),
        }
    }
}

/// Pools planes of `rows` · `columns`; positions of the largest elements go to `squares`.
pub(super) fn pool<T: Number>(
    planes: &[T],
    (rows, columns): (usize, usize),
    y: &mut [T],
    squares: &mut [u8],
) {
    let outputs = rows / 2 * (columns / 2);
    let targets = y
        .chunks_exact_mut(outputs)
        .zip(squares.chunks_exact_mut(outputs));
    for (plane, (y, squares)) in planes.chunks_exact(rows * columns).zip(targets) {
        quads_with_positions(plane, columns, columns / 2, y, squares);
    }
}

/// Memory for one image's outputs before pooling; empty without pooling.
pub(super) fn room<T: Number>(after: After, count: usize) -> UninitBuffer<T> {
    UninitBuffer::new(if after.pool { count } else { 0 })
}

vectorised! {
    /// Adds an element of `numbers`, if there are any, to each row, then applies `ReLU` if requested.
    fn add_by_rows<T: Number>(matrix: &mut [T], numbers: &[T], columns: usize, relu: bool) {
        for (index, row) in matrix.chunks_exact_mut(columns.max(1)).enumerate() {
            if let Some(&number) = numbers.get(index) {
                for x in &mut *row {
                    *x += number;
                }
            }
            if relu {
                for x in row {
                    *x = if *x < T::ZERO { T::ZERO } else { *x };
                }
            }
        }
    }
}

vectorised! {
    /// Gradient of `ReLU`, from its outputs.
    pub(super) fn mask<T: Number>(g: &[T], y: &[T], masked: &mut [T]) {
        for ((masked, &g), &y) in masked.iter_mut().zip(g).zip(y) {
            *masked = if y > T::ZERO { g } else { T::ZERO };
        }
    }
}

vectorised! {
    /// Adds a row to each row of a matrix.
    pub(super) fn add_to_rows(matrix: &mut [f32], row: &[f32]) {
        for line in matrix.chunks_exact_mut(row.len().max(1)) {
            for (x, &y) in line.iter_mut().zip(row) {
                *x += y;
            }
        }
    }
}

vectorised! {
    /// The sum of a plane.
    pub(super) fn plane_sum(plane: &[f32]) -> f32 {
        sum([plane], |[x]| x)
    }
}
