//! A task on other data than its own: on the first samples of them, for quick trials and for overfitting a few, or on several views of
//! each sample, whose predictions are averaged (test-time augmentation).

use std::sync::Arc;

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;

use super::{DeferredMetrics, Task, TaskModel, mean_of_views};
use crate::data::{Batch, DataError, DataFile, Dataset, First, Preprocessing};
use crate::nn::{ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

pub use crate::manifest::DataLimits;

/// A task on other data than its own.
pub struct OtherData {
    task: Box<dyn Task>,
    data: ReplacedData,
}

/// What takes the place of the task's data.
enum ReplacedData {
    /// The first samples.
    First(DataLimits),
    /// Those of a phase, in views.
    Views(Phase, Arc<dyn Dataset>),
}

impl OtherData {
    /// Limits the data of `task`.
    pub fn limited(task: Box<dyn Task>, limits: DataLimits) -> Self {
        let data = ReplacedData::First(limits);
        OtherData { task, data }
    }

    /// Evaluates `task` on `views` of its data for `phase`, as [`Dataset::in_views`] reads them.
    ///
    /// # Errors
    ///
    /// If there are no samples, or they have no such views.
    pub fn in_views(
        task: Box<dyn Task>,
        phase: Phase,
        views: &str,
    ) -> std::result::Result<Self, DataError> {
        let data = task.data(phase);
        let data = data.ok_or(DataError::WithoutViews)?.in_views(views)?;
        let data = ReplacedData::Views(phase, data);
        Ok(OtherData { task, data })
    }

    /// The first samples of a phase, as many as the limits say.
    fn first(&self, phase: Phase, limits: &DataLimits) -> Option<Arc<dyn Dataset>> {
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
}

fn first(data: Arc<dyn Dataset>, count: usize) -> Arc<dyn Dataset> {
    Arc::new(First::new(data, count))
}

impl Task for OtherData {
    fn parameters(&self) -> &Parameters {
        self.task.parameters()
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        match &self.data {
            ReplacedData::First(limits) => self.first(phase, limits),
            ReplacedData::Views(of, data) if *of == phase => Some(Arc::clone(data)),
            ReplacedData::Views(..) => self.task.data(phase),
        }
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
        let outputs = self.task.forward(batch, pass)?;
        match &self.data {
            ReplacedData::First(_) => Ok(outputs),
            ReplacedData::Views(_, data) => mean_of_views(&outputs, batch.len(), data.targets()),
        }
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
