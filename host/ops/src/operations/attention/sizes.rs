//! Sizes of an attention operation.

use candle_core::{Result, bail};

use crate::kernels::{Matrix, region};

#[derive(Clone, Copy)]
pub(super) struct AttentionSizes {
    pub(super) batch: usize,
    pub(super) length: usize,
    pub(super) width: usize,
    pub(super) heads: usize,
}

impl AttentionSizes {
    pub(super) fn of(dims: &[usize], heads: usize) -> Result<AttentionSizes> {
        let &[batch, length, all] = dims else {
            bail!("an attention wants (batch, length, 3 · width), found {dims:?}")
        };
        if heads == 0 || all % (3 * heads) != 0 {
            bail!("an attention of {heads} heads was given {dims:?}")
        }
        Ok(AttentionSizes {
            batch,
            length,
            width: all / 3,
            heads,
        })
    }

    /// Width of a head.
    pub(super) fn each(&self) -> usize {
        self.width / self.heads
    }

    /// Queries (0), keys (1) or values (2) of a head: (length, each).
    pub(super) fn part<'a, T>(&self, qkv: &'a [T], which: usize, index: usize) -> Matrix<'a, T> {
        let (image, head) = (index / self.heads, index % self.heads);
        let start = image * self.length * 3 * self.width + which * self.width + head * self.each();
        let steps = (3 * self.width, 1);
        Matrix::with_steps(&qkv[start..], self.length, self.each(), steps)
    }

    /// Outputs of a head: (length, each).
    pub(super) fn output<'a, T>(&self, y: &'a [T], index: usize) -> Matrix<'a, T> {
        let start = self.output_start(index);
        Matrix::with_steps(&y[start..], self.length, self.each(), (self.width, 1))
    }

    pub(super) fn output_start(&self, index: usize) -> usize {
        let (image, head) = (index / self.heads, index % self.heads);
        image * self.length * self.width + head * self.each()
    }

    /// Number of threads worth using for all heads.
    pub(super) fn parts(&self) -> usize {
        let products = 4 * self.length * self.length * self.each();
        region::parts(self.batch * self.heads * products)
    }
}
