//! Convolutions without a matrix of windows: images with their channels side by side, and products in tiles
//! that read them where they lie.
//!
//! With channels side by side, what a row of the kernel sees of a window is one stretch of numbers, and the next
//! window's begins a column further on. So products need no copy of the windows, neither of inputs nor of
//! gradients, and all that an image's products read stays in the nearest cache. Pooling takes whole registers of
//! channels.

mod backward;
mod forward;
mod squares;
mod weights;

use super::after::After;
use super::sizes::Conv;
use crate::kernels::{PANEL, has_tiles, transpose};
use crate::unfold::Sizes;

/// A convolution that is done so.
#[derive(Clone, Copy)]
pub(super) struct Direct {
    conv: Conv,
    /// An image with its padding.
    height: usize,
    width: usize,
    /// Outputs of one group.
    outputs: usize,
    after: After,
}

impl Direct {
    /// Where products in tiles are there, and pay: registers are filled with outputs, and tiles with the windows
    /// of a row.
    pub(super) fn of(conv: &Conv, after: After) -> Option<Direct> {
        let Sizes {
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
        })
    }

    /// Input channels of one group.
    fn channels(&self) -> usize {
        self.conv.image.channels
    }

    fn windows(&self) -> usize {
        self.conv.image.rows * self.conv.image.columns
    }

    /// Outputs of one channel of an image.
    fn kept(&self) -> usize {
        self.conv.kept(self.after)
    }

    /// What one row of the kernel sees of a window.
    fn stretch(&self) -> usize {
        self.conv.image.window.kernel.1 * self.channels()
    }

    /// From a window's first number to that of the window below, the one beside it, and what the next row of the
    /// kernel sees of it.
    fn steps(&self) -> Steps {
        let line = self.width * self.channels();
        let window = self.conv.image.window;
        Steps {
            down: window.stride.0 * line,
            across: window.stride.1 * self.channels(),
            kernel: window.dilation.0 * line,
        }
    }

    /// An image of one group with its channels side by side and its padding around it: `x` itself where that
    /// changes nothing. `room` is zero in the padding, and stays so.
    fn channels_last<'a>(&self, x: &'a [f32], room: &'a mut Vec<f32>) -> &'a [f32] {
        let Sizes {
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
        self.each_stretch(|place, padded, count| {
            let to = &mut room[padded * channels..];
            transpose(&x[place..], height * width, (channels, count), to, channels);
        });
        room
    }

    /// Calls `at(place in an image, place with the padding around it, count)` for the places of an image that
    /// follow each other in both: rows, or all of it.
    fn each_stretch(&self, mut at: impl FnMut(usize, usize, usize)) {
        let Sizes {
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

/// From one window's numbers to others.
#[derive(Clone, Copy)]
struct Steps {
    down: usize,
    across: usize,
    kernel: usize,
}

#[cfg(test)]
mod tests;
