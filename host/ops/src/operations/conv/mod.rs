//! Convolution as one operation, together with `ReLU` and pooling where they follow.
//!
//! Each image's windows form a matrix (im2col), which is multiplied by the weight. Images are distributed over the
//! threads. The matrix exists for one image at a time and is rebuilt in the backward pass, which costs less than
//! keeping it; mostly it has windows of a single row ([`bands`]). In `f32` there is usually no such matrix
//! ([`pointwise`], [`winograd`], [`direct`]), nor where groups have one channel each ([`depthwise`]); images with few windows share
//! one ([`gathered`]). Outputs that pooling drops are never kept.
//! [`unfold`]: the windows themselves, as an operation.

mod after;
mod bands;
#[cfg(test)]
mod comparison;
mod depthwise;
mod direct;
mod gathered;
mod passes;
mod pointwise;
mod sizes;
pub(crate) mod transposed;
pub(crate) mod unfold;
mod winograd;
mod workspace;

use std::sync::OnceLock;

use candle_core::{CpuStorage, Result, Shape, Tensor, bail};

pub use workspace::largest_convolution;

use self::depthwise::Depthwise;
use self::direct::Direct;
use self::gathered::Gathered;
use self::pointwise::Pointwise;
use crate::autograd::layer::{LayerInputs, LayerOp, Stored, apply_layer};
use crate::choice::rounded_products::product_terms;
use crate::composed;
use crate::kernels::Terms;
use crate::options::{After, Window};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use sizes::Conv;
use winograd::Winograd;

/// Convolution of (batch, inputs, height, width), to (batch, outputs, windows down, windows across).
///
/// The weight is (outputs, inputs / groups, kernel down, kernel across), or without `kernel down` for a kernel of one
/// row; the bias is (outputs).
pub fn conv2d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    window: Window,
    groups: usize,
) -> Result<Tensor> {
    conv2d_then(x, weight, bias, window, groups, After::default())
}

/// [`conv2d`] and the operations after it, with the same bits as one operation after the other.
pub fn conv2d_then(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    window: Window,
    groups: usize,
    after: After,
) -> Result<Tensor> {
    let conv = Conv::of(x.dims(), weight, bias, window, groups)?;
    workspace::count(&conv, x.dtype().size_in_bytes());
    let (rows, columns) = after.outputs(conv.image.rows, conv.image.columns);
    if rows * columns == 0 {
        bail!(
            "{after:?} after a convolution of {:?} has no room for a square",
            x.dims()
        )
    }
    if composed::is_chosen(x) {
        return composed::conv2d(x, weight, bias, window, groups, after);
    }
    let (x, weight) = (ready(x)?, ready(weight)?);
    let op = ConvOp {
        conv,
        after,
        terms: product_terms(),
        positions: OnceLock::new(),
    };
    let bias = bias.map(ready).transpose()?;
    apply_layer((&x, &weight, bias.as_ref()), op)
}

/// An algorithm for `f32`, without a matrix of each image's windows.
enum Single {
    Pointwise(Pointwise),
    Winograd(Winograd),
    Direct(Direct),
    Depthwise(Depthwise),
    Gathered(Gathered),
}

impl Single {
    /// The algorithm for a convolution of factors in these terms, if there is one.
    ///
    /// Winograd's is computed in `f32` in either: rounded, its transformed factors would have several times the error of others, and with
    /// a quarter of the multiplications it is as fast. So are depthwise ones, which memory limits, and those of gathered windows.
    fn of(conv: &Conv, after: After, terms: Terms) -> Option<Single> {
        let pointwise = Pointwise::of(conv, after);
        let direct = || Direct::of(conv, after).map(|direct| direct.in_terms(terms));
        (pointwise.map(|pointwise| Single::Pointwise(pointwise.in_terms(terms))))
            .or_else(|| Winograd::of(conv, after).map(Single::Winograd))
            .or_else(|| direct().map(Single::Direct))
            .or_else(|| Depthwise::of(conv, after).map(Single::Depthwise))
            .or_else(|| Gathered::of(conv, after).map(Single::Gathered))
    }

    /// Computes the outputs and, with pooling, their positions in the squares.
    fn forward(&self, x: &[f32], weight: &[f32], bias: Option<&[f32]>) -> (Vec<f32>, Vec<u8>) {
        match self {
            Single::Pointwise(pointwise) => pointwise.forward(x, weight, bias),
            Single::Winograd(winograd) => winograd.forward(x, weight, bias),
            Single::Direct(direct) => direct.forward(x, weight, bias),
            Single::Depthwise(depthwise) => depthwise.forward(x, weight, bias),
            Single::Gathered(gathered) => gathered.forward(x, weight, bias),
        }
    }

    /// Computes the gradients of input (if wanted), weight and bias from the outputs and their gradient.
    fn backward(
        &self,
        inputs: (&[f32], &[f32]),
        outputs: (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        match self {
            Single::Pointwise(pointwise) => pointwise.backward(inputs, outputs, squares, of_input),
            Single::Winograd(winograd) => winograd.backward(inputs, outputs, squares, of_input),
            Single::Direct(direct) => direct.backward(inputs, outputs, squares, of_input),
            Single::Depthwise(depthwise) => depthwise.backward(inputs, outputs, squares, of_input),
            Single::Gathered(gathered) => gathered.backward(inputs, outputs, squares, of_input),
        }
    }
}

struct ConvOp {
    conv: Conv,
    after: After,
    /// Of the products of all passes, where they are computed without a matrix of windows.
    terms: Terms,
    /// Positions of the largest elements in their squares, set by the forward pass.
    positions: OnceLock<Vec<u8>>,
}

impl LayerOp for ConvOp {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn forward(
        &self,
        (x, x_layout): Stored<'_>,
        (weight, weight_layout): Stored<'_>,
        bias: Option<Stored<'_>>,
    ) -> Result<(CpuStorage, Shape)> {
        let Conv {
            image,
            batch,
            outputs,
            ..
        } = self.conv;
        let (rows, columns) = self.after.outputs(image.rows, image.columns);
        let shape = (batch, outputs, rows, columns);
        if let (CpuStorage::F32(_), Some(single)) =
            (x, Single::of(&self.conv, self.after, self.terms))
        {
            let bias = bias
                .map(|(bias, layout)| numbers(bias, layout))
                .transpose()?;
            let weight = numbers(weight, weight_layout)?;
            let (y, positions) = single.forward(numbers(x, x_layout)?, weight, bias);
            // The forward pass runs once per operation, so nothing was set before.
            drop(self.positions.set(positions));
            return Ok((stored(y), shape.into()));
        }
        for_floats!(x, T => {
            let bias = bias.map(|(bias, layout)| numbers::<T>(bias, layout)).transpose()?;
            let weight = numbers::<T>(weight, weight_layout)?;
            let (y, positions) =
                self.conv.forward(numbers::<T>(x, x_layout)?, weight, bias, self.after);
            // The forward pass runs once per operation, so nothing was set before.
            drop(self.positions.set(positions));
            Ok((stored(y), shape.into()))
        })
    }

    fn backward(
        &self,
        (x, weight, _): LayerInputs<'_>,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        let gradient = ready(gradient)?;
        let (y_guard, y_layout) = y.storage_and_layout();
        let (x_guard, x_layout) = x.storage_and_layout();
        let (weight_guard, weight_layout) = weight.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&x_guard)?;
        let (wanted, positions) = (x.track_op(), self.positions.get());
        let positions = positions.map_or(&[][..], Vec::as_slice);
        if let (CpuStorage::F32(_), Some(single)) =
            (storage, Single::of(&self.conv, self.after, self.terms))
        {
            let inputs = (
                numbers(storage, x_layout)?,
                numbers(cpu(&weight_guard)?, weight_layout)?,
            );
            let outputs = (
                numbers(cpu(&y_guard)?, y_layout)?,
                numbers(cpu(&gradient_guard)?, gradient_layout)?,
            );
            let gradients = single.backward(inputs, outputs, positions, wanted);
            return self.tensors(x, weight, gradients);
        }
        for_floats!(storage, T => {
            let numbers_of_x = numbers::<T>(storage, x_layout)?;
            let numbers_of_weight = numbers::<T>(cpu(&weight_guard)?, weight_layout)?;
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let y = numbers::<T>(cpu(&y_guard)?, y_layout)?;
            self.tensors(x, weight, self.conv.backward(
                (numbers_of_x, numbers_of_weight),
                (y, g),
                (self.after, positions),
                wanted,
            ))
        })
    }
}

impl ConvOp {
    fn tensors<T: Number>(
        &self,
        x: &Tensor,
        weight: &Tensor,
        [of_x, of_weight, of_bias]: [Vec<T>; 3],
    ) -> Result<[Option<Tensor>; 3]> {
        let of_x = x.track_op().then(|| new_tensor(of_x, x.shape()));
        let of_bias = new_tensor(of_bias, &self.conv.outputs.into())?;
        let of_weight = new_tensor(of_weight, weight.shape())?;
        Ok([of_x.transpose()?, Some(of_weight), Some(of_bias)])
    }
}
