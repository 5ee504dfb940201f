//! Convolutions without a matrix of windows: channels-last images, read in place by tiled multiplications.
//!
//! With channels last, the part of a window that a row of the kernel sees is one contiguous stretch of elements, and
//! the next window's begins a column further on. So no copy of the windows is needed, neither of inputs nor of
//! gradients, and all that an image's multiplications read stays in the L1 cache. Pooling works on whole registers of
//! channels. On request what is multiplied is rounded to pairs of `bf16` first ([`words`]).

mod backward;
mod forward;
mod input_gradient;
mod phases;
mod squares;
mod weights;
mod words;

pub(super) use backward::Gradient;
pub(super) use squares::largest;

use super::sizes::Conv;
use crate::kernels::{PANEL, Terms, has_tiles, transpose};
use crate::options::{After, UnfoldSizes};

/// A convolution without a matrix of windows.
#[derive(Clone, Copy)]
pub(super) struct Direct {
    conv: Conv,
    /// Height of an image with its padding; `width` likewise.
    height: usize,
    width: usize,
    /// Output channels of one group.
    outputs: usize,
    after: After,
    /// Of the products of all three passes.
    terms: Terms,
}

impl Direct {
    /// A direct convolution, where tiles are supported and pay.
    ///
    /// They pay where outputs fill registers and the windows of a row fill tiles.
    pub(super) fn of(conv: &Conv, after: After) -> Option<Direct> {
        let UnfoldSizes {
            height,
            width,
            columns,
            window,
            ..
        } = conv.image;
        let outputs = conv.group_outputs();
        let is_dense = window.dilation.1 == 1 || window.kernel.1 == 1;
        let pays = outputs >= PANEL / 2 && columns >= 4 && conv.image.channels > 0;
        (has_tiles() && is_dense && pays).then_some(Direct {
            conv: *conv,
            height: height + 2 * window.padding.0,
            width: width + 2 * window.padding.1,
            outputs,
            after,
            terms: Terms::Singles,
        })
    }

    /// The convolution of factors in these terms.
    pub(super) fn in_terms(self, terms: Terms) -> Direct {
        Direct { terms, ..self }
    }

    /// The same convolution with padded images of at least this height and width, by zeros at the end.
    pub(super) fn at_least(self, height: usize, width: usize) -> Direct {
        Direct {
            height: self.height.max(height),
            width: self.width.max(width),
            ..self
        }
    }

    /// Number of elements of a channel in a line of a padded image.
    pub(super) fn line(&self) -> usize {
        self.width
    }

    /// Input channels of one group.
    fn channels(&self) -> usize {
        self.conv.image.channels
    }

    fn windows(&self) -> usize {
        self.conv.image.rows * self.conv.image.columns
    }

    /// Number of outputs of one channel of an image that are kept.
    pub(super) fn kept(&self) -> usize {
        self.conv.kept(self.after)
    }

    /// Number of elements, or words, of a window that one row of the kernel sees, of this many for each pixel.
    fn stretch(&self, pixel: usize) -> usize {
        self.conv.image.window.kernel.1 * pixel
    }

    /// Strides from a window to the one below, to the one beside it, and to the next row of the kernel, where each pixel has this many
    /// elements or words.
    fn steps(&self, pixel: usize) -> Steps {
        let line = self.width * pixel;
        let window = self.conv.image.window;
        Steps {
            down: window.stride.0 * line,
            across: window.stride.1 * pixel,
            kernel: window.dilation.0 * line,
        }
    }

    /// An image of one group with channels last and its padding; `x` itself where that changes nothing.
    ///
    /// `room` is zero in the padding, and stays so.
    pub(super) fn channels_last<'a>(&self, x: &'a [f32], room: &'a mut Vec<f32>) -> &'a [f32] {
        let UnfoldSizes {
            channels,
            height,
            width,
            window,
            ..
        } = self.conv.image;
        if channels == 1 && window.padding == (0, 0) {
            return x;
        }
        room.resize(self.height * self.width * channels, 0.0);
        self.each_stretch(|start, padded, count| {
            let to = &mut room[padded * channels..];
            transpose(&x[start..], height * width, (channels, count), to, channels);
        });
        room
    }

    /// Calls `at(index in an image, index with padding, count)` for elements contiguous in both: rows, or all.
    fn each_stretch(&self, mut at: impl FnMut(usize, usize, usize)) {
        let UnfoldSizes {
            height,
            width,
            window,
            ..
        } = self.conv.image;
        if window.padding == (0, 0) {
            at(0, 0, height * width);
            return;
        }
        for row in 0..height {
            let padded = (row + window.padding.0) * self.width + window.padding.1;
            at(row * width, padded, width);
        }
    }
}

/// Strides between the elements of windows.
#[derive(Clone, Copy)]
struct Steps {
    down: usize,
    across: usize,
    kernel: usize,
}

#[cfg(test)]
mod tests;
