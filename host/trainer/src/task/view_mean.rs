//! Predictions for several views of each sample, as one: test-time augmentation.

use std::sync::Arc;

use candle_core::{D, DType, Result, Tensor};
use sconce_plugin_api::Phase;

use super::{DeferredMetrics, Task, TaskModel};
use crate::data::{Batch, DataError, DataFile, Dataset, Preprocessing, Targets};
use crate::nn::{ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

/// A task that is evaluated on several views of each sample of a phase.
pub struct ViewMean {
    task: Box<dyn Task>,
    phase: Phase,
    /// That of the phase, in views.
    data: Arc<dyn Dataset>,
}

impl ViewMean {
    /// Evaluates `task` on `views` of its data for `phase`, as [`Dataset::in_views`] reads them.
    ///
    /// # Errors
    ///
    /// If there are no samples, or they have no such views.
    pub fn new(
        task: Box<dyn Task>,
        phase: Phase,
        views: &str,
    ) -> std::result::Result<Self, DataError> {
        let data = task.data(phase);
        let data = data.ok_or(DataError::WithoutViews)?.in_views(views)?;
        Ok(ViewMean { task, phase, data })
    }
}

/// The mean over the views of each sample, of outputs (views · samples, …), all samples of one view after those of another: of
/// numbers, or of the probabilities of classes, of which it returns the logarithm.
pub fn mean_of_views(outputs: &Tensor, samples: usize, targets: &Targets) -> Result<Tensor> {
    let views = outputs.dim(0)? / samples.max(1);
    if views <= 1 {
        return Ok(outputs.clone());
    }
    let mut shape = vec![views, samples];
    shape.extend(outputs.dims().iter().skip(1));
    let outputs = outputs.to_dtype(DType::F32)?.reshape(shape)?;
    if let Targets::Numbers(_) = targets {
        return outputs.mean(0);
    }
    let sums = outputs.log_sum_exp(D::Minus1)?.unsqueeze(D::Minus1)?;
    let logarithms = outputs.broadcast_sub(&sums)?;
    logarithms.log_sum_exp(0)?.affine(1.0, -(views as f64).ln())
}

impl Task for ViewMean {
    fn parameters(&self) -> &Parameters {
        self.task.parameters()
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        if phase == self.phase {
            return Some(Arc::clone(&self.data));
        }
        self.task.data(phase)
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
        mean_of_views(&outputs, batch.len(), self.data.targets())
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

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn probabilities_and_numbers_are_averaged_by_sample() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let rows = [[0.0_f32, 0.0], [1.0, 3.0], [0.0, 2.0], [-1.0, 0.5]];
        let outputs = Tensor::new(&rows, &Device::Cpu).expect("outputs");
        let numbers = mean_of_views(&outputs, 2, &Targets::Numbers(names(&["x", "y"])));
        let numbers: Vec<Vec<f32>> = numbers.and_then(|mean| mean.to_vec2()).expect("numbers");
        assert_eq!(numbers, [[0.0, 1.0], [0.0, 1.75]]);
        let classes = mean_of_views(&outputs, 2, &Targets::Class(names(&["a", "b"])));
        let classes: Vec<Vec<f32>> = classes.and_then(|mean| mean.to_vec2()).expect("classes");
        let second = |row: [f32; 2]| 1.0 / (1.0 + (row[0] - row[1]).exp());
        for (sample, found) in classes.iter().enumerate() {
            let expected = second(rows[sample]).midpoint(second(rows[sample + 2]));
            assert!((found[1].exp() - expected).abs() < 1e-6);
            assert!((found[0].exp() + found[1].exp() - 1.0).abs() < 1e-6);
        }
        let one = mean_of_views(&outputs, 4, &Targets::Class(names(&["a", "b"])));
        let one: Vec<Vec<f32>> = one.and_then(|one| one.to_vec2()).expect("as they are");
        assert_eq!(one, rows);
    }
}
