//! Tests of outputs and gradients against those in `f64`, computed with the matrix of windows.

use candle_core::Result;

use super::*;
use crate::Window;
use crate::operations::conv::comparison::compare;

#[test]
fn outputs_and_gradients_are_those_of_windows_as_a_matrix() -> Result<()> {
    let of = |dims, outputs, window, groups| {
        compare(dims, outputs, window, groups, |conv, after| {
            Depthwise::of(conv, after).is_some()
        })
    };
    let window = |kernel, stride, padding, dilation| Window {
        kernel,
        stride,
        padding,
        dilation,
    };
    of([3, 6, 32, 32], 6, window((3, 3), (1, 1), (1, 1), (1, 1)), 6)?;
    // Two outputs for each input, odd sides, and more threads than images of a group.
    of([5, 3, 9, 7], 6, window((3, 3), (2, 2), (1, 1), (1, 1)), 3)?;
    of([2, 4, 11, 13], 4, window((5, 2), (1, 3), (0, 2), (2, 1)), 4)?;
    // A stride larger than the kernel: some elements are in no window, and padding that windows begin in.
    of([2, 5, 12, 10], 5, window((2, 1), (3, 2), (3, 4), (1, 1)), 5)?;
    of(
        [64, 40, 8, 8],
        40,
        window((3, 3), (1, 1), (1, 1), (1, 1)),
        40,
    )?;
    of([2, 8, 2, 50], 8, window((1, 7), (1, 1), (0, 3), (1, 1)), 8)
}
