//! Tests of outputs and gradients against those in `f64`, computed with the matrix of windows.

use candle_core::Result;

use super::*;
use crate::Window;
use crate::operations::conv::comparison;

/// Compares outputs and gradients of [`Direct`] with those in `f64`.
fn compare(dims: [usize; 4], outputs: usize, window: Window, groups: usize) -> Result<()> {
    comparison::compare(dims, outputs, window, groups, |conv, after| {
        Direct::of(conv, after).is_some() == has_tiles()
    })
}

#[test]
fn outputs_and_gradients_are_those_of_windows_as_a_matrix() -> Result<()> {
    let window = |kernel, stride, padding, dilation| Window {
        kernel,
        stride,
        padding,
        dilation,
    };
    compare(
        [5, 1, 28, 28],
        32,
        window((5, 5), (1, 1), (0, 0), (1, 1)),
        1,
    )?;
    compare(
        [3, 32, 12, 12],
        64,
        window((5, 5), (1, 1), (0, 0), (1, 1)),
        1,
    )?;
    compare(
        [2, 3, 11, 13],
        40,
        window((3, 3), (1, 1), (1, 1), (1, 1)),
        1,
    )?;
    compare(
        [2, 40, 9, 10],
        17,
        window((3, 2), (2, 2), (1, 2), (2, 1)),
        1,
    )?;
    compare([2, 36, 8, 7], 34, window((1, 1), (1, 1), (0, 0), (1, 1)), 1)?;
    compare(
        [1, 70, 6, 16],
        96,
        window((3, 3), (1, 2), (1, 1), (1, 1)),
        2,
    )?;
    compare(
        [4, 16, 2, 30],
        16,
        window((1, 3), (1, 1), (0, 1), (1, 1)),
        1,
    )
}
