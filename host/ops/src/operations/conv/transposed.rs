//! Transposed convolutions: the gradient of a convolution with respect to its input, as a layer of its own.

use candle_core::{Result, Tensor, bail};

use super::unfold::{fold2d, unfold2d};
use crate::autograd::constants::seen;
use crate::autograd::custom_gradient::custom_gradient3;
use crate::options::Window;
use crate::storage::ready;

/// Adds each element of x (batch, inputs, height, width), times the kernel, to the window that it stands for, and a bias (outputs); the
/// kernel is (inputs, outputs / groups, kernel height, kernel width), and `added` rows and columns follow the last windows.
///
/// The output is ((height − 1) · stride − 2 · padding + dilation · (kernel − 1) + added + 1) high, and as wide.
pub fn conv_transpose2d(
    x: &Tensor,
    kernel: &Tensor,
    bias: Option<&Tensor>,
    window: Window,
    groups: usize,
    added: (usize, usize),
) -> Result<Tensor> {
    let (batch, inputs, height, width) = x.dims4()?;
    let (known, outputs, high, wide) = kernel.dims4()?;
    if known != inputs || groups == 0 || !inputs.is_multiple_of(groups) {
        bail!(
            "a transposed convolution of {:?} by {:?} in {groups} groups",
            x.dims(),
            kernel.dims()
        )
    }
    let outputs = outputs * groups;
    let sizes = (
        transposed_size(
            height,
            (high, window.stride.0, window.padding.0, window.dilation.0),
            added.0,
        ),
        transposed_size(
            width,
            (wide, window.stride.1, window.padding.1, window.dilation.1),
            added.1,
        ),
    );
    let (Some(down), Some(across)) = sizes else {
        bail!(
            "a transposed convolution of {:?} leaves nothing inside its padding",
            x.dims()
        )
    };
    let (x, kernel) = (ready(x)?, ready(kernel)?);
    let no_bias = Tensor::zeros(outputs, x.dtype(), x.device())?;
    let bias = ready(bias.unwrap_or(&no_bias))?;
    let shape = Transposed {
        image: [batch, outputs, down, across],
        window,
        groups,
    };
    let y = shape.forward(&seen(&x).detach(), &seen(&kernel).detach())?;
    let of_bias = seen(&bias).detach().to_dtype(y.dtype())?;
    let y = y.broadcast_add(&of_bias.reshape((1, outputs, 1, 1))?)?;
    custom_gradient3(
        [&x, &kernel, &bias],
        y,
        move |[x, kernel, bias], gradient, wanted| {
            let gradient = gradient.to_dtype(x.dtype())?.contiguous()?;
            let windows = unfold2d(&gradient, shape.window)?;
            let of_bias = || gradient.sum((0, 2, 3))?.to_dtype(bias.dtype());
            Ok([
                wanted[0]
                    .then(|| shape.of_input(x, kernel, &windows))
                    .transpose()?,
                wanted[1]
                    .then(|| shape.of_kernel(x, kernel, &windows))
                    .transpose()?,
                wanted[2].then(of_bias).transpose()?,
            ])
        },
    )
}

/// Size of the output along a dimension, for a kernel of (size, stride, padding, dilation); none if nothing is left.
pub fn transposed_size(
    length: usize,
    (kernel, stride, padding, dilation): (usize, usize, usize, usize),
    added: usize,
) -> Option<usize> {
    let span = dilation.checked_mul(kernel.checked_sub(1)?)?;
    let all = length
        .checked_sub(1)?
        .checked_mul(stride)?
        .checked_add(span)?;
    let rest = all.checked_add(added)?.checked_add(1)?;
    rest.checked_sub(padding.checked_mul(2)?)
        .filter(|&size| size > 0)
}

/// A transposed convolution to images of this shape.
#[derive(Clone, Copy)]
struct Transposed {
    image: [usize; 4],
    window: Window,
    groups: usize,
}

impl Transposed {
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

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::gradient_check::check_gradients;
    use crate::normal_numbers;
    use crate::operations::conv::unfold::fold_by_indices;

    #[test]
    fn gradients_are_right_in_groups_and_with_what_is_added() {
        let var = |seed, shape: &[usize]| {
            let x = normal_numbers(seed, shape).and_then(|x| x.to_dtype(DType::F64));
            x.and_then(|x| Var::from_tensor(&x)).expect("a variable")
        };
        for (groups, stride, padding, dilation, added) in [
            (1, (2, 3), (1, 0), (1, 1), (1, 0)),
            (2, (1, 1), (0, 1), (2, 1), (0, 0)),
        ] {
            let window = Window {
                kernel: (3, 2),
                stride,
                padding,
                dilation,
            };
            let inputs = [
                var(1, &[2, 4, 3, 2]),
                var(2, &[4, 3 / groups.min(1), 3, 2]),
                var(3, &[3 * groups]),
            ];
            let report = check_gradients(&inputs, |of| {
                conv_transpose2d(&of[0], &of[1], Some(&of[2]), window, groups, added)?.sqr()
            });
            assert!(report.is_right(), "{report}");
            let y = conv_transpose2d(&inputs[0], &inputs[1], None, window, groups, added);
            assert_eq!(y.expect("y").dim(1).expect("channels"), 3 * groups);
        }
    }

    #[test]
    fn folding_by_indices_is_folding() -> Result<()> {
        let window = Window {
            kernel: (2, 3),
            stride: (2, 1),
            padding: (1, 1),
            dilation: (1, 2),
        };
        let image = [2, 3, 5, 6];
        let x = normal_numbers(1, &image[..])?;
        let windows = unfold2d(&x, window)?;
        let counts = window.counts(5, 6).expect("windows");
        let found = fold_by_indices(&windows, image, counts, window)?;
        let wanted = fold2d(&windows, image, window)?;
        let apart = (found - wanted)?.abs()?.max_all()?.to_scalar::<f32>()?;
        assert!(apart < 1e-5, "{apart}");
        Ok(())
    }
}
