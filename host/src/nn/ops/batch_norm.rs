//! Batch normalisation in one pass.

use candle_core::{
    CpuStorage, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Tensor, WithDType, bail,
};

use super::{Number, for_floats, number, numbers, ready, sum};

/// Mean and variance of each channel of (batch, channels, …).
#[derive(Clone, Debug)]
pub struct ChannelStatistics {
    /// (channels).
    pub mean: Tensor,
    /// The biased variance, by which a batch is normalised: (channels).
    pub variance: Tensor,
    /// How many numbers of a channel are behind them.
    pub count: usize,
}

impl ChannelStatistics {
    /// Those of a batch; they carry no gradient.
    pub fn of(x: &Tensor) -> Result<ChannelStatistics> {
        let x = ready(&x.detach())?;
        let Channels { batch, inner, .. } = Channels::of(x.dims())?;
        let both = x.apply_op2_no_bwd(&x, &Statistics)?;
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
    let op = BatchNorm {
        statistics: ChannelStatistics {
            mean: ready(&statistics.mean.detach())?,
            variance: ready(&statistics.variance.detach())?,
            count: statistics.count,
        },
        epsilon,
        of_batch,
    };
    ready(x)?.apply_op3(&ready(weight)?, &ready(bias)?, op)
}

/// (batch, channels, …), with what comes behind the channels as one.
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

    /// The pieces of a channel: one for each sample.
    fn pieces<'a, T>(&self, x: &'a [T], channel: usize) -> impl Iterator<Item = &'a [T]> {
        let (channels, inner) = (self.count, self.inner);
        (0..self.batch).map(move |sample| {
            let start = (sample * channels + channel) * inner;
            &x[start..start + inner]
        })
    }
}

/// (2, channels): means and biased variances.
struct Statistics;

impl CustomOp2 for Statistics {
    fn name(&self) -> &'static str {
        "channel-statistics"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        _again: &CpuStorage,
        _again_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let channels = Channels::of(layout.dims())?;
        let count = (channels.batch * channels.inner).max(1) as f64;
        for_floats!(x, T => {
            let x = numbers::<T>(x, layout)?;
            let (mut means, mut variances) = (Vec::new(), Vec::new());
            for channel in 0..channels.count {
                let total = |of: &dyn Fn(T) -> T| {
                    let pieces = channels.pieces(x, channel);
                    let sums = pieces.map(|piece| sum(piece.iter().map(|&x| of(x))));
                    sum(sums) / number::<T>(count)
                };
                let mean = total(&|x| x);
                means.push(mean);
                variances.push(total(&|x| (x - mean) * (x - mean)));
            }
            means.extend(variances);
            Ok((T::to_cpu_storage_owned(means), (2, channels.count).into()))
        })
    }
}

#[derive(Clone)]
struct BatchNorm {
    statistics: ChannelStatistics,
    epsilon: f64,
    of_batch: bool,
}

/// Of the input, by input, weight and the gradient of the output.
struct BatchNormInput(BatchNorm);

/// Of weight and bias together, (2, channels).
struct BatchNormScale(BatchNorm);

impl BatchNorm {
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

/// The sizes of an input, which must have as many channels as there are moments.
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

impl CustomOp3 for BatchNorm {
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
            let mut y = Vec::with_capacity(x.len());
            let each = moments.iter().zip(weight).zip(bias).cycle();
            for (x, ((&(mean, scale), &w), &b)) in x.chunks(channels.inner.max(1)).zip(each) {
                y.extend(x.iter().map(|&x| (x - mean) * scale * w + b));
            }
            Ok((T::to_cpu_storage_owned(y), x_layout.shape().clone()))
        })
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _bias: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let of_input = x.apply_op3_no_bwd(weight, &gradient, &BatchNormInput(self.clone()))?;
        let of_scale = x.apply_op2_no_bwd(&gradient, &BatchNormScale(self.clone()))?;
        Ok((
            Some(of_input),
            Some(of_scale.get(0)?),
            Some(of_scale.get(1)?),
        ))
    }
}

impl CustomOp3 for BatchNormInput {
    fn name(&self) -> &'static str {
        "batch-norm-input-gradient"
    }

    /// With n = (x − mean) · s: w · s · (g − mean of g − n · mean of g · n), or w · s · g where the
    /// statistics are constants.
    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for_floats!(x, T => {
            let moments = self.0.moments::<T>()?;
            let channels = channels_of(x_layout, &moments)?;
            let x = numbers::<T>(x, x_layout)?;
            let weight = numbers::<T>(weight, weight_layout)?;
            let gradient = numbers::<T>(gradient, gradient_layout)?;
            let count = number::<T>((channels.batch * channels.inner).max(1) as f64);
            let means = moments.iter().enumerate().map(|(channel, &(mean, scale))| {
                if !self.0.of_batch {
                    return (T::ZERO, T::ZERO);
                }
                let pieces = || channels.pieces(x, channel).zip(channels.pieces(gradient, channel));
                let of_mean = sum(pieces().map(|(_, g)| sum(g.iter().copied())));
                let of_scale = sum(pieces().map(|(x, g)| {
                    sum(x.iter().zip(g).map(|(&x, &g)| g * (x - mean) * scale))
                }));
                (of_mean / count, of_scale / count)
            });
            let means: Vec<(T, T)> = means.collect();
            let inner = channels.inner.max(1);
            let mut slopes = Vec::with_capacity(x.len());
            let each = moments.iter().zip(weight).zip(&means).cycle();
            for ((x, g), ((&(mean, scale), &w), &(of_mean, of_scale))) in
                x.chunks(inner).zip(gradient.chunks(inner)).zip(each)
            {
                slopes.extend(x.iter().zip(g).map(|(&x, &g)| {
                    w * scale * (g - of_mean - (x - mean) * scale * of_scale)
                }));
            }
            Ok((T::to_cpu_storage_owned(slopes), x_layout.shape().clone()))
        })
    }
}

impl CustomOp2 for BatchNormScale {
    fn name(&self) -> &'static str {
        "batch-norm-scale-gradient"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for_floats!(x, T => {
            let moments = self.0.moments::<T>()?;
            let channels = channels_of(x_layout, &moments)?;
            let x = numbers::<T>(x, x_layout)?;
            let gradient = numbers::<T>(gradient, gradient_layout)?;
            let (mut of_weight, mut of_bias) = (Vec::new(), Vec::new());
            for (channel, &(mean, scale)) in moments.iter().enumerate() {
                let pieces = || channels.pieces(x, channel).zip(channels.pieces(gradient, channel));
                of_bias.push(sum(pieces().map(|(_, g)| sum(g.iter().copied()))));
                of_weight.push(sum(pieces().map(|(x, g)| {
                    sum(x.iter().zip(g).map(|(&x, &g)| g * (x - mean) * scale))
                })));
            }
            of_weight.extend(of_bias);
            Ok((T::to_cpu_storage_owned(of_weight), (2, moments.len()).into()))
        })
    }
}
