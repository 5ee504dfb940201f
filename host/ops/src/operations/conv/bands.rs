//! A convolution as a sum over the rows of its kernel.
//!
//! The matrix of windows has each element of an image once for every tap of the kernel. Where windows have a vertical
//! stride of 1, a matrix of windows of a single row is enough: it has each element once for every column of the kernel,
//! and the kernel's row `i` sees the same lines of it, shifted by `i` rows of windows. So a 5 × 5 kernel takes five
//! multiplications, and a fifth of the copying.

use std::borrow::Cow;

use crate::kernels::math::Number;
use crate::options::{UnfoldSizes, Window};

/// Lines of the matrix from which a multiplication for one kernel row is worth its overhead.
const WORTHWHILE: usize = 32;

/// Outputs whose weights are transposed at once: their elements fill a cache line.
const LANES: usize = 16;

/// Rows of a kernel (bands), each with its part of the matrix of windows.
#[derive(Clone, Copy)]
pub(super) struct Bands {
    /// Sizes of the windows in the matrix.
    pub(super) lines: UnfoldSizes,
    /// Number of bands; 1 where the matrix has complete windows.
    pub(super) count: usize,
    /// Offset from one band's windows in the matrix to the next band's.
    pub(super) step: usize,
}

impl Bands {
    pub(super) fn of(image: UnfoldSizes) -> Bands {
        let Window {
            kernel,
            stride,
            padding,
            dilation,
        } = image.window;
        if stride.0 != 1 || kernel.0 == 1 || image.channels * kernel.1 < WORTHWHILE {
            return Bands {
                lines: image,
                count: 1,
                step: 0,
            };
        }
        let window = Window {
            kernel: (1, kernel.1),
            ..image.window
        };
        Bands {
            lines: UnfoldSizes {
                rows: image.height + 2 * padding.0,
                window,
                ..image
            },
            count: kernel.0,
            step: dilation.0 * image.columns,
        }
    }

    /// The weight (outputs, inputs, kernel) as a matrix (outputs, lines) for each band, group by group.
    pub(super) fn weight<'a, T: Number>(&self, weight: &'a [T], outputs: usize) -> Cow<'a, [T]> {
        if self.count == 1 {
            return Cow::Borrowed(weight);
        }
        let (lines, _) = self.lines.matrix();
        let across = self.lines.window.kernel.1;
        let mut parts = Vec::with_capacity(weight.len());
        for group in weight.chunks_exact((outputs * self.count * lines).max(1)) {
            for band in 0..self.count {
                for output in group.chunks_exact(self.count * lines) {
                    for channel in output.chunks_exact(self.count * across) {
                        parts.extend_from_slice(&channel[band * across..(band + 1) * across]);
                    }
                }
            }
        }
        Cow::Owned(parts)
    }

    /// The inverse of [`Bands::weight`], from transposed matrices (lines, outputs).
    pub(super) fn weight_of<T: Number>(&self, transposed: &[T], outputs: usize) -> Vec<T> {
        let (lines, _) = self.lines.matrix();
        let (down, across) = self.lines.window.kernel;
        let whole = self.count * lines;
        let mut weight = vec![T::ZERO; transposed.len()];
        let groups = transposed.chunks_exact((outputs * whole).max(1));
        for (transposed, weight) in groups.zip(weight.chunks_exact_mut((outputs * whole).max(1))) {
            for (band, transposed) in transposed
                .chunks_exact((lines * outputs).max(1))
                .enumerate()
            {
                for first in (0..outputs).step_by(LANES) {
                    let range = first..outputs.min(first + LANES);
                    for (line, numbers) in transposed.chunks_exact(outputs).enumerate() {
                        let (channel, tap) = (line / (down * across), line % (down * across));
                        let position = (channel * self.count + band) * down * across + tap;
                        for (output, &x) in range.clone().zip(&numbers[range.clone()]) {
                            weight[output * whole + position] = x;
                        }
                    }
                }
            }
        }
        weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_go_to_bands_and_back() {
        let window = Window {
            kernel: (3, 2),
            stride: (1, 1),
            padding: (0, 0),
            dilation: (1, 1),
        };
        let sizes = UnfoldSizes::of(&[1, 20, 6, 7], window).expect("windows");
        let bands = Bands::of(sizes);
        assert_eq!((bands.count, bands.lines.matrix()), (3, (40, 6 * 6)));
        let (groups, outputs) = (2, 18);
        let weight: Vec<f64> = (0..groups * outputs * 120)
            .map(|index| index as f64)
            .collect();
        let parts = bands.weight(&weight, outputs);
        // Output 5 of group 1, channel 4, tap (2, 1) of the kernel.
        let expected = weight[((outputs + 5) * 20 + 4) * 6 + 5];
        let found = parts[((3 + 2) * outputs + 5) * 40 + 4 * 2 + 1];
        assert_eq!(found.to_bits(), expected.to_bits());
        let mut transposed = Vec::new();
        for part in parts.chunks_exact(outputs * 40) {
            for line in 0..40 {
                transposed.extend((0..outputs).map(|output| part[output * 40 + line]));
            }
        }
        assert_eq!(bands.weight_of(&transposed, outputs), weight);
    }
}
