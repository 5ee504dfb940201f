//! Batch norm by `host/ops/cuda/batch_norm.cu`.

use candle_core::{CudaDevice, DType, Result, Tensor, bail};

use crate::autograd::custom_gradient::custom_gradient;
use crate::cuda::compilation::sources::Family;
use crate::cuda::launch::{
    Argument, Grid, THREADS, address_of, count_of_blocks, device_of, launch, suffix, uninitialised,
    uploaded,
};
use crate::statistics::{ChannelStatistics, RunningUpdate, SharedBatch, StatisticsSource};

/// Mean and biased variance of each channel of (batch, channels, …), or `None` where the kernels don't take the tensor.
pub(crate) fn statistics(x: &Tensor) -> Result<Option<ChannelStatistics>> {
    if !crate::cuda::takes(x) {
        return Ok(None);
    }
    let x = x.detach().contiguous()?;
    let sizes = Sizes::of(&x)?;
    let device = device_of(&x)?;
    let parts = uninitialised(&device, (sizes.segments(), 3, sizes.channels), DType::F32)?;
    let mut arguments = vec![Argument::Tensor(&x), Argument::Tensor(&parts)];
    arguments.extend(sizes.arguments());
    launch(
        &device,
        (
            Family::BatchNorm,
            &format!("channel_moments_{}", suffix(&x)?),
        ),
        sizes.grid()?,
        &arguments,
    )?;
    let mean = uninitialised(&device, sizes.channels, DType::F32)?;
    let variance = uninitialised(&device, sizes.channels, DType::F32)?;
    launch(
        &device,
        (Family::BatchNorm, "join_moments"),
        Grid::threads(sizes.channels)?,
        &[
            Argument::Tensor(&parts),
            Argument::Tensor(&mean),
            Argument::Tensor(&variance),
            Argument::U32(sizes.segments() as u32),
            Argument::U32(sizes.channels as u32),
        ],
    )?;
    Ok(Some(ChannelStatistics {
        mean,
        variance,
        count: sizes.batch * sizes.inner,
    }))
}

/// Normalises (x, weight, bias) by statistics, or `None` where the kernels don't take the tensors. The output is of x's type.
pub(crate) fn batch_norm(
    [x, weight, bias]: [&Tensor; 3],
    statistics: &ChannelStatistics,
    source: &StatisticsSource,
    epsilon: f64,
    with_relu: bool,
) -> Result<Option<Tensor>> {
    let ChannelStatistics { mean, variance, .. } = statistics;
    let of_channels = [mean, variance, weight, bias];
    if !crate::cuda::takes(x) || of_channels.iter().any(|it| it.dtype() != DType::F32) {
        return Ok(None);
    }
    let x = x.contiguous()?;
    let sizes = Sizes::of(&x)?;
    if of_channels.iter().any(|it| it.dims() != [sizes.channels]) {
        bail!(
            "a batch norm of weight {:?} was given {:?}",
            weight.dims(),
            x.dims()
        )
    }
    let norm = Norm {
        device: device_of(&x)?,
        mean: mean.detach().contiguous()?,
        variance: variance.detach().contiguous()?,
        sizes,
        epsilon: epsilon as f32,
        with_relu,
    };
    let (weight, bias) = (weight.contiguous()?, bias.contiguous()?);
    let y = norm.forward([&x, &weight, &bias])?;
    let (source, of_ranks) = (source.clone(), statistics.count);
    let y = custom_gradient([&x, &weight, &bias], y, move |inputs, gradient, wanted| {
        norm.backward(inputs, gradient, wanted, (&source, of_ranks))
    })?;
    Ok(Some(y))
}

/// Whether the kernel takes these running statistics and this batch's: contiguous `f32`.
pub(crate) fn takes_running(update: &RunningUpdate<'_>) -> bool {
    tensors_of(update)
        .iter()
        .all(|it| crate::cuda::takes(it) && it.dtype() == DType::F32 && it.is_contiguous())
}

/// In the order of the kernel's table.
fn tensors_of<'a>(update: &RunningUpdate<'a>) -> [&'a Tensor; 5] {
    let ChannelStatistics { mean, variance, .. } = update.batch;
    [update.mean, update.variance, update.batches, mean, variance]
}

/// Merges batches into the running statistics of as many batch norms on one GPU, which the kernel [takes](takes_running).
pub(crate) fn update_running(updates: &[RunningUpdate<'_>]) -> Result<()> {
    let Some(first) = updates.first() else {
        return Ok(());
    };
    let (mut words, mut most) = (Vec::new(), 0);
    for update in updates {
        let tensors = tensors_of(update);
        let [mean, variance, batches, ..] = tensors;
        let channels = mean.elem_count();
        let fits = |(index, it): (usize, &&Tensor)| {
            it.device().same_device(first.mean.device()) && (index == 2 || it.dims() == [channels])
        };
        if !tensors.iter().enumerate().all(fits) || batches.elem_count() != 1 {
            bail!(
                "running statistics {:?} and {:?} were given a batch's {:?} and {:?}",
                mean.dims(),
                variance.dims(),
                update.batch.mean.dims(),
                update.batch.variance.dims()
            )
        }
        for tensor in tensors {
            words.push(address_of(tensor)?);
        }
        let bits = |factor: f64| u64::from((factor as f32).to_bits());
        let [kept, of_mean, of_variance] = update.factors().map(bits);
        words.push(channels as u64 | kept << 32);
        words.push(of_mean | of_variance << 32);
        most = most.max(channels);
    }
    let device = device_of(first.mean)?;
    let table = uploaded(&device, words)?;
    let grid = Grid {
        blocks: (
            count_of_blocks(most, THREADS as usize)?,
            count_of_blocks(updates.len(), 1)?,
            1,
        ),
        ..Grid::blocks(1)
    };
    launch(
        &device,
        (Family::BatchNorm, "update_running"),
        grid,
        &[Argument::Tensor(&table)],
    )
}

/// Sizes of (batch, channels, …), with the dimensions after the channels flattened to `inner`.
#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    channels: usize,
    inner: usize,
}

impl Sizes {
    fn of(x: &Tensor) -> Result<Sizes> {
        let [batch, channels, inner @ ..] = x.dims() else {
            bail!(
                "batch norm wants (batch, channels, …), found {:?}",
                x.dims()
            )
        };
        Ok(Sizes {
            batch: *batch,
            channels: *channels,
            inner: inner.iter().product(),
        })
    }

    /// Samples of a segment: decided by the sizes alone, so that the order of sums is.
    fn samples_each(self) -> usize {
        /// So many blocks keep any device busy, and a block of fewer elements is not worth its start; of each channel there are not so
        /// many that joining them takes long.
        const BLOCKS: usize = 2048;
        const FEWEST: usize = 4096;
        const OF_CHANNEL: usize = 128;
        let segments = BLOCKS.div_ceil(self.channels).min(OF_CHANNEL);
        let each = self.batch.div_ceil(segments);
        each.max(FEWEST.div_ceil(self.inner)).min(self.batch)
    }

    fn segments(self) -> usize {
        self.batch.div_ceil(self.samples_each())
    }

    fn grid(self) -> Result<Grid> {
        const THREADS: usize = 256;
        let lanes = self.inner.next_power_of_two().min(32);
        Ok(Grid {
            blocks: (
                count_of_blocks(self.channels, 1)?,
                self.segments() as u32,
                1,
            ),
            threads: (lanes as u32, (THREADS / lanes) as u32, 1),
            shared: 0,
        })
    }

    fn arguments<'a>(self) -> [Argument<'a>; 4] {
        [self.batch, self.channels, self.inner, self.samples_each()]
            .map(|size| Argument::U32(size as u32))
    }
}

/// What the backward pass needs.
struct Norm {
    device: CudaDevice,
    mean: Tensor,
    variance: Tensor,
    sizes: Sizes,
    epsilon: f32,
    with_relu: bool,
}

impl Norm {
    /// Launches a kernel of the inputs, other tensors, and the sizes.
    fn launch(&self, kernel: &str, inputs: [&Tensor; 3], more: Vec<Argument<'_>>) -> Result<()> {
        let [x, weight, bias] = inputs;
        let mut arguments: Vec<_> = [x, &self.mean, &self.variance, weight, bias]
            .map(Argument::Tensor)
            .into();
        arguments.extend(more);
        arguments.extend(self.sizes.arguments());
        arguments.push(Argument::F32(self.epsilon));
        arguments.push(Argument::U32(u32::from(self.with_relu)));
        let kernel = format!("{kernel}_{}", suffix(x)?);
        let grid = self.sizes.grid()?;
        launch(&self.device, (Family::BatchNorm, &kernel), grid, &arguments)
    }

    fn forward(&self, inputs: [&Tensor; 3]) -> Result<Tensor> {
        let [x, ..] = inputs;
        let y = uninitialised(&self.device, x.shape(), x.dtype())?;
        self.launch("normalise", inputs, vec![Argument::Tensor(&y)])?;
        Ok(y)
    }

    /// Gradients of weight and bias: Σ g · n and Σ g of each channel, (2, channels).
    fn sums(&self, inputs: [&Tensor; 3], gradient: &Tensor) -> Result<Tensor> {
        let (segments, channels) = (self.sizes.segments(), self.sizes.channels);
        let parts = uninitialised(&self.device, (segments, 2, channels), DType::F32)?;
        let more = vec![Argument::Tensor(gradient), Argument::Tensor(&parts)];
        self.launch("channel_sums", inputs, more)?;
        let sums = uninitialised(&self.device, (2, channels), DType::F32)?;
        launch(
            &self.device,
            (Family::BatchNorm, "join_channels"),
            Grid::threads(2 * channels)?,
            &[
                Argument::Tensor(&parts),
                Argument::Tensor(&sums),
                Argument::U32(segments as u32),
                Argument::U32(2 * channels as u32),
            ],
        )?;
        Ok(sums)
    }

    /// Gradients of x, weight and bias; `of_ranks` is the number of elements of a channel in all ranks' batches.
    fn backward(
        &self,
        inputs: [&Tensor; 3],
        gradient: &Tensor,
        [of_x, of_weight, of_bias]: [bool; 3],
        (source, of_ranks): (&StatisticsSource, usize),
    ) -> Result<[Option<Tensor>; 3]> {
        let gradient = gradient.to_dtype(inputs[0].dtype())?.contiguous()?;
        let is_constant = matches!(source, StatisticsSource::Constant);
        let sums = if of_weight || of_bias || (of_x && !is_constant) {
            Some(self.sums(inputs, &gradient)?)
        } else {
            None
        };
        let of_x = if of_x {
            let exchanged;
            let own = self.sizes.batch * self.sizes.inner;
            let (sums, all) = match (source, &sums) {
                (StatisticsSource::Batch, Some(sums)) => (Some(sums), own),
                (StatisticsSource::Ranks(batch), Some(sums)) => {
                    exchanged = self.over_ranks(sums, batch)?;
                    (Some(&exchanged), of_ranks.max(1))
                }
                _ => (None, own),
            };
            Some(self.of_input(inputs, &gradient, sums, all)?)
        } else {
            None
        };
        let row = |row: usize| sums.as_ref().map(|sums| sums.get(row)).transpose();
        Ok([of_x, row(0)?, row(1)?])
    }

    /// The sums over all ranks, which exchange Σ g before Σ g · n.
    fn over_ranks(&self, sums: &Tensor, batch: &SharedBatch) -> Result<Tensor> {
        let rows: Vec<Vec<f32>> = sums.to_vec2()?;
        let own = rows.iter().rev().flatten().copied().map(f64::from);
        let all = batch.sums(own.collect())?;
        let (of_gradients, of_products) = all.split_at(self.sizes.channels);
        let both = of_products.iter().chain(of_gradients);
        let both: Vec<f32> = both.map(|&sum| sum as f32).collect();
        Tensor::from_vec(both, sums.shape(), sums.device())
    }

    fn of_input(
        &self,
        inputs: [&Tensor; 3],
        gradient: &Tensor,
        sums: Option<&Tensor>,
        all: usize,
    ) -> Result<Tensor> {
        let [x, ..] = inputs;
        let of_x = uninitialised(&self.device, x.shape(), x.dtype())?;
        let more = vec![
            Argument::Tensor(gradient),
            sums.map_or(Argument::None, Argument::Tensor),
            Argument::Tensor(&of_x),
            Argument::F32(all as f32),
        ];
        self.launch("normalise_gradient", inputs, more)?;
        Ok(of_x)
    }
}
