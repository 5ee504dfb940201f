//! Pooling layers over images.

use candle_core::{Result, Tensor};

use super::{Layer, Role};
use crate::Pass;
use crate::ops::{PoolKind, Windows, pool2d};

/// Largest or mean numbers of windows over (…, height, width).
#[derive(Clone, Copy, Debug)]
pub enum Pool2d {
    /// Windows of one size.
    Sliding {
        /// What a window gives.
        kind: PoolKind,
        /// A window's (height, width).
        kernel: (usize, usize),
        /// From one window to the next.
        stride: (usize, usize),
        /// Places around the image: nothing to a largest number, zeros to a mean.
        padding: (usize, usize),
    },
    /// As many windows as wanted, whatever the input's size.
    Adaptive {
        /// What a window gives.
        kind: PoolKind,
        /// Windows (down, across).
        size: (usize, usize),
    },
}

impl Pool2d {
    /// The windows over an image of (height, width); none where there is no room for one.
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

    /// Whether it gives the largest numbers of squares of 2 × 2 side by side.
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

    /// From (…, height, width) to (…, windows down, windows across).
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

    fn role(&self) -> Role<'_> {
        Role::Pool2d(*self)
    }
}
