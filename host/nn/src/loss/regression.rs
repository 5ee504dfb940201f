//! Losses for numeric targets: means over all elements of (samples, numbers).

use candle_core::{Result, Tensor};

use super::shapes::{numbers, weighted_mean};
use crate::ops;

/// Mean squared error: the mean of (x − y)².
pub fn mse(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    ops::mean_squared_error(outputs, &numbers(outputs, targets)?)
}

/// Mean absolute error: the mean of |x − y|, with gradient 0 at 0.
pub fn l1(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    weighted_mean(&absolute_errors(outputs, targets)?, None)
}

/// Huber's loss (1964) as `torch.nn.HuberLoss` computes it: the mean of ½ d² where |d| ≤ `delta`, else
/// of `delta` · (|d| − ½ `delta`), for d = x − y.
pub fn huber(outputs: &Tensor, targets: &Tensor, delta: f64) -> Result<Tensor> {
    weighted_mean(&huber_errors(outputs, targets, delta)?, None)
}

/// (x − y)² of each element.
pub(super) fn squared_errors(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    outputs.sub(&numbers(outputs, targets)?)?.sqr()
}

/// |x − y| of each element.
pub(super) fn absolute_errors(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    size(&outputs.sub(&numbers(outputs, targets)?)?)
}

/// The terms of [`huber`].
pub(super) fn huber_errors(outputs: &Tensor, targets: &Tensor, delta: f64) -> Result<Tensor> {
    let error = outputs.sub(&numbers(outputs, targets)?)?;
    let size = size(&error)?;
    let squared = error.sqr()?.affine(0.5, 0.0)?;
    let linear = size.affine(delta, -0.5 * delta * delta)?;
    size.detach().le(delta)?.where_cond(&squared, &linear)
}

/// |d| with gradient 0 at 0, where candle's `abs` has gradient 1.
fn size(error: &Tensor) -> Result<Tensor> {
    error.mul(&error.detach().sign()?)
}
