//! A task on part of its data, for quick trials and for overfitting a few samples.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;

use super::{DeferredMetrics, Task, TaskModel};
use crate::data::{Batch, DataFile, Dataset, First, Preprocessing};
use crate::nn::{ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

pub use crate::manifest::DataLimits;

/// A task that sees part of its data.
pub struct Limited {
    task: Box<dyn Task>,
    limits: DataLimits,
}

impl Limited {
    /// Limits the data of `task`.
    pub fn new(task: Box<dyn Task>, limits: DataLimits) -> Self {
        Limited { task, limits }
    }
}

impl Task for Limited {
    fn parameters(&self) -> &Parameters {
        self.task.parameters()
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        let limits = &self.limits;
        if let Some(count) = limits.overfit
            && matches!(phase, Phase::Train | Phase::Val | Phase::Test)
        {
            let train = self.task.data(Phase::Train)?;
            let train = train.plain().unwrap_or(train);
            return (phase != Phase::Test).then(|| first(train, count));
        }
        let data = self.task.data(phase)?;
        let count = match phase {
            Phase::Train => limits.train,
            Phase::Val => limits.val,
            Phase::Test => limits.test,
            _ => None,
        };
        Some(match count {
            Some(count) => first(data, count),
            None => data,
        })
    }

    fn preprocessing(&self) -> Option<Arc<Preprocessing>> {
        self.task.preprocessing()
    }

    fn files(&self) -> Vec<DataFile> {
        self.task.files()
    }

    fn metrics(&self) -> &[String] {
        self.task.metrics()
    }

    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.task.forward(batch, pass)
    }

    fn loss(&mut self, batch: &Batch, outputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.task.loss(batch, outputs, pass)
    }

    fn loss_weight(&self, batch: &Batch) -> Result<f64> {
        self.task.loss_weight(batch)
    }

    fn has_varying_weight(&self) -> bool {
        self.task.has_varying_weight()
    }

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()> {
        self.task.measure(batch, outputs, sums)
    }

    fn merge(&self, sums: &mut [f64], batch: &[f64]) {
        self.task.merge(sums, batch);
    }

    fn sum_count(&self) -> usize {
        self.task.sum_count()
    }

    fn values(&self, sums: &[f64], samples: f64, values: &mut [f64]) {
        self.task.values(sums, samples, values);
    }

    fn deferred_metrics(&self) -> Option<Arc<dyn DeferredMetrics>> {
        self.task.deferred_metrics()
    }

    fn learnt(&self) -> serde_json::Map<String, serde_json::Value> {
        self.task.learnt()
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.task.modules()
    }

    fn model(&self) -> Option<TaskModel> {
        self.task.model()
    }

    fn summary(&self) -> Option<Summary> {
        self.task.summary()
    }
}

fn first(data: Arc<dyn Dataset>, count: usize) -> Arc<dyn Dataset> {
    Arc::new(First::new(data, count))
}
