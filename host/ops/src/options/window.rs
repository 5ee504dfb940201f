//! Windows of a convolution over images.

use candle_core::{Result, bail};

/// Layout of a convolution's windows along the two dimensions of an image: (down, across).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Size of the kernel, in taps.
    pub kernel: (usize, usize),
    /// Distance from one window to the next.
    pub stride: (usize, usize),
    /// Number of zeros on each side of the image.
    pub padding: (usize, usize),
    /// Distance from one tap of the kernel to the next.
    pub dilation: (usize, usize),
}

impl Window {
    /// Number of windows of an image of (height, width) along each dimension.
    ///
    /// `None` if there is no room for one.
    pub fn counts(&self, height: usize, width: usize) -> Option<(usize, usize)> {
        let count =
            |length: usize, kernel: usize, stride: usize, padding: usize, dilation: usize| {
                let reach = dilation
                    .checked_mul(kernel.checked_sub(1)?)?
                    .checked_add(1)?;
                let padded = length.checked_add(padding.checked_mul(2)?)?;
                padded
                    .checked_sub(reach)?
                    .checked_div(stride)?
                    .checked_add(1)
            };
        let (kernel, stride) = (self.kernel, self.stride);
        let (padding, dilation) = (self.padding, self.dilation);
        Some((
            count(height, kernel.0, stride.0, padding.0, dilation.0)?,
            count(width, kernel.1, stride.1, padding.1, dilation.1)?,
        ))
    }

    /// The pixel at a tap of a window, as an index into an image of (height, width); none in the padding.
    pub(crate) fn pixel(
        &self,
        (row, column): (usize, usize),
        (i, j): (usize, usize),
        (height, width): (usize, usize),
    ) -> Option<usize> {
        let down = (row * self.stride.0 + i * self.dilation.0).checked_sub(self.padding.0)?;
        let across = (column * self.stride.1 + j * self.dilation.1).checked_sub(self.padding.1)?;
        (down < height && across < width).then_some(down * width + across)
    }
}

/// Sizes of images and their windows.
#[derive(Clone, Copy)]
pub(crate) struct UnfoldSizes {
    pub(crate) batch: usize,
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Number of windows down; `columns`: across.
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) window: Window,
}

impl UnfoldSizes {
    pub(crate) fn of(dims: &[usize], window: Window) -> Result<UnfoldSizes> {
        let &[batch, channels, height, width] = dims else {
            bail!("a convolution wants (batch, channels, height, width), found {dims:?}")
        };
        let Some((rows, columns)) = window.counts(height, width) else {
            bail!(
                "an image of {height}×{width} has no room for a window of {:?}",
                window.kernel
            )
        };
        Ok(UnfoldSizes {
            batch,
            channels,
            height,
            width,
            rows,
            columns,
            window,
        })
    }

    /// Number of rows and columns of the matrix of windows.
    pub(crate) fn matrix(&self) -> (usize, usize) {
        let (high, wide) = self.window.kernel;
        (
            self.channels * high * wide,
            self.batch * self.rows * self.columns,
        )
    }
}
