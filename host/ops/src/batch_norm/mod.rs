//! Batch normalisation in one pass, of one process's batch or of those of several processes together.

mod backward;
mod ranks;

use std::mem::MaybeUninit;
use std::ops::Range;

use candle_core::{CpuStorage, CustomOp1, CustomOp3, DType, Layout, Result, Shape, Tensor, bail};

use super::aside::hand_over;
use super::tape::apply3;
use crate::kernels::fill::{Rows, Schedule, UninitInterleaved, fill_parts};
use crate::kernels::math::{sum, sum_by};
use crate::kernels::{region, write_all};
use crate::storage::{Number, cpu, for_floats, new_tensor, number, numbers, ready, stored};
use crate::vectorised;

use backward::Backward;
pub use ranks::{AcrossRanks, SharedBatch};

/// Mean and variance of each channel of (batch, channels, …).
#[derive(Clone, Debug)]
pub struct ChannelStatistics {
    /// Mean of each channel: (channels).
    pub mean: Tensor,
    /// Biased variance, by which a batch is normalised: (channels).
    pub variance: Tensor,
    /// Number of elements of a channel that they were computed from.
    pub count: usize,
}

impl ChannelStatistics {
    /// Statistics of a batch, without a gradient.
    pub fn of(x: &Tensor) -> Result<ChannelStatistics> {
        let x = ready(&x.detach())?;
        let Channels { batch, inner, .. } = Channels::of(x.dims())?;
        let both = x.apply_op1_no_bwd(&Statistics)?;
        Ok(ChannelStatistics {
            mean: both.get(0)?,
            variance: both.get(1)?,
            count: batch * inner,
        })
    }
}

/// (x − mean) / √(variance + ε) · weight + bias for each channel of (batch, channels, …) (Ioffe and
/// Szegedy, 2015).
///
/// With `of_batch` the statistics are those of `x` itself, and its gradient goes through them too;
/// without, they are constants.
pub fn batch_norm(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    statistics: &ChannelStatistics,
    epsilon: f64,
    of_batch: bool,
) -> Result<Tensor> {
    let source = if of_batch {
        Source::Batch
    } else {
        Source::Constant
    };
    apply([x, weight, bias], statistics, epsilon, source)
}

/// [`batch_norm`] by the statistics of all ranks' batches together, as [`SharedBatch::statistics`] returns them.
///
/// The gradient goes through the statistics, to the inputs of all ranks: that of `x` is the gradient of the sum of the
/// ranks' losses. Those of `weight` and `bias` are of this rank's loss alone, to be summed with other parameters'. The
/// backward pass exchanges values between ranks, see [`AcrossRanks`].
///
/// # Errors
///
/// If the shapes don't fit; in the backward pass also if the ranks' values can't be exchanged.
pub fn batch_norm_across(
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    statistics: &ChannelStatistics,
    epsilon: f64,
    batch: &SharedBatch,
) -> Result<Tensor> {
    let source = Source::Ranks(batch.clone());
    apply([x, weight, bias], statistics, epsilon, source)
}

fn apply(
    [x, weight, bias]: [&Tensor; 3],
    statistics: &ChannelStatistics,
    epsilon: f64,
    source: Source,
) -> Result<Tensor> {
    let op = BatchNormOp {
        statistics: ChannelStatistics {
            mean: ready(&statistics.mean.detach())?,
            variance: ready(&statistics.variance.detach())?,
            count: statistics.count,
        },
        epsilon,
        source,
    };
    apply3(&ready(x)?, &ready(weight)?, &ready(bias)?, op)
}

/// Sizes of (batch, channels, …), with the dimensions after the channels flattened to `inner`.
struct Channels {
    batch: usize,
    count: usize,
    inner: usize,
}

impl Channels {
    fn of(dims: &[usize]) -> Result<Channels> {
        let [batch, channels, inner @ ..] = dims else {
            bail!("batch norm wants (batch, channels, …), found {dims:?}")
        };
        Ok(Channels {
            batch: *batch,
            count: *channels,
            inner: inner.iter().product(),
        })
    }

    /// Range of a sample's elements in a channel.
    fn range(&self, sample: usize, channel: usize) -> Range<usize> {
        let start = (sample * self.count + channel) * self.inner;
        start..start + self.inner
    }

    /// Sums `of_sample` over all samples of a channel.
    fn total<T: Number>(&self, channel: usize, of_sample: impl Fn(Range<usize>) -> T) -> T {
        sum_by(self.batch, |sample| of_sample(self.range(sample, channel)))
    }

    /// How the channels are distributed over the threads.
    fn schedule(&self) -> Schedule {
        let threads = region::parts(self.batch * self.count * self.inner * EACH);
        Schedule::per_thread(threads, self.count, 1)
    }

    /// A result of the input's shape, in which channels are interleaved.
    fn result<T: Number>(&self) -> UninitInterleaved<T> {
        UninitInterleaved::new([1, self.batch, self.count, self.inner])
    }
}

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 8;

vectorised! {
    fn sum_of<T: Number>(x: &[T]) -> T {
        sum([x], |[x]| x)
    }
}

vectorised! {
    fn squares_of<T: Number>(x: &[T], mean: T) -> T {
        sum([x], |[x]| {
            let distance = x - mean;
            distance * distance
        })
    }
}

vectorised! {
    fn normalise<'a, T: Number>(
        x: &[T],
        mean: T,
        scale: T,
        w: T,
        b: T,
        y: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        write_all(y, x.iter().map(|&x| (x - mean) * scale * w + b))
    }
}

/// Operation that computes means and biased variances, (2, channels).
struct Statistics;

impl CustomOp1 for Statistics {
    fn name(&self) -> &'static str {
        "channel-statistics"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let channels = Channels::of(layout.dims())?;
        let count = (channels.batch * channels.inner).max(1) as f64;
        for_floats!(x, T => {
            let x = numbers::<T>(x, layout)?;
            let count = number::<T>(count);
            let mut both = vec![T::ZERO; 2 * channels.count];
            let (means, variances) = both.split_at_mut(channels.count);
            let memory = (Rows::new(means, 1), Rows::new(variances, 1));
            fill_parts(channels.schedule(), memory, |own, (means, variances)| {
                for ((channel, mean_slot), variance) in own.clone().zip(means).zip(variances) {
                    let mean = channels.total(channel, |sample| sum_of(&x[sample])) / count;
                    let squares = channels.total(channel, |sample| squares_of(&x[sample], mean));
                    (*mean_slot, *variance) = (mean, squares / count);
                }
                ((), ())
            });
            Ok((stored(both), (2, channels.count).into()))
        })
    }
}

/// What statistics depend on, and so where gradients go.
#[derive(Clone)]
enum Source {
    Constant,
    /// The input itself.
    Batch,
    /// The inputs of all ranks.
    Ranks(SharedBatch),
}

#[derive(Clone)]
struct BatchNormOp {
    statistics: ChannelStatistics,
    epsilon: f64,
    source: Source,
}

impl BatchNormOp {
    /// Each channel's mean and 1 / √(variance + ε).
    fn moments<T: Number>(&self) -> Result<Vec<(T, T)>> {
        let read = |tensor: &Tensor| tensor.to_dtype(DType::F64)?.to_vec1::<f64>();
        let means = read(&self.statistics.mean)?;
        let variances = read(&self.statistics.variance)?;
        let pairs = means.into_iter().zip(variances);
        Ok(pairs
            .map(|(mean, variance)| {
                (
                    number(mean),
                    number((variance + self.epsilon).sqrt().recip()),
                )
            })
            .collect())
    }
}

/// Sizes of an input, which must have as many channels as there are moments.
fn channels_of<T>(layout: &Layout, moments: &[(T, T)]) -> Result<Channels> {
    let channels = Channels::of(layout.dims())?;
    if channels.count != moments.len() {
        bail!(
            "batch norm of {} channels was given {:?}",
            moments.len(),
            layout.dims()
        )
    }
    Ok(channels)
}

impl CustomOp3 for BatchNormOp {
    fn name(&self) -> &'static str {
        "batch-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for_floats!(x, T => {
            let moments = self.moments::<T>()?;
            let channels = channels_of(x_layout, &moments)?;
            let x = numbers::<T>(x, x_layout)?;
            let weight = numbers::<T>(weight, weight_layout)?;
            let bias = numbers::<T>(bias, bias_layout)?;
            if weight.len() != channels.count || bias.len() != channels.count {
                bail!("batch norm's weight and bias must have a number for each channel")
            }
            let y = fill_parts(channels.schedule(), channels.result(), |own, mut y| {
                for channel in own.clone() {
                    let ((mean, scale), w, b) = (moments[channel], weight[channel], bias[channel]);
                    y.write_next(|sample, y| {
                        normalise(&x[channels.range(sample, channel)], mean, scale, w, b, y)
                    });
                }
                y.finish()
            });
            Ok((stored(y), x_layout.shape().clone()))
        })
    }

    /// Computes the gradients of input, weight and bias.
    ///
    /// With n = (x − mean) · s, that of the input is w · s · (g − mean of g − n · mean of g · n), or w · s · g where
    /// the statistics are constants; that of the weight is Σ g · n, and that of the bias Σ g. The means are over all that
    /// the statistics were computed from, the sums over this input.
    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let (x_guard, x_layout) = x.storage_and_layout();
        let (weight_guard, weight_layout) = weight.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&x_guard)?;
        for_floats!(storage, T => {
            let moments = self.moments::<T>()?;
            let channels = channels_of(x_layout, &moments)?;
            let numbers_of_x = numbers::<T>(storage, x_layout)?;
            let numbers_of_weight = numbers::<T>(cpu(&weight_guard)?, weight_layout)?;
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let backward = Backward { channels, moments: &moments, x: numbers_of_x, weight: numbers_of_weight, g };
            let gradients = match &self.source {
                Source::Constant => backward.at_once(false),
                Source::Batch => backward.at_once(true),
                Source::Ranks(batch) => backward.across(batch, self.statistics.count)?,
            };
            let each = Shape::from(backward.channels.count);
            Ok((
                hand_over(x, new_tensor(gradients.x, x.shape())?),
                hand_over(weight, new_tensor(gradients.weight, &each)?),
                hand_over(bias, new_tensor(gradients.bias, &each)?),
            ))
        })
    }
}
