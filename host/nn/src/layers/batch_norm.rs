//! Batch normalisation with running statistics.

use candle_core::{Result, Tensor, Var};

use super::Layer;
use crate::Pass;
use crate::init::Init;
use crate::ops::{self, ChannelStatistics};
use crate::parameters::{self, LearningRateScale, ParameterScope};

/// Batch normalisation of (batch, channels, …) (Ioffe and Szegedy, 2015), with PyTorch's names and
/// rules: training uses the batch's statistics and updates the running ones. Evaluation uses the
/// running statistics, and so does training if one of them is frozen.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    num_batches_tracked: Tensor,
    /// Learning-rate multipliers of the running mean and variance; 0 freezes them.
    shares: [LearningRateScale; 2],
    options: BatchNormOptions,
}

/// Options of [`BatchNorm`].
#[derive(Clone, Copy, Debug)]
pub struct BatchNormOptions {
    /// Constant added to the variance; above 0.
    pub epsilon: f64,
    /// Weight of a batch's statistics when the running ones are updated, from 0 to 1.
    pub momentum: f64,
}

impl Default for BatchNormOptions {
    fn default() -> Self {
        BatchNormOptions {
            epsilon: 1e-5,
            momentum: 0.1,
        }
    }
}

impl BatchNorm {
    /// Creates a layer with the parameters `weight` (ones) and `bias` (zeros).
    ///
    /// Its buffers are `running_mean` (zeros), `running_var` (ones) and `num_batches_tracked`.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        channels: usize,
        options: BatchNormOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        Ok(BatchNorm {
            weight: scope.parameter("weight", &[channels], Init::ONES)?,
            bias: scope.parameter("bias", &[channels], Init::ZEROS)?,
            running_mean: scope.buffer("running_mean", &[channels], Init::ZEROS)?,
            running_var: scope.buffer("running_var", &[channels], Init::ONES)?,
            num_batches_tracked: scope.buffer("num_batches_tracked", &[], Init::ZEROS)?,
            shares: [scope.share("running_mean")?, scope.share("running_var")?],
            options,
        })
    }

    /// Maps (batch, channels, …) to the same shape.
    pub fn forward(&self, x: &Tensor, is_training: bool) -> Result<Tensor> {
        let statistics = if is_training && !self.is_frozen() {
            let statistics = ChannelStatistics::of(x)?;
            if statistics.count < 2 {
                candle_core::bail!(
                    "batch norm in training wants more than one number for each channel, found {:?}",
                    x.dims()
                )
            }
            self.track(&statistics)?;
            statistics
        } else {
            return self.normalise(x, &self.running(), false);
        };
        self.normalise(x, &statistics, true)
    }

    fn normalise(
        &self,
        x: &Tensor,
        statistics: &ChannelStatistics,
        is_training: bool,
    ) -> Result<Tensor> {
        let epsilon = self.options.epsilon;
        ops::batch_norm(
            x,
            &self.weight,
            &self.bias,
            statistics,
            epsilon,
            is_training,
        )
    }

    fn running(&self) -> ChannelStatistics {
        ChannelStatistics {
            mean: self.running_mean.clone(),
            variance: self.running_var.clone(),
            count: 0,
        }
    }

    fn is_frozen(&self) -> bool {
        self.shares.iter().any(LearningRateScale::is_frozen)
    }

    /// Merges a batch into recomputed running statistics, which cover all batches so far; this batch has
    /// the fraction `weight` of their samples, 1 for the first batch (Chan et al., 1979).
    fn renew(&self, x: &Tensor, weight: f64) -> Result<Tensor> {
        let statistics = ChannelStatistics::of(x)?;
        let ChannelStatistics { mean, variance, .. } = &statistics;
        let (mean, variance) = if weight < 1.0 {
            let (old_mean, old_variance) = (self.running_mean.detach(), self.running_var.detach());
            let way = mean.sub(&old_mean)?;
            let between = way.sqr()?.affine(weight * (1.0 - weight), 0.0)?;
            let within = old_variance.affine(1.0 - weight, 0.0)?;
            let within = within.add(&variance.affine(weight, 0.0)?)?;
            (
                old_mean.add(&way.affine(weight, 0.0)?)?,
                within.add(&between)?,
            )
        } else {
            (mean.clone(), variance.clone())
        };
        Var::from_tensor(&self.running_mean)?.set(&mean)?;
        Var::from_tensor(&self.running_var)?.set(&variance)?;
        self.normalise(x, &statistics, true)
    }

    /// Updates the running statistics; the variance is the unbiased one, as in PyTorch.
    fn track(&self, statistics: &ChannelStatistics) -> Result<()> {
        let momentum = self.options.momentum;
        let count = statistics.count as f64;
        let moved = |running: &Tensor, found: &Tensor, scale: f64| {
            let kept = running.detach().affine(1.0 - momentum, 0.0)?;
            let next = kept.add(&found.affine(momentum * scale, 0.0)?)?;
            Var::from_tensor(running)?.set(&next)
        };
        moved(&self.running_mean, &statistics.mean, 1.0)?;
        moved(
            &self.running_var,
            &statistics.variance,
            count / (count - 1.0),
        )?;
        let tracked = self.num_batches_tracked.detach().affine(1.0, 1.0)?;
        Var::from_tensor(&self.num_batches_tracked)?.set(&tracked)
    }
}

impl Layer for BatchNorm {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        match pass.renewal() {
            Some(weight) if !self.is_frozen() => self.renew(x, weight),
            _ => BatchNorm::forward(self, x, pass.is_training()),
        }
    }
}
