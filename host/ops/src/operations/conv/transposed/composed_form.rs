//! A transposed convolution of candle's operations: all windows of the images as a matrix.

use candle_core::{Result, Tensor};

use crate::autograd::constants::seen;
use crate::autograd::custom_gradient::custom_gradient;
use crate::operations::conv::unfold::{fold2d, unfold2d};
use crate::options::Window;

/// A transposed convolution to images of this shape.
#[derive(Clone, Copy)]
pub(super) struct Transposed {
    pub(super) image: [usize; 4],
    pub(super) window: Window,
    pub(super) groups: usize,
}

impl Transposed {
    /// Of x, kernel and bias, with their gradients.
    pub(super) fn of(self, inputs: [&Tensor; 3]) -> Result<Tensor> {
        let [x, kernel, bias] = inputs.map(|input| seen(input).detach());
        let y = self.forward(&x, &kernel)?;
        let bias = bias.to_dtype(y.dtype())?;
        let y = y.broadcast_add(&bias.reshape((1, (), 1, 1))?)?;
        custom_gradient(inputs, y, move |[x, kernel, bias], gradient, wanted| {
            let gradient = gradient.to_dtype(x.dtype())?.contiguous()?;
            let windows = unfold2d(&gradient, self.window)?;
            let of_bias = || gradient.sum((0, 2, 3))?.to_dtype(bias.dtype());
            Ok([
                wanted[0]
                    .then(|| self.of_input(x, kernel, &windows))
                    .transpose()?,
                wanted[1]
                    .then(|| self.of_kernel(x, kernel, &windows))
                    .transpose()?,
                wanted[2].then(of_bias).transpose()?,
            ])
        })
    }

    /// x as (groups, inputs of a group, batch · positions).
    fn rows(&self, x: &Tensor) -> Result<Tensor> {
        let inputs = x.dim(1)?;
        let rows = x.transpose(0, 1)?.contiguous()?;
        rows.reshape((self.groups, inputs / self.groups, ()))
    }

    /// The kernel as (groups, inputs of a group, outputs of a group · taps).
    fn taps(&self, kernel: &Tensor) -> Result<Tensor> {
        kernel.reshape((self.groups, kernel.dim(0)? / self.groups, ()))
    }

    fn forward(&self, x: &Tensor, kernel: &Tensor) -> Result<Tensor> {
        let taps = self.taps(&kernel.to_dtype(x.dtype())?)?.transpose(1, 2)?;
        let windows = taps.contiguous()?.matmul(&self.rows(x)?)?;
        fold2d(&windows.flatten(0, 1)?, self.image, self.window)
    }

    fn of_input(&self, x: &Tensor, kernel: &Tensor, windows: &Tensor) -> Result<Tensor> {
        let (batch, inputs, height, width) = x.dims4()?;
        let windows = windows.reshape((self.groups, (), windows.dim(1)?))?;
        let rows = self.taps(&kernel.to_dtype(x.dtype())?)?.matmul(&windows)?;
        let rows = rows.reshape((inputs, batch, height, width))?;
        rows.transpose(0, 1)?.contiguous()
    }

    fn of_kernel(&self, x: &Tensor, kernel: &Tensor, windows: &Tensor) -> Result<Tensor> {
        let windows = windows.reshape((self.groups, (), windows.dim(1)?))?;
        let of_taps = self
            .rows(x)?
            .matmul(&windows.transpose(1, 2)?.contiguous()?)?;
        of_taps.reshape(kernel.shape())?.to_dtype(kernel.dtype())
    }
}
