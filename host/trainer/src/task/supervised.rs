//! Supervised learning: a model, data, a loss and metrics.

use std::sync::Arc;

use candle_core::{Result, Tensor, bail};
use sconce_plugin_api::Phase;
use serde_json::{Map, Value, json};

use super::metric_list::MetricList;
use super::{DeferredMetrics, Task, TaskModel, split_of};
use crate::data::{self, Batch, DataError, Dataset, MixedTargets, Preprocessing, Splits};
use crate::loss::{self, Loss, LossConfig};
use crate::metric::{self, Counting, MetricConfig};
use crate::nn::ops::LinearParameters;
use crate::nn::{Model, ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

/// A model trained to predict the targets of its data.
pub struct Supervised {
    model: TaskModel,
    parameters: Parameters,
    data: Splits,
    loss: Loss,
    /// Whether the loss's class weights are computed from the training samples.
    learns_weights: bool,
    metrics: Arc<MetricList>,
    /// Set by each forward pass whose outputs are computed in parts.
    in_parts: Option<InParts>,
}

/// A batch whose outputs are computed in parts, by the loss: it measures them, too.
struct InParts {
    /// The model's last layer, which its pass has left out.
    layer: LinearParameters,
    /// Of the metrics.
    sums: Vec<f64>,
}

/// Reason why loss or metrics don't fit the data.
#[derive(Debug, thiserror::Error)]
pub enum SupervisedError {
    /// The loss doesn't.
    #[error(transparent)]
    Loss(#[from] loss::LossError),
    /// A metric doesn't.
    #[error(transparent)]
    Metric(#[from] metric::MetricError),
    /// The loss needs targets from 0 to 1.
    #[error(
        "`binary-cross-entropy` is for targets from 0 (no) to 1 (yes), and sample {sample} of the {phase} data has {found}: take \
         `mse` or another loss for numbers, or `cross-entropy` for classes"
    )]
    NoProbability {
        /// Phase of the sample.
        phase: &'static str,
        /// Its index in the phase's data.
        sample: usize,
        /// Its target.
        found: f32,
    },
    /// The data have weights that nothing uses.
    #[error(
        "a loss that hooks give does not know the data's sample weights: leave them out, or take another loss"
    )]
    UnusedWeights,
    /// There are several rows of outputs for each target.
    #[error(
        "the data have {0} views of each sample, whose outputs this loss can't compare with one target: `\"loss\": \"given\"` leaves \
         the loss to a hook"
    )]
    Views(usize),
    /// There are several rows of outputs for each target.
    #[error(
        "metrics compare the outputs of samples with targets, and the data have {0} views of each sample: leave `metrics` out"
    )]
    MetricsOfViews(usize),
    /// The training samples of each class can't be counted.
    #[error("the training samples of each class can't be counted: {0}")]
    Data(#[from] DataError),
}

impl Supervised {
    /// Returns a task of `model`, whose parameters are in `parameters`, over `data`. Loss and
    /// metrics are the defaults for the targets: cross entropy and accuracy for classes, squared
    /// error for numbers.
    ///
    /// # Errors
    ///
    /// Only if the targets have no names.
    pub fn new(
        model: Box<dyn Model>,
        parameters: Parameters,
        data: Splits,
    ) -> std::result::Result<Self, SupervisedError> {
        Supervised::with(model, parameters, data, None, None)
    }

    /// As [`new`](Supervised::new), with a custom loss and metrics.
    ///
    /// # Errors
    ///
    /// If they don't fit the data's targets.
    pub fn with(
        model: Box<dyn Model>,
        parameters: Parameters,
        data: Splits,
        loss: Option<&LossConfig>,
        metrics: Option<&[MetricConfig]>,
    ) -> std::result::Result<Self, SupervisedError> {
        let targets = data.train.targets();
        let config = loss.cloned();
        let config = config.unwrap_or_else(|| LossConfig::default_for(targets));
        let counts = if config.needs_class_counts() {
            Some(data::class_counts(data.train.as_ref())?)
        } else {
            None
        };
        let loss = config.build(targets, counts.as_deref())?;
        if let LossConfig::BinaryCrossEntropy { .. } = config {
            for phase in Phase::ALL {
                if let Some(data) = split_of(&data, phase) {
                    expect_probabilities(phase, data.as_ref())?;
                }
            }
        }
        if config.is_given() && data.train.has_weights() {
            return Err(SupervisedError::UnusedWeights);
        }
        let views = data.train.views();
        if views > 1 && !config.is_given() {
            return Err(SupervisedError::Views(views));
        }
        if views > 1 && metrics.is_some_and(|metrics| !metrics.is_empty()) {
            return Err(SupervisedError::MetricsOfViews(views));
        }
        let metrics = match metrics {
            Some(metrics) => metrics.to_vec(),
            // The outputs of such a loss are no predictions of the targets.
            None if config.is_given() => Vec::new(),
            None => MetricConfig::default_for(targets),
        };
        let counting = Counting {
            ignored: config.ignore_index(targets),
            bytes: data.train.class_bytes(),
        };
        let metrics = metric::build_all(&metrics, targets, &counting)?;
        Ok(Supervised {
            metrics: Arc::new(MetricList::new(metrics)),
            learns_weights: config.needs_class_counts(),
            model: TaskModel {
                network: model.into(),
                preprocessing: Arc::clone(&data.preprocessing),
                device: parameters.device().clone(),
            },
            parameters,
            data,
            loss,
            in_parts: None,
        })
    }
}

impl Supervised {
    /// Whether the loss can compute the outputs of a batch in parts.
    fn takes_parts(&self, batch: &Batch) -> bool {
        matches!(self.loss, Loss::CrossEntropy(_)) && batch.mixed.is_none()
    }

    /// The loss of outputs that are computed in parts, from the inputs of the model's last layer; measures them.
    fn loss_in_parts(&self, batch: &Batch, inputs: &Tensor, parts: &mut InParts) -> Result<Tensor> {
        let Loss::CrossEntropy(loss) = &self.loss else {
            bail!("only a cross entropy is computed in parts")
        };
        let InParts { layer, sums } = parts;
        sums.clear();
        sums.resize(self.metrics.sum_count(), 0.0);
        let weights = batch.weights.as_deref();
        loss.of_layer((layer, inputs), &batch.targets, weights, &mut |x, y| {
            self.metrics.add(x, y, sums)
        })
    }

    /// The loss of mixed samples: that of their own targets and that of the others', each by its share of what counts.
    fn mixed_loss(&self, batch: &Batch, mixed: &MixedTargets, outputs: &Tensor) -> Result<Tensor> {
        let weights = batch.weights.as_deref();
        let [own, other] = self.mixed_weights(batch, mixed)?;
        let sum = own + other;
        let share = if sum > 0.0 { own / sum } else { 0.0 };
        let loss_of = |targets: &Tensor| self.loss.forward_weighted(outputs, targets, weights);
        let of_own = loss_of(&batch.targets)?.affine(share, 0.0)?;
        let targets = mixed.targets.to_device(outputs.device())?;
        of_own.add(&loss_of(&targets)?.affine(1.0 - share, 0.0)?)
    }

    /// What counts of the loss of mixed samples: of their own targets, and of the others'.
    fn mixed_weights(&self, batch: &Batch, mixed: &MixedTargets) -> Result<[f64; 2]> {
        let weights = batch.weights.as_deref();
        let of = |targets: &Tensor| self.loss.weight_of(targets, weights);
        let share = mixed.share;
        Ok([
            share * of(&batch.targets)?,
            (1.0 - share) * of(&mixed.targets)?,
        ])
    }
}

/// Number of samples whose targets are read at once.
const READ_AT_ONCE: u32 = 1024;

/// Checks that numeric targets are from 0 to 1.
fn expect_probabilities(
    phase: Phase,
    data: &dyn Dataset,
) -> std::result::Result<(), SupervisedError> {
    let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
    for first in (0..count).step_by(READ_AT_ONCE as usize) {
        let samples: Vec<u32> = (first..count).take(READ_AT_ONCE as usize).collect();
        let targets = data.gather(&samples, 0)?.targets;
        let width = targets.elem_count() / samples.len().max(1);
        let values = targets.flatten_all().and_then(|targets| targets.to_vec1());
        let values: Vec<f32> = values.map_err(DataError::from)?;
        if let Some(place) = values.iter().position(|value| !(0.0..=1.0).contains(value)) {
            return Err(SupervisedError::NoProbability {
                phase: phase.name(),
                sample: first as usize + place / width.max(1),
                found: values.get(place).copied().unwrap_or(f32::NAN),
            });
        }
    }
    Ok(())
}

impl Task for Supervised {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        split_of(&self.data, phase)
    }

    fn preprocessing(&self) -> Option<Arc<Preprocessing>> {
        Some(Arc::clone(&self.data.preprocessing))
    }

    fn metrics(&self) -> &[String] {
        self.metrics.names()
    }

    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        pass.set_named_inputs(Arc::clone(&batch.named));
        pass.set_visibility(batch.visibility.clone());
        if self.takes_parts(batch) {
            pass.leave_head();
        }
        let outputs = self.model.outputs_of(batch, pass)?;
        self.in_parts = pass.left_head().map(|layer| InParts {
            layer: layer.clone(),
            sums: Vec::new(),
        });
        Ok(outputs)
    }

    fn loss(&mut self, batch: &Batch, outputs: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        if let Some(mut parts) = self.in_parts.take() {
            let loss = self.loss_in_parts(batch, outputs, &mut parts)?;
            self.in_parts = Some(parts);
            return Ok(loss);
        }
        let weights = batch.weights.as_deref();
        if let Some(mixed) = &batch.mixed {
            return self.mixed_loss(batch, mixed, outputs);
        }
        match self.data.preprocessing.target_scaling() {
            Some(scaling) => {
                let outputs = scaling.scaled(outputs)?;
                let targets = scaling.scaled(&batch.targets)?;
                self.loss.forward_weighted(&outputs, &targets, weights)
            }
            None => self.loss.forward_weighted(outputs, &batch.targets, weights),
        }
    }

    fn loss_weight(&self, batch: &Batch) -> Result<f64> {
        if let Loss::Given = self.loss {
            return Ok(batch.len() as f64);
        }
        if let Some(mixed) = &batch.mixed {
            return Ok(self.mixed_weights(batch, mixed)?.iter().sum());
        }
        self.loss
            .weight_of(&batch.targets, batch.weights.as_deref())
    }

    fn has_varying_weight(&self) -> bool {
        self.loss.has_varying_weight() || self.data.train.has_weights()
    }

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()> {
        if let Some(parts) = &self.in_parts {
            self.metrics.merge(sums, &parts.sums);
            return Ok(());
        }
        self.metrics.add(outputs, &batch.targets, sums)
    }

    fn merge(&self, sums: &mut [f64], batch: &[f64]) {
        self.metrics.merge(sums, batch);
    }

    fn sum_count(&self) -> usize {
        self.metrics.sum_count()
    }

    fn values(&self, sums: &[f64], samples: f64, values: &mut [f64]) {
        self.metrics.values(sums, samples, values);
    }

    fn deferred_metrics(&self) -> Option<Arc<dyn DeferredMetrics>> {
        Some(Arc::clone(&self.metrics) as Arc<dyn DeferredMetrics>)
    }

    fn learnt(&self) -> Map<String, Value> {
        let mut learnt = Map::new();
        if let Loss::CrossEntropy(loss) = &self.loss
            && let Some(weights) = loss.class_weights.as_ref().filter(|_| self.learns_weights)
        {
            let classes = self.data.train.class_names().iter().cloned();
            let weights = weights.iter().map(|weight| json!(weight));
            let weights: Map<String, Value> = classes.zip(weights).collect();
            learnt.insert("class_weights".to_owned(), Value::Object(weights));
        }
        learnt
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.model.network.modules()
    }

    fn model(&self) -> Option<TaskModel> {
        Some(self.model.clone())
    }

    fn summary(&self) -> Option<Summary> {
        self.model.network.summary().cloned()
    }
}
