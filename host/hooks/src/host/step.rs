//! The step of one batch of a candle loop.

use std::borrow::Cow;

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor};
use sconce_lifecycle::Stopping;

use super::error::HostResult;
use super::inner::LoopCell;

/// The name of the loss among the batch's tensors.
const LOSS: Cow<'static, str> = Cow::Borrowed("loss");

/// The step of one batch: what the loop computes goes through it, and comes back as hooks have left it.
///
/// It ends with [`finish`](Step::finish). One that is dropped before makes the next call an error that names the call that is
/// missing.
#[must_use = "a step ends with `finish`"]
pub struct Step<'host, 'log> {
    host: &'host LoopCell<'log>,
    inputs: Tensor,
    targets: Tensor,
}

impl<'host, 'log> Step<'host, 'log> {
    pub(super) fn new(
        host: &'host LoopCell<'log>,
        inputs: Tensor,
        targets: Tensor,
    ) -> Step<'host, 'log> {
        Step {
            host,
            inputs,
            targets,
        }
    }

    /// The batch's inputs, in which hooks may have changed elements.
    pub fn inputs(&self) -> &Tensor {
        &self.inputs
    }

    /// The batch's targets, in which hooks may have changed elements.
    pub fn targets(&self) -> &Tensor {
        &self.targets
    }

    /// The learning rate of the default group, which hooks may have set.
    pub fn learning_rate(&self) -> f64 {
        self.host.inner.borrow().hooks.learning_rate()
    }

    /// Takes the model's outputs: `after_forward`.
    ///
    /// # Errors
    ///
    /// If a hook fails.
    pub fn after_forward(&mut self, outputs: Tensor) -> HostResult<Tensor> {
        let mut inner = self.host.inner.borrow_mut();
        inner.hooks.shared().tensors.set_outputs(&outputs);
        inner.hooks.after_forward()?;
        Ok(outputs)
    }

    /// Takes the loss, a scalar and a mean over the batch's samples: `after_loss`. Returns it times what hooks want it to be scaled
    /// by, for the backward pass.
    ///
    /// # Errors
    ///
    /// If a hook fails, or it is not a scalar.
    pub fn after_loss(&mut self, loss: Tensor) -> HostResult<Tensor> {
        let number = match loss.dtype() {
            DType::F32 => f64::from(loss.to_scalar::<f32>()?),
            _ => loss.to_dtype(DType::F64)?.to_scalar::<f64>()?,
        };
        let mut inner = self.host.inner.borrow_mut();
        inner.hooks.shared().tensors.show(LOSS, &loss);
        let factor = inner.hooks.after_loss(Some(number))?;
        if (factor - 1.0).abs() < f64::EPSILON {
            return Ok(loss);
        }
        Ok(loss.affine(factor, 0.0)?)
    }

    /// Sets a metric of the pass in progress: its value over the batches until now.
    pub fn metric(&mut self, name: &str, value: f64) {
        self.host.inner.borrow().hooks.metric(name, value);
    }

    /// Takes the gradients of the loss: `after_backward`, and, if an update follows this batch, `before_update`. Returns the
    /// gradients to step by, which hooks may have changed; `None` if the update has more batches to come, or hooks skip it.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a gradient has another shape than its parameter.
    pub fn after_backward(&mut self, gradients: GradStore) -> HostResult<Option<GradStore>> {
        let inner = &mut *self.host.inner.borrow_mut();
        (inner.accumulation).add(gradients, &self.host.parameters, &mut inner.hooks)
    }

    /// The optimizer has stepped: `after_update`.
    ///
    /// # Errors
    ///
    /// If a hook fails, or no update was due.
    pub fn after_update(&mut self) -> HostResult {
        self.host.inner.borrow_mut().hooks.after_update()
    }

    /// The step is over: `after_iter`. Returns whether hooks want the training to end; the pass ends by itself then.
    ///
    /// # Errors
    ///
    /// If a hook fails, or a call is missing.
    pub fn finish(self) -> HostResult<Stopping> {
        self.host.inner.borrow_mut().hooks.end_batch()
    }
}
