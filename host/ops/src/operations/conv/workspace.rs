//! Memory that a convolution needs on a GPU while it is computed, known where it is computed on the CPU.
//!
//! There the windows of the whole batch are written as columns (`cuda/convolution.rs`); here there is a matrix of one
//! image's at most. So what a batch would need on a GPU follows from the shapes alone.

use std::cell::Cell;

use super::sizes::Conv;

thread_local! {
    /// Of the convolutions since it was last asked for.
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that the largest convolution on this thread since this was last asked needs on a GPU, in its backward pass and
/// for itself alone: columns, products, and the gradients of its output and its input. One is computed at a time.
pub fn largest_convolution() -> usize {
    LARGEST.take()
}

/// Counts a convolution of elements of this size.
pub(super) fn count(conv: &Conv, size: usize) {
    let bytes = conv.workspace().saturating_mul(size);
    LARGEST.set(LARGEST.get().max(bytes));
}

impl Conv {
    /// Number of elements that are alive at once beside input and output.
    fn workspace(&self) -> usize {
        let (depth, windows) = self.image.matrix();
        let all = self.batch * windows;
        // Several groups are composed: the windows once as they are gathered and once for each group's product.
        let copies = if self.groups > 1 { 2 } else { 1 };
        let columns = copies * self.groups * depth * all;
        let (products, gradient) = (self.outputs * all, self.outputs * all);
        let of_input = self.batch * self.groups * self.input_size();
        columns + products + gradient + of_input
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Device, Result, Tensor};

    use super::*;
    use crate::{Window, conv2d};

    #[test]
    fn the_largest_convolution_counts_with_its_columns() -> Result<()> {
        let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, &Device::Cpu);
        let window = |kernel: usize, padding: usize| Window {
            kernel: (kernel, kernel),
            stride: (1, 1),
            padding: (padding, padding),
            dilation: (1, 1),
        };
        largest_convolution();
        // 3 · 9 rows of 2 · 36 windows; 5 products and gradients of outputs each; 2 · 3 · 36 gradients of inputs.
        conv2d(
            &zeros(&[2, 3, 6, 6])?,
            &zeros(&[5, 3, 3, 3])?,
            None,
            window(3, 1),
            1,
        )?;
        conv2d(
            &zeros(&[1, 1, 4, 4])?,
            &zeros(&[1, 1, 1, 1])?,
            None,
            window(1, 0),
            1,
        )?;
        let expected = 27 * 72 + 2 * 5 * 72 + 216;
        assert_eq!(largest_convolution(), 4 * expected);
        assert_eq!(largest_convolution(), 0);
        // The same windows of all channels, twice.
        conv2d(
            &zeros(&[2, 4, 6, 6])?,
            &zeros(&[6, 2, 3, 3])?,
            None,
            window(3, 1),
            2,
        )?;
        let expected = 2 * 36 * 72 + 2 * 6 * 72 + 2 * 4 * 36;
        assert_eq!(largest_convolution(), 4 * expected);
        Ok(())
    }
}
