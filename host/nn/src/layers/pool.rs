//! Pooling layers over images.

use candle_core::{Result, Tensor};

use super::{FusionRole, Layer};
use crate::Pass;
use crate::ops::{PoolKind, Windows, pool2d};

/// Maximum or mean over windows of (…, height, width).
#[derive(Clone, Copy, Debug)]
pub enum Pool2d {
    /// Windows of one size.
    Sliding {
        /// Whether a window's output is its maximum or its mean.
        kind: PoolKind,
        /// Kernel size (height, width).
        kernel: (usize, usize),
        /// Step from one window to the next.
        stride: (usize, usize),
        /// Padding on all sides: ignored by a maximum, zeros for a mean.
        padding: (usize, usize),
    },
    /// A fixed number of windows, for any input size.
    Adaptive {
        /// Whether a window's output is its maximum or its mean.
        kind: PoolKind,
        /// Number of windows (vertically, horizontally), the size of the output.
        size: (usize, usize),
    },
}

impl Pool2d {
    /// Returns the windows over an image of (height, width); none if not even one fits.
    pub fn windows(&self, height: usize, width: usize) -> Option<(Windows, Windows)> {
        match *self {
            Pool2d::Sliding {
                kernel,
                stride,
                padding,
                ..
            } => Some((
                Windows::sliding(height, kernel.0, stride.0, padding.0)?,
                Windows::sliding(width, kernel.1, stride.1, padding.1)?,
            )),
            Pool2d::Adaptive { size, .. } => Some((
                Windows::adaptive(height, size.0),
                Windows::adaptive(width, size.1),
            )),
        }
    }

    /// Whether it is max pooling over adjacent windows of 2 × 2.
    pub(crate) fn is_of_squares(self) -> bool {
        match self {
            Pool2d::Sliding {
                kind: PoolKind::Max,
                kernel,
                stride,
                padding,
            } => kernel == (2, 2) && stride == (2, 2) && padding == (0, 0),
            _ => false,
        }
    }

    /// Maps (…, height, width) to (…, output height, output width).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let &[.., height, width] = x.dims() else {
            candle_core::bail!("pooling wants (…, height, width), found {:?}", x.dims())
        };
        let Some((down, across)) = self.windows(height, width) else {
            candle_core::bail!("an image of {height}×{width} has no room for a window: {self:?}")
        };
        let (Pool2d::Sliding { kind, .. } | Pool2d::Adaptive { kind, .. }) = *self;
        pool2d(x, kind, down, across)
    }
}

impl Layer for Pool2d {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Pool2d::forward(self, x)
    }

    fn role(&self) -> FusionRole<'_> {
        FusionRole::Pool2d(*self)
    }
}
