//! The small run's task, with numbers and names that no normal task has.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use sconce_plugin_api::Phase;

use crate::data::{Batch, Dataset};
use crate::nn::{ModuleInfo, Pass, Summary};
use crate::parameters::Parameters;
use crate::task::Task;

/// The peculiarity of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::validate) enum Oddity {
    /// None.
    #[default]
    None,
    /// From the second batch on, the loss and the metrics are multiplied by this factor, which is not finite.
    Factor(f64),
    /// Metrics with odd names and extreme values.
    Metrics,
}

/// Metrics that no normal task has. One name is odd, one is empty, and one is 64 KiB long; the values are the
/// largest float, minus zero, and the smallest positive float.
fn odd_metrics() -> [(String, f64); 3] {
    [
        ("a\nb\0\"\u{1f525}/{x},y z".to_owned(), f64::MAX),
        (String::new(), -0.0),
        ("m".repeat(1 << 16), f64::from_bits(1)),
    ]
}

/// A task with an oddity.
pub(in crate::validate) struct OddTask {
    task: Box<dyn Task>,
    oddity: Oddity,
    names: Vec<String>,
    batches: u64,
}

impl OddTask {
    pub(in crate::validate) fn new(task: Box<dyn Task>, oddity: Oddity) -> OddTask {
        let mut names = task.metrics().to_vec();
        if oddity == Oddity::Metrics {
            names.extend(odd_metrics().map(|(name, _)| name));
        }
        OddTask {
            task,
            oddity,
            names,
            batches: 0,
        }
    }

    fn factor(&self) -> Option<f64> {
        match self.oddity {
            // Not from the start: the audit of the first iteration would end the run.
            Oddity::Factor(factor) if self.batches > 1 => Some(factor),
            _ => None,
        }
    }
}

impl Task for OddTask {
    fn parameters(&self) -> &Parameters {
        self.task.parameters()
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        self.task.data(phase)
    }

    fn metrics(&self) -> &[String] {
        &self.names
    }

    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.task.forward(batch, pass)
    }

    fn loss(&mut self, batch: &Batch, outputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.batches += 1;
        let loss = self.task.loss(batch, outputs, pass)?;
        match self.factor() {
            Some(factor) => loss.affine(factor, 0.0),
            None => Ok(loss),
        }
    }

    fn loss_weight(&self, batch: &Batch) -> Result<f64> {
        self.task.loss_weight(batch)
    }

    fn has_varying_weight(&self) -> bool {
        self.task.has_varying_weight()
    }

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()> {
        self.task.measure(batch, outputs, sums)?;
        if let Some(factor) = self.factor() {
            for sum in sums {
                *sum *= factor;
            }
        }
        Ok(())
    }

    fn sum_count(&self) -> usize {
        self.task.sum_count()
    }

    fn values(&self, sums: &[f64], samples: f64, values: &mut [f64]) {
        let own = self.task.metrics().len().min(values.len());
        let (own, odd) = values.split_at_mut(own);
        self.task.values(sums, samples, own);
        for (place, (_, value)) in odd.iter_mut().zip(odd_metrics()) {
            *place = value;
        }
    }

    fn learnt(&self) -> serde_json::Map<String, serde_json::Value> {
        self.task.learnt()
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.task.modules()
    }

    fn summary(&self) -> Option<Summary> {
        self.task.summary()
    }
}
