//! Sizes of a convolution, and the number of parts its work is divided into.

use candle_core::{Result, Tensor, bail};

use super::bands::Bands;
use crate::kernels::region;
use crate::options::{UnfoldSizes, Window};

#[derive(Clone, Copy)]
pub(super) struct Conv {
    /// Sizes of one image's inputs of one group.
    pub(super) image: UnfoldSizes,
    pub(super) bands: Bands,
    pub(super) batch: usize,
    pub(super) outputs: usize,
    pub(super) groups: usize,
}

impl Conv {
    /// Of images (batch, inputs, height, width).
    pub(super) fn of(
        x: &[usize],
        weight: &Tensor,
        bias: Option<&Tensor>,
        window: Window,
        groups: usize,
    ) -> Result<Conv> {
        let all = UnfoldSizes::of(x, window)?;
        let fits = match weight.dims() {
            [outputs, inputs, kernel @ ..] => {
                let (down, across) = window.kernel;
                groups > 0
                    && inputs * groups == all.channels
                    && outputs % groups == 0
                    && (*kernel == [down, across] || *kernel == [across] && down == 1)
            }
            _ => false,
        };
        if !fits {
            bail!(
                "a convolution of weight {:?} in {groups} groups was given {x:?}",
                weight.dims()
            )
        }
        let outputs = weight.dim(0)?;
        if bias.is_some_and(|bias| bias.dims() != [outputs]) {
            bail!("a convolution of {outputs} outputs has a bias of another shape")
        }
        let image = UnfoldSizes {
            batch: 1,
            channels: all.channels / groups,
            ..all
        };
        Ok(Conv {
            image,
            bands: Bands::of(image),
            batch: all.batch,
            outputs,
            groups,
        })
    }

    /// Number of elements of one image's inputs of one group.
    pub(super) fn input_size(&self) -> usize {
        self.image.channels * self.image.height * self.image.width
    }

    /// Output channels of one group.
    pub(super) fn group_outputs(&self) -> usize {
        self.outputs / self.groups
    }

    pub(super) fn parts(&self) -> usize {
        let (depth, windows) = self.image.matrix();
        let operations = 2 * self.batch * self.outputs * depth * windows;
        region::parts(operations).min(self.batch.max(1))
    }
}
