//! A task on a part of its data: for a first look, and for learning one batch by heart.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;

use super::Task;
use crate::data::{Batch, Dataset, First};
use crate::nn::{ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

/// How much of its data a task sees, in samples; `None` for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataLimits {
    /// Of the training data.
    pub train: Option<usize>,
    /// Of the validation data.
    pub val: Option<usize>,
    /// Of the test data.
    pub test: Option<usize>,
    /// So many of the training samples, as they are without augmentation, are what is trained and
    /// validated on, and there is no test. Goes before the others.
    pub overfit: Option<usize>,
}

/// A task that sees a part of its data.
pub struct Limited {
    task: Box<dyn Task>,
    limits: DataLimits,
}

impl Limited {
    /// `task` with so much of its data.
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

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()> {
        self.task.measure(batch, outputs, sums)
    }

    fn sum_count(&self) -> usize {
        self.task.sum_count()
    }

    fn values(&self, sums: &[f64], samples: f64, values: &mut [f64]) {
        self.task.values(sums, samples, values);
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.task.modules()
    }

    fn summary(&self) -> Option<Summary> {
        self.task.summary()
    }
}

fn first(data: Arc<dyn Dataset>, count: usize) -> Arc<dyn Dataset> {
    Arc::new(First::new(data, count))
}
