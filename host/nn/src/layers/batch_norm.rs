//! Batch normalisation with running statistics.

use candle_core::{Result, Tensor, Var};

use super::{FusionRole, Layer};
use crate::Pass;
use crate::init::Init;
use crate::onnx::{Attribute, Graph, OnnxError, Value};
use crate::ops::{self, ChannelStatistics, StatisticsSource};
use crate::parameters::{self, LearningRateScale, ParameterScope};
use crate::running_statistics::RunningStatistics;

/// Batch normalisation of (batch, channels, …) (Ioffe and Szegedy, 2015), with PyTorch's names and
/// rules: training uses the batch's statistics and updates the running ones. Evaluation uses the
/// running statistics, and so does training if one of them is frozen. A pass [across
/// ranks](Pass::across) uses the statistics of all ranks' batches together.
#[derive(Clone, Debug)]
pub struct BatchNorm {
    weight: Tensor,
    bias: Tensor,
    running: RunningStatistics,
    /// Learning-rate multipliers of the running mean and variance; 0 freezes them.
    shares: [LearningRateScale; 2],
    epsilon: f64,
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
            running: RunningStatistics {
                mean: scope.buffer("running_mean", &[channels], Init::ZEROS)?,
                variance: scope.buffer("running_var", &[channels], Init::ONES)?,
                batches: scope.buffer("num_batches_tracked", &[], Init::ZEROS)?,
                momentum: options.momentum,
            },
            shares: [scope.share("running_mean")?, scope.share("running_var")?],
            epsilon: options.epsilon,
        })
    }

    /// Maps (batch, channels, …) to the same shape.
    pub fn forward(&self, x: &Tensor, is_training: bool) -> Result<Tensor> {
        Layer::forward(self, x, &mut Pass::new(is_training))
    }

    /// Runs the layer, with `relu` also a following `ReLU` in the same operation.
    pub(crate) fn forward_then(
        &self,
        x: &Tensor,
        pass: &mut Pass<'_>,
        relu: bool,
    ) -> Result<Tensor> {
        match pass.renewal() {
            _ if self.is_frozen() => self.evaluate(x, relu),
            Some(weight) => self.renew(x, weight, relu),
            None if pass.is_training() => self.train(x, pass, relu),
            None => self.evaluate(x, relu),
        }
    }

    /// Normalises by the statistics of the batch, or of all ranks' batches, and merges them into the
    /// running ones: at once, or later where the pass collects them.
    fn train(&self, x: &Tensor, pass: &Pass<'_>, relu: bool) -> Result<Tensor> {
        let (y, statistics) = match pass.shared_batch() {
            Some(shared) => {
                let statistics = shared.statistics(&ChannelStatistics::of(x)?)?;
                let source = StatisticsSource::Ranks(shared.clone());
                (self.normalise(x, &statistics, source, relu)?, statistics)
            }
            None => ops::batch_norm_of_batch([x, &self.weight, &self.bias], self.epsilon, relu)?,
        };
        if statistics.count < 2 {
            candle_core::bail!(
                "batch norm in training wants more than one number for each channel, found {:?}",
                x.dims()
            )
        }
        match pass.statistics_log() {
            Some(log) => log.borrow_mut().push(&self.running, statistics),
            None => self.running.track(&statistics)?,
        }
        Ok(y)
    }

    fn normalise(
        &self,
        x: &Tensor,
        statistics: &ChannelStatistics,
        source: StatisticsSource,
        relu: bool,
    ) -> Result<Tensor> {
        let inputs = [x, &self.weight, &self.bias];
        ops::batch_norm_then(inputs, statistics, source, self.epsilon, relu)
    }

    /// Normalises by the running statistics.
    fn evaluate(&self, x: &Tensor, relu: bool) -> Result<Tensor> {
        let running = ChannelStatistics {
            mean: self.running.mean.clone(),
            variance: self.running.variance.clone(),
            count: 0,
        };
        self.normalise(x, &running, StatisticsSource::Constant, relu)
    }

    fn is_frozen(&self) -> bool {
        self.shares.iter().any(LearningRateScale::is_frozen)
    }

    /// Merges a batch into recomputed running statistics, which cover all batches so far; this batch has
    /// the fraction `weight` of their samples, 1 for the first batch (Chan et al., 1979).
    fn renew(&self, x: &Tensor, weight: f64, relu: bool) -> Result<Tensor> {
        let inputs = [x, &self.weight, &self.bias];
        let (y, statistics) = ops::batch_norm_of_batch(inputs, self.epsilon, relu)?;
        let ChannelStatistics { mean, variance, .. } = &statistics;
        let (mean, variance) = if weight < 1.0 {
            let running = &self.running;
            let (old_mean, old_variance) = (running.mean.detach(), running.variance.detach());
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
        Var::from_tensor(&self.running.mean)?.set(&mean)?;
        Var::from_tensor(&self.running.variance)?.set(&variance)?;
        Ok(y)
    }
}

impl Layer for BatchNorm {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.forward_then(x, pass, false)
    }

    fn role(&self) -> FusionRole<'_> {
        FusionRole::BatchNorm(self)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let running = &self.running;
        let weights = [&self.weight, &self.bias, &running.mean, &running.variance];
        let [weight, bias, mean, variance] = weights.map(|weight| graph.weight(weight));
        let options = [("epsilon", Attribute::Float(self.epsilon))];
        let inputs = [x, &weight, &bias, &mean, &variance];
        Ok(graph.node("BatchNormalization", &inputs, &options))
    }
}
