//! Supervised learning: a model, data, a loss and metrics.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;

use super::{Task, split_of};
use crate::data::{Batch, Dataset, Splits};
use crate::loss::{self, Loss, LossConfig};
use crate::metric::{self, Metric, MetricConfig};
use crate::nn::{Model, ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

/// A model trained to predict the targets of its data.
pub struct Supervised {
    model: Box<dyn Model>,
    parameters: Parameters,
    data: Splits,
    loss: Loss,
    /// Each with its number of values.
    metrics: Vec<(Box<dyn Metric>, usize)>,
    names: Vec<String>,
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
        let loss = config.build(targets)?;
        let metrics = match metrics {
            Some(metrics) => metrics.to_vec(),
            None => MetricConfig::default_for(targets),
        };
        let metrics = metric::build_all(&metrics, targets, config.ignore_index())?;
        let counted = |metric: Box<dyn Metric>| {
            let count = metric.names().len();
            (metric, count)
        };
        Ok(Supervised {
            names: metrics.iter().flat_map(|metric| metric.names()).collect(),
            metrics: metrics.into_iter().map(counted).collect(),
            model,
            parameters,
            data,
            loss,
        })
    }
}

impl Task for Supervised {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        split_of(&self.data, phase)
    }

    fn metrics(&self) -> &[String] {
        &self.names
    }

    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.model.forward(&batch.inputs, pass)
    }

    fn loss(&mut self, batch: &Batch, outputs: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        self.loss.forward(outputs, &batch.targets)
    }

    fn loss_weight(&self, batch: &Batch) -> Result<f64> {
        self.loss.weight(&batch.targets)
    }

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()> {
        let mut rest = sums;
        for (metric, _) in &self.metrics {
            let (own, others) = parts(rest, metric.sum_count());
            metric.add(outputs, &batch.targets, own)?;
            rest = others;
        }
        Ok(())
    }

    fn merge(&self, sums: &mut [f64], batch: &[f64]) {
        let (mut sums, mut batch) = (sums, batch);
        for (metric, _) in &self.metrics {
            let count = metric.sum_count().min(batch.len());
            let (own, others) = parts(sums, count);
            let (added, rest) = batch.split_at(count);
            metric.merge(own, added);
            (sums, batch) = (others, rest);
        }
    }

    fn sum_count(&self) -> usize {
        let counts = self.metrics.iter().map(|(metric, _)| metric.sum_count());
        counts.sum()
    }

    fn values(&self, sums: &[f64], _samples: f64, values: &mut [f64]) {
        let (mut sums, mut values) = (sums, values);
        for (metric, width) in &self.metrics {
            let count = metric.sum_count().min(sums.len());
            let (own, rest) = sums.split_at(count);
            let (places, others) = parts(values, *width);
            metric.values(own, places);
            (sums, values) = (rest, others);
        }
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.model.modules()
    }

    fn summary(&self) -> Option<Summary> {
        self.model.summary().cloned()
    }
}

/// Splits off the first `count` elements, or all if there are fewer.
fn parts(all: &mut [f64], count: usize) -> (&mut [f64], &mut [f64]) {
    let count = count.min(all.len());
    all.split_at_mut(count)
}
