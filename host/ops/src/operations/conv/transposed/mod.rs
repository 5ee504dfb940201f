//! Transposed convolutions: the gradient of a convolution with respect to its input, as a layer of its own.
//!
//! On the CPU in `f32` they are computed by that convolution's kernels ([`Direct`]): forward by the pass for the gradient of its input, and
//! the gradients by the two others, with images and gradients in each other's place. Where images keep their size with a stride of 1, they
//! are a convolution, by the kernel turned around. All others are [`composed`](composed_form).

mod composed_form;
#[cfg(test)]
mod tests;

use candle_core::{DType, Result, Tensor, bail};

use super::after::plane_sum;
use super::conv2d;
use super::direct::Direct;
use super::sizes::Conv;
use crate::autograd::constants::seen;
use crate::autograd::custom_gradient::custom_gradient;
use crate::choice::rounded_products::product_terms;
use crate::composed;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts};
use crate::kernels::{region, write_all, write_rows};
use crate::options::{After, Window};
use crate::storage::{cpu, new_tensor, numbers, ready};
use composed_form::Transposed;

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
    if bias.is_some_and(|bias| bias.dims() != [outputs]) {
        bail!("a transposed convolution of {outputs} outputs has a bias of another shape")
    }
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
    let image = [batch, outputs, down, across];
    let is_single = |tensor: &Tensor| tensor.dtype() == DType::F32;
    let are_single = is_single(x) && is_single(kernel) && bias.is_none_or(is_single);
    // An added row or column may be one more window of the convolution.
    let is_its_gradient = window.counts(down, across) == Some((height, width));
    let has_kernels = !composed::is_chosen(x) && are_single && is_its_gradient;
    if has_kernels && window.stride == (1, 1) && (down, across) == (height, width) {
        let turned = custom_gradient(
            [kernel],
            turned(&seen(kernel).detach(), groups)?,
            move |_, gradient, _| Ok([Some(turned(gradient, groups)?)]),
        )?;
        return conv2d(x, &turned, bias, window, groups);
    }
    let (x, kernel) = (ready(x)?, ready(kernel)?);
    let no_bias = Tensor::zeros(outputs, x.dtype(), x.device())?;
    let bias = ready(bias.unwrap_or(&no_bias))?;
    if has_kernels {
        let conv = Conv::of(&image, &kernel, None, window, groups)?;
        if let Some(direct) = Direct::of(&conv, After::default()) {
            return by_kernels(
                [&x, &kernel, &bias],
                image,
                &direct.in_terms(product_terms()),
            );
        }
    }
    let shape = Transposed {
        image,
        window,
        groups,
    };
    shape.of([&x, &kernel, &bias])
}

/// The kernel of the convolution that a transposed one is: taps in reverse order, inputs and outputs of a group in each other's place.
///
/// Turned again, it is what it was.
fn turned(kernel: &Tensor, groups: usize) -> Result<Tensor> {
    let (inputs, outputs, high, wide) = kernel.dims4()?;
    kernel
        .reshape((groups, inputs / groups, outputs, high * wide))?
        .transpose(1, 2)?
        .contiguous()?
        .flip(&[3])?
        .reshape((groups * outputs, inputs / groups, high, wide))
}

/// A transposed convolution to images of this shape, by the kernels of the convolution of these.
fn by_kernels(inputs: [&Tensor; 3], image: [usize; 4], direct: &Direct) -> Result<Tensor> {
    let direct = *direct;
    let detached = inputs.map(|input| seen(input).detach());
    let y = with_numbers(detached.each_ref(), |[x, kernel, bias]| {
        direct.transposed(kernel, x, bias)
    })?;
    let y = new_tensor(y, &(&image).into())?;
    custom_gradient(inputs, y, move |[x, kernel, bias], gradient, wanted| {
        let gradient = ready(gradient)?;
        with_numbers([x, kernel, &gradient], |[of_x, of_kernel, g]| {
            let new = |wanted: bool, like: &Tensor, numbers: &dyn Fn() -> Vec<f32>| {
                let tensor = wanted.then(|| new_tensor(numbers(), like.shape()));
                tensor.transpose()
            };
            Ok([
                new(wanted[0], x, &|| direct.forward(g, of_kernel, None).0)?,
                new(wanted[1], kernel, &|| {
                    let [_, of_weight, _] =
                        direct.backward((g, of_kernel), (of_x, of_x), &[], false);
                    of_weight
                })?,
                new(wanted[2], bias, &|| channel_sums(g, image))?,
            ])
        })?
    })
}

/// Calls `at` with the elements of contiguous tensors in `f32` on the CPU.
fn with_numbers<const N: usize, R>(
    tensors: [&Tensor; N],
    at: impl FnOnce([&[f32]; N]) -> R,
) -> Result<R> {
    let guards = tensors.map(Tensor::storage_and_layout);
    let mut slices = [&[][..]; N];
    for (slice, (storage, layout)) in slices.iter_mut().zip(&guards) {
        *slice = numbers(cpu(storage)?, layout)?;
    }
    Ok(at(slices))
}

/// The sum of each channel of images, in their order.
fn channel_sums(images: &[f32], [_, channels, height, width]: [usize; 4]) -> Vec<f32> {
    let threads = region::parts(images.len());
    let memory = UninitRows::new(channels, 1);
    fill_parts(
        Schedule::per_thread(threads, channels, 1),
        memory,
        |own, sums| {
            write_rows(sums, own, |channel, sum| {
                let planes = images.chunks_exact(height * width).skip(channel);
                write_all(sum, [planes.step_by(channels).map(plane_sum).sum()])
            })
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
