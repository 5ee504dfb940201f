//! Batch, layer and RMS norm.

use candle_core::{D, Result, Tensor, bail};

use super::functions::relu;
use super::of;
use crate::batch_norm::{ChannelStatistics, StatisticsSource};

/// (x − mean) / √(variance + ε) · weight + bias over the last dimension.
pub(crate) fn layer_norm(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    epsilon: f64,
) -> Result<Tensor> {
    of([x, weight, bias], |[x, weight, bias]| {
        let distances = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        root_scaled(&distances, epsilon)?
            .broadcast_mul(weight)?
            .broadcast_add(bias)
    })
}

/// x / √(mean of x² + ε) · weight over the last dimension.
pub(crate) fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    of([x, weight], |[x, weight]| {
        root_scaled(x, epsilon)?.broadcast_mul(weight)
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
    let x = flat(&x.detach())?;
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
    of(inputs, |[x, weight, bias]| {
        let flat = flat(x)?;
        let each = |tensor: &Tensor| tensor.reshape((1, tensor.elem_count(), 1));
        let (mean, variance) = match source {
            StatisticsSource::Batch => of_channels(&flat)?,
            StatisticsSource::Constant => (
                each(&statistics.mean.detach())?,
                each(&statistics.variance.detach())?,
            ),
            StatisticsSource::Ranks(_) => bail!(
                "batch norm with the statistics of all ranks is computed by kernels of the CPU alone"
            ),
        };
        let scale = (variance + epsilon)?.sqrt()?.recip()?;
        let normalised = flat.broadcast_sub(&mean)?.broadcast_mul(&scale)?;
        let y = normalised
            .broadcast_mul(&each(weight)?)?
            .broadcast_add(&each(bias)?)?
            .reshape(x.dims())?;
        if with_relu { relu(&y) } else { Ok(y) }
    })
}
