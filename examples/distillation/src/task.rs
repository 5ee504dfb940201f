//! The distillation task: classification whose loss includes a teacher's logits.

use std::sync::Arc;

use candle_core::{D, Result, Tensor};
use sconce::data::{Batch, Dataset, Preprocessing};
use sconce::nn::{ModuleInfo, Pass};
use sconce::parameters::Parameters;
use sconce::task::{Supervised, Task};
use sconce_plugin_api::Phase;

/// Weight of the teacher's term in the loss; the labels' term has the rest.
const SHARE: f64 = 0.7;

/// Softmax temperature that softens both distributions before they are compared.
const TEMPERATURE: f64 = 4.0;

/// A classification task that also learns from the logits that a hook publishes as `teacher`
/// (Hinton, Vinyals and Dean, 2015). Without them its loss is the student's own.
pub(crate) struct Distillation {
    student: Supervised,
}

impl Distillation {
    pub(crate) fn new(student: Supervised) -> Distillation {
        Distillation { student }
    }
}

impl Task for Distillation {
    fn loss(&mut self, batch: &Batch, outputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let labels = self.student.loss(batch, outputs, pass)?;
        let Some(teacher) = pass.published("teacher")? else {
            return Ok(labels);
        };
        let soft = distance(&teacher, outputs)?;
        pass.show("distance", &soft);
        labels.affine(1.0 - SHARE, 0.0)? + soft.affine(SHARE, 0.0)?
    }

    fn parameters(&self) -> &Parameters {
        self.student.parameters()
    }

    fn data(&self, phase: Phase) -> Option<Arc<dyn Dataset>> {
        self.student.data(phase)
    }

    fn preprocessing(&self) -> Option<Arc<Preprocessing>> {
        self.student.preprocessing()
    }

    fn metrics(&self) -> &[String] {
        self.student.metrics()
    }

    fn forward(&mut self, batch: &Batch, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.student.forward(batch, pass)
    }

    fn measure(&mut self, batch: &Batch, outputs: &Tensor, sums: &mut [f64]) -> Result<()> {
        self.student.measure(batch, outputs, sums)
    }

    fn modules(&self) -> Vec<ModuleInfo> {
        self.student.modules()
    }
}

/// T² times the cross entropy of the softened student against the softened teacher: up to a
/// constant, the Kullback-Leibler divergence. Both are (samples, classes).
fn distance(teacher: &Tensor, student: &Tensor) -> Result<Tensor> {
    let teacher = log_softmax(&teacher.affine(1.0 / TEMPERATURE, 0.0)?)?.exp()?;
    let student = log_softmax(&student.affine(1.0 / TEMPERATURE, 0.0)?)?;
    let per_sample = (teacher * student)?.sum(D::Minus1)?.neg()?;
    per_sample.mean(0)?.affine(TEMPERATURE * TEMPERATURE, 0.0)
}

/// Log-softmax from basic operations, since candle's fused one has no backward pass.
fn log_softmax(logits: &Tensor) -> Result<Tensor> {
    let shifted = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?.detach())?;
    let log_sum = shifted.exp()?.sum_keepdim(D::Minus1)?.log()?;
    shifted.broadcast_sub(&log_sum)
}
