//! Batch normalisation, of one process's batch or of those of several processes together, with a following `ReLU`.
//!
//! It is bound by memory. A channel of a batch mostly fits a core's L2 cache, so each thread computes a channel's
//! statistics and normalises it at once: of the passes over the input only the first reads memory. The backward pass
//! does the same with a channel's sums and its gradient, and computes again which outputs `ReLU` has kept instead of
//! reading them.

mod backward;
pub(crate) mod group;
mod running;

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use candle_core::{
    CpuStorage, CustomOp1, CustomOp3, DType, Layout, Result, Shape, Tensor, WithDType, bail,
};

use crate::autograd::aside::hand_over;
use crate::autograd::tape::apply3;
use crate::kernels::fill::{Rows, Schedule, UninitInterleaved, fill_parts};
use crate::kernels::math::{sum, sum_by};
use crate::kernels::{prefetch_all, region, write_all};
use crate::statistics::{ChannelStatistics, SharedBatch, StatisticsSource};
use crate::storage::{Number, cpu, for_floats, new_tensor, number, numbers, ready, stored};
use crate::{composed, vectorised};

use backward::Backward;
pub use running::update_running;

impl ChannelStatistics {
    /// Statistics of a batch, without a gradient.
    pub fn of(x: &Tensor) -> Result<ChannelStatistics> {
        if composed::is_chosen(x) {
            return composed::statistics(x);
        }
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
        StatisticsSource::Batch
    } else {
        StatisticsSource::Constant
    };
    batch_norm_then([x, weight, bias], statistics, source, epsilon, false)
}

/// [`batch_norm`] by the statistics of all ranks' batches together, as [`SharedBatch::statistics`] returns them.
///
/// The gradient goes through the statistics, to the inputs of all ranks: that of `x` is the gradient of the sum of the
/// ranks' losses. Those of `weight` and `bias` are of this rank's loss alone, to be summed with other parameters'. The
/// backward pass exchanges values between ranks, see [`AcrossRanks`](crate::AcrossRanks).
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
    let source = StatisticsSource::Ranks(batch.clone());
    batch_norm_then([x, weight, bias], statistics, source, epsilon, false)
}

/// Normalises `x`, given with weight and bias, by statistics from any source; with `relu`, max(y, 0) of the result.
///
/// It has the bits of [`batch_norm`] or [`batch_norm_across`], and of [`relu`](crate::relu) after it.
pub fn batch_norm_then(
    inputs: [&Tensor; 3],
    statistics: &ChannelStatistics,
    source: StatisticsSource,
    epsilon: f64,
    relu: bool,
) -> Result<Tensor> {
    if composed::is_chosen(inputs[0]) {
        return composed::batch_norm(inputs, statistics, &source, epsilon, relu);
    }
    let statistics = ChannelStatistics {
        mean: ready(&statistics.mean.detach())?,
        variance: ready(&statistics.variance.detach())?,
        count: statistics.count,
    };
    let op = BatchNormOp {
        statistics: Arc::new(OnceLock::from(statistics)),
        source,
        epsilon,
        relu,
    };
    apply(inputs, op)
}

/// Normalises `x`, given with weight and bias, by its own statistics, and returns these too.
///
/// It has the bits of [`ChannelStatistics::of`] and [`batch_norm_then`], with a single pass over memory.
pub fn batch_norm_of_batch(
    inputs: [&Tensor; 3],
    epsilon: f64,
    relu: bool,
) -> Result<(Tensor, ChannelStatistics)> {
    if composed::is_chosen(inputs[0]) {
        let statistics = composed::statistics(inputs[0])?;
        let source = StatisticsSource::Batch;
        let y = composed::batch_norm(inputs, &statistics, &source, epsilon, relu)?;
        return Ok((y, statistics));
    }
    let statistics = Arc::new(OnceLock::new());
    let op = BatchNormOp {
        statistics: Arc::clone(&statistics),
        source: StatisticsSource::Batch,
        epsilon,
        relu,
    };
    let y = apply(inputs, op)?;
    let Some(statistics) = statistics.get() else {
        bail!("a batch norm has not computed its statistics")
    };
    Ok((y, statistics.clone()))
}

fn apply([x, weight, bias]: [&Tensor; 3], op: BatchNormOp) -> Result<Tensor> {
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

    /// Prefetches a channel's elements of a sample that follows: where runs are short and far apart, the processor itself does not.
    fn prefetch_after<T>(&self, x: &[T], sample: usize, channel: usize) {
        let distance = (AHEAD / (self.inner * size_of::<T>()).max(1)).max(1);
        if let Some(next) = x.get(self.range(sample + distance, channel)) {
            prefetch_all(next);
        }
    }

    /// Sums `of_sample` over all samples of a channel.
    fn total<T: Number>(&self, channel: usize, of_sample: impl Fn(Range<usize>) -> T) -> T {
        sum_by(self.batch, |sample| of_sample(self.range(sample, channel)))
    }

    /// How the channels are distributed over the threads.
    fn schedule(&self) -> Schedule {
        let threads = region::parts(self.batch * self.count * self.inner * EACH);
        Schedule::stealing(threads, self.count, 1)
    }

    /// Number of elements of a channel, at least 1.
    fn each<T: Number>(&self) -> T {
        number((self.batch * self.inner).max(1) as f64)
    }

    /// Mean and biased variance of a channel of `x`.
    fn statistics<T: Number>(&self, x: &[T], channel: usize) -> (T, T) {
        let sum = sum_by(self.batch, |sample| {
            self.prefetch_after(x, sample, channel);
            sum_of(&x[self.range(sample, channel)])
        });
        let mean = sum / self.each();
        let squares = self.total(channel, |sample| squares_of(&x[sample], mean));
        (mean, squares / self.each())
    }

    /// A result of the input's shape, in which channels are interleaved.
    fn result<T: Number>(&self) -> UninitInterleaved<T> {
        UninitInterleaved::new([1, self.batch, self.count, self.inner])
    }
}

/// Bytes between what is prefetched and what is read.
const AHEAD: usize = 4096;

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
        factors: Factors<T>,
        relu: bool,
        y: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let y_of = |&x: &T| factors.output(factors.normalised(x));
        if relu {
            let kept = |y: T| if y < T::ZERO { T::ZERO } else { y };
            write_all(y, x.iter().map(y_of).map(kept))
        } else {
            write_all(y, x.iter().map(y_of))
        }
    }
}

/// What a channel's elements are normalised by: (x − mean) · scale · w + b.
#[derive(Clone, Copy)]
struct Factors<T> {
    mean: T,
    /// 1 / √(variance + ε).
    scale: T,
    w: T,
    b: T,
}

impl<T: Number> Factors<T> {
    #[inline(always)]
    fn normalised(&self, x: T) -> T {
        (x - self.mean) * self.scale
    }

    #[inline(always)]
    fn output(&self, normalised: T) -> T {
        normalised * self.w + self.b
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
        for_floats!(x, T => {
            let x = numbers::<T>(x, layout)?;
            let mut both = vec![T::ZERO; 2 * channels.count];
            let (means, variances) = both.split_at_mut(channels.count);
            let memory = (Rows::new(means, 1), Rows::new(variances, 1));
            fill_parts(channels.schedule(), memory, |own, (means, variances)| {
                for ((channel, mean), variance) in own.clone().zip(means).zip(variances) {
                    (*mean, *variance) = channels.statistics(x, channel);
                }
                ((), ())
            });
            Ok((stored(both), (2, channels.count).into()))
        })
    }
}

struct BatchNormOp {
    /// Set by the forward pass where they were not given.
    statistics: Arc<OnceLock<ChannelStatistics>>,
    source: StatisticsSource,
    epsilon: f64,
    relu: bool,
}

impl BatchNormOp {
    /// 1 / √(variance + ε).
    fn scale<T: Number>(&self, variance: f64) -> T {
        number((variance + self.epsilon).sqrt().recip())
    }

    /// What each channel of an input is normalised by.
    fn factors<T: Number>(
        &self,
        statistics: &ChannelStatistics,
        (weight, bias): (&[T], &[T]),
    ) -> Result<Vec<Factors<T>>> {
        let read = |tensor: &Tensor| tensor.to_dtype(DType::F64)?.to_vec1::<f64>();
        let means = read(&statistics.mean)?;
        let variances = read(&statistics.variance)?;
        if means.len() != weight.len() || variances.len() != weight.len() {
            bail!("batch norm's statistics must have a number for each channel")
        }
        let both = means.into_iter().zip(variances);
        let factors = both.zip(weight.iter().zip(bias));
        Ok(factors
            .map(|((mean, variance), (&w, &b))| Factors {
                mean: number(mean),
                scale: self.scale(variance),
                w,
                b,
            })
            .collect())
    }

    /// Normalises an input by given statistics.
    fn normalise<T: Number>(&self, channels: &Channels, x: &[T], factors: &[Factors<T>]) -> Vec<T> {
        fill_parts(channels.schedule(), channels.result(), |own, mut y| {
            for channel in own.clone() {
                y.write_next(|sample, y| {
                    let x = &x[channels.range(sample, channel)];
                    normalise(x, factors[channel], self.relu, y)
                });
            }
            y.finish()
        })
    }

    /// Normalises an input by its own statistics, which are kept.
    fn normalise_batch<T: Number>(
        &self,
        channels: &Channels,
        x: &[T],
        (weight, bias): (&[T], &[T]),
    ) -> Result<Vec<T>> {
        let mut means = vec![T::ZERO; channels.count];
        let mut variances = vec![T::ZERO; channels.count];
        let memory = (
            channels.result(),
            Rows::new(&mut means, 1),
            Rows::new(&mut variances, 1),
        );
        let (y, (), ()) = fill_parts(channels.schedule(), memory, |own, parts| {
            let (mut y, means, variances) = parts;
            for ((channel, slot), variance) in own.clone().zip(means).zip(variances) {
                (*slot, *variance) = channels.statistics(x, channel);
                let factors = Factors {
                    mean: *slot,
                    scale: self.scale(WithDType::to_f64(*variance)),
                    w: weight[channel],
                    b: bias[channel],
                };
                y.write_next(|sample, y| {
                    let x = &x[channels.range(sample, channel)];
                    normalise(x, factors, self.relu, y)
                });
            }
            (y.finish(), (), ())
        });
        let each = Shape::from(channels.count);
        let statistics = ChannelStatistics {
            mean: new_tensor(means, &each)?,
            variance: new_tensor(variances, &each)?,
            count: channels.batch * channels.inner,
        };
        // The forward pass runs once per operation, so nothing was set before.
        drop(self.statistics.set(statistics));
        Ok(y)
    }
}

/// Sizes of an input, which must have as many channels as weight and bias have elements.
fn channels_of<T>(layout: &Layout, weight: &[T], bias: &[T]) -> Result<Channels> {
    let channels = Channels::of(layout.dims())?;
    if weight.len() != channels.count || bias.len() != channels.count {
        bail!(
            "batch norm of {} and {} channels was given {:?}",
            weight.len(),
            bias.len(),
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
            let x = numbers::<T>(x, x_layout)?;
            let weight = numbers::<T>(weight, weight_layout)?;
            let bias = numbers::<T>(bias, bias_layout)?;
            let channels = channels_of(x_layout, weight, bias)?;
            let y = match self.statistics.get() {
                Some(statistics) => {
                    let factors = self.factors(statistics, (weight, bias))?;
                    self.normalise(&channels, x, &factors)
                }
                None => self.normalise_batch(&channels, x, (weight, bias))?,
            };
            Ok((stored(y), x_layout.shape().clone()))
        })
    }

    /// Computes the gradients of input, weight and bias.
    ///
    /// With n = (x − mean) · s, and g zero where `ReLU` has dropped the output, that of the input is w · s · (g − mean of g − n · mean of g · n), or w · s · g where
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
        let Some(statistics) = self.statistics.get() else {
            bail!("a batch norm has not computed its statistics")
        };
        let (x_guard, x_layout) = x.storage_and_layout();
        let (weight_guard, weight_layout) = weight.storage_and_layout();
        let (bias_guard, bias_layout) = bias.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&x_guard)?;
        for_floats!(storage, T => {
            let numbers_of_x = numbers::<T>(storage, x_layout)?;
            let numbers_of_weight = numbers::<T>(cpu(&weight_guard)?, weight_layout)?;
            let numbers_of_bias = numbers::<T>(cpu(&bias_guard)?, bias_layout)?;
            let channels = channels_of(x_layout, numbers_of_weight, numbers_of_bias)?;
            let factors = self.factors(statistics, (numbers_of_weight, numbers_of_bias))?;
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let backward = Backward { channels, factors: &factors, x: numbers_of_x, g, relu: self.relu };
            let gradients = match &self.source {
                StatisticsSource::Constant => backward.at_once(false),
                StatisticsSource::Batch => backward.at_once(true),
                StatisticsSource::Ranks(batch) => backward.across(batch, statistics.count)?,
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

#[cfg(test)]
mod tests;
