//! Batch, layer and RMS norm.

use candle_core::{D, DType, Result, Tensor, bail};

use super::cast::widened;
use super::functions::relu;
use super::of;
use crate::autograd::custom_gradient::custom_gradient;
use crate::statistics::{ChannelStatistics, SharedBatch, StatisticsSource};

/// (x − mean) / √(variance + ε) · weight + bias over the last dimension.
pub(crate) fn layer_norm(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    epsilon: f64,
) -> Result<Tensor> {
    own_kernel!(crate::cuda::row_norm::layer_norm(x, weight, bias, epsilon));
    of([x, weight, bias], |[x, weight, bias]| {
        let x = &*widened(x)?;
        let distances = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        root_scaled(&distances, epsilon)?
            .broadcast_mul(weight)?
            .broadcast_add(bias)
    })
}

/// x / √(mean of x² + ε) · weight over the last dimension.
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    own_kernel!(crate::cuda::row_norm::rms_norm(x, weight, epsilon));
    of([x, weight], |[x, weight]| {
        root_scaled(&*widened(x)?, epsilon)?.broadcast_mul(weight)
    })
}

/// x / √(mean of x² + ε) over the last dimension.
fn root_scaled(x: &Tensor, epsilon: f64) -> Result<Tensor> {
    let squares = x.sqr()?.mean_keepdim(D::Minus1)?;
    x.broadcast_div(&(squares + epsilon)?.sqrt()?)
}

/// Mean and biased variance of each channel of (batch, channels, …), which stay in the graph: (1, channels, 1) each.
fn of_channels(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let mean = x.mean_keepdim((0, 2))?;
    let squares = x.broadcast_sub(&mean)?.sqr()?;
    Ok((mean, squares.mean_keepdim((0, 2))?))
}

/// (batch, channels, …) as (batch, channels, elements).
fn flat(x: &Tensor) -> Result<Tensor> {
    match x.dims() {
        [_, _] => x.unsqueeze(2),
        [_, _, _, ..] => x.flatten_from(2),
        dims => bail!("batch norm wants (batch, channels, …), found {dims:?}"),
    }
}

/// Statistics of a batch, without a gradient.
pub(crate) fn statistics(x: &Tensor) -> Result<ChannelStatistics> {
    own_kernel!(crate::cuda::batch_norm::statistics(x));
    let x = flat(&*widened(&x.detach())?)?;
    let (mean, variance) = of_channels(&x)?;
    let (batch, channels, inner) = x.dims3()?;
    Ok(ChannelStatistics {
        mean: mean.reshape(channels)?,
        variance: variance.reshape(channels)?,
        count: batch * inner,
    })
}

/// Normalises by statistics from any source, as `batch_norm_then`.
pub(crate) fn batch_norm(
    inputs: [&Tensor; 3],
    statistics: &ChannelStatistics,
    source: &StatisticsSource,
    epsilon: f64,
    with_relu: bool,
) -> Result<Tensor> {
    own_kernel!(crate::cuda::batch_norm::batch_norm(
        inputs, statistics, source, epsilon, with_relu
    ));
    of(inputs, |[x, weight, bias]| {
        let flat = flat(&*widened(x)?)?;
        let each = |tensor: &Tensor| tensor.reshape((1, tensor.elem_count(), 1));
        let (mean, variance) = match source {
            StatisticsSource::Batch => of_channels(&flat)?,
            StatisticsSource::Constant | StatisticsSource::Ranks(_) => (
                each(&statistics.mean.detach())?,
                each(&statistics.variance.detach())?,
            ),
        };
        let scale = (variance + epsilon)?.sqrt()?.recip()?;
        let normalised = match source {
            StatisticsSource::Ranks(batch) => {
                across(&flat, (mean, scale), (batch.clone(), statistics.count))?
            }
            _ => flat.broadcast_sub(&mean)?.broadcast_mul(&scale)?,
        };
        let y = normalised
            .broadcast_mul(&each(weight)?)?
            .broadcast_add(&each(bias)?)?
            .reshape(x.dims())?
            .to_dtype(x.dtype())?;
        if with_relu { relu(&y) } else { Ok(y) }
    })
}

/// (x − mean) · scale of (batch, channels, elements), by statistics of the batches of all ranks, from `count` values of
/// each channel.
///
/// With n the result and g its gradient, that of x is scale · (g − mean of g − n · mean of g · n), with means over all
/// ranks, which exchange their sums.
fn across(
    x: &Tensor,
    (mean, scale): (Tensor, Tensor),
    (batch, count): (SharedBatch, usize),
) -> Result<Tensor> {
    let scale_of = scale.clone();
    let normalised = move |x: &Tensor| x.broadcast_sub(&mean)?.broadcast_mul(&scale);
    let y = normalised(&x.detach())?;
    let channels = x.dim(1)?;
    custom_gradient([x], y, move |[x], gradient, _| {
        let n = normalised(x)?;
        let sums = Tensor::cat(&[gradient.sum((0, 2))?, (gradient * &n)?.sum((0, 2))?], 0)?;
        let sums = batch.sums(sums.to_dtype(DType::F64)?.to_vec1()?)?;
        let means: Vec<f64> = (sums.into_iter())
            .map(|sum| sum / count.max(1) as f64)
            .collect();
        let means = Tensor::from_vec(means, (2, channels), x.device())?.to_dtype(x.dtype())?;
        let each = |row: usize| means.get(row)?.reshape((1, channels, 1));
        let rest = gradient
            .broadcast_sub(&each(0)?)?
            .sub(&n.broadcast_mul(&each(1)?)?)?;
        Ok([Some(rest.broadcast_mul(&scale_of)?)])
    })
}
