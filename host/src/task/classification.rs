//! Classification: one class per sample, cross entropy, accuracy.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;

use super::Task;
use crate::data::{Batch, Dataset, Splits};
use crate::loss;
use crate::nn::{Model, ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;

/// A model that gives a logit per class, and data whose targets are classes.
pub struct Classification {
    model: Box<dyn Model>,
    parameters: Parameters,
    data: Splits,
    metrics: [String; 1],
}

impl Classification {
    /// A task of `model`, whose parameters are in `parameters`, over `data`.
    pub fn new(model: Box<dyn Model>, parameters: Parameters, data: Splits) -> Self {
        Classification {
            model,
            parameters,
            data,
            metrics: ["accuracy".to_owned()],
        }
    }
}

impl Task for Classification {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        self.data.of(phase)
    }

    fn metrics(&self) -> &[String] {
        &self.metrics
    }

    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.model.forward(&batch.inputs, pass)
    }

    fn loss(&mut self, batch: &Batch, outputs: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        loss::cross_entropy(outputs, &batch.targets)
    }

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()> {
        if let Some(correct) = sums.first_mut() {
            *correct += loss::correct_count(outputs, &batch.targets)? as f64;
        }
        Ok(())
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.model.modules()
    }

    fn summary(&self) -> Option<Summary> {
        self.model.summary().cloned()
    }
}
