//! One training iteration: forward pass, loss, backward pass, and an update if one is due.

use std::ops::Range;
use std::time::Instant;

use candle_core::Tensor;
use candle_core::backprop::GradStore;
use sconce_plugin_api::abi::ViewAbi;
use sconce_plugin_api::{Phase, Point};

use super::update::UpdateProgress;
use super::{RunError, Trainer};
use crate::data::{Batch, Loader};
use crate::gradients::{Gradients, Wrong, wrong_operations};
use crate::nn::{Pass, ops};

/// A batch of the training, as a part of an update.
pub(super) struct MicroBatch {
    /// Its samples, as positions in the epoch's order.
    pub(super) range: Range<usize>,
    /// Its fraction of the samples of its update: 1 without accumulation.
    pub(super) fraction: f64,
    /// Whether it is the last batch of its update.
    pub(super) updates: bool,
}

impl Trainer<'_> {
    pub(super) fn iteration(
        &mut self,
        loader: &mut Loader,
        micro_batch: &MicroBatch,
    ) -> Result<(), RunError> {
        self.view.batch_size = micro_batch.range.len() as u64;
        self.view.flags &= !(ViewAbi::UPDATES | ViewAbi::HAS_LOSS);
        if micro_batch.updates {
            self.view.flags |= ViewAbi::UPDATES;
        }
        let Some(batch) = self.next_batch(loader)? else {
            return Ok(());
        };
        let tensors = &self.shared.tensors;
        tensors.set_batch(&batch.inputs, &batch.targets, &batch.indices);
        self.call(Point::BeforeIter)?;
        self.expect_real_parameters()?;
        self.update.progress = UpdateProgress::Batch;
        if !self.shared.requests.take_skip_batch() {
            let _recording = ops::record();
            // The set of frozen parameters may change from one batch to the next.
            let _held = ops::hold(self.task.parameters().held());
            let loss = self.forward(&batch, Phase::Train)?;
            self.check_loss(&batch)?;
            self.backward(&batch, &loss, micro_batch.fraction)?;
        }
        if micro_batch.updates {
            self.update()?;
        }
        self.count_iteration();
        self.update.progress = UpdateProgress::Between;
        self.call(Point::AfterIter)?;
        self.end_batch();
        Ok(())
    }

    /// Counts the current batch as finished.
    pub(super) fn count_iteration(&mut self) {
        self.view.iteration += 1;
        self.view.batch += 1;
        self.position.trained = self.view.batch;
        self.view.samples += self.view.batch_size;
        self.shared.clock.advance(self.view.iteration);
    }

    /// Drops the tensors that hooks saw of a batch, and the values that they kept for it.
    pub(super) fn end_batch(&self) {
        self.shared.tensors.clear_batch();
        self.shared.values.end_batch();
    }

    /// The next batch of the pass, waiting until it is ready; `None` at the end.
    pub(super) fn next_batch(&mut self, loader: &mut Loader) -> Result<Option<Batch>, RunError> {
        let start = Instant::now();
        let batch = loader.next_batch().transpose();
        self.timing.pass.data += start.elapsed();
        batch.map_err(|error| RunError::data(&self.view, error))
    }

    /// Computes outputs, loss and metrics of a batch, in any phase.
    pub(super) fn forward(&mut self, batch: &Batch, phase: Phase) -> Result<Tensor, RunError> {
        let outputs = self.outputs(batch, phase)?;
        self.shared.tensors.set_outputs(&outputs);
        self.call(Point::AfterForward)?;
        let start = Instant::now();
        let loss = self.measure(batch, &outputs, phase);
        self.timing.pass.loss += start.elapsed();
        let loss = loss.map_err(|error| RunError::task("the loss", &self.view, error))?;
        self.call(Point::AfterLoss)?;
        Ok(loss)
    }

    /// Computes loss and metrics of a batch, for the view and the phase's metrics.
    fn measure(
        &mut self,
        batch: &Batch,
        outputs: &Tensor,
        phase: Phase,
    ) -> candle_core::Result<Tensor> {
        let mut pass = Pass::new(phase == Phase::Train)
            .at(self.moment())
            .within(self.shared);
        let loss = self.task.loss(batch, outputs, &mut pass)?;
        let value = scalar(&loss)?;
        self.shared.tensors.show("loss".into(), &loss);
        self.view.loss = value;
        self.view.flags |= ViewAbi::HAS_LOSS;
        let mut board = self.shared.metrics.borrow_mut();
        let (sums, samples) = board.sums(phase, 2 + self.task.sum_count());
        *samples += batch.len() as f64;
        let mut mean = f64::NAN;
        if let [loss_sum, weight_sum, sums @ ..] = sums {
            let weight = self.task.loss_weight(batch)?;
            // A batch of weight 0 has no loss: 0 · NaN would be NaN.
            if weight > 0.0 {
                *loss_sum += value * weight;
            }
            *weight_sum += weight;
            mean = *loss_sum / *weight_sum;
            self.task.measure(batch, outputs, sums)?;
            self.task.values(sums, *samples, &mut self.values);
        }
        board.set(phase, "loss", mean);
        for (name, value) in self.task.metrics().iter().zip(&self.values) {
            board.set(phase, name, *value);
        }
        Ok(loss)
    }

    /// Computes the gradients of a batch, and adds them to those of its update.
    fn backward(&mut self, batch: &Batch, loss: &Tensor, share: f64) -> Result<(), RunError> {
        self.warn_of_wrong_gradients(batch, loss)?;
        let start = Instant::now();
        let store = self.differentiate(loss, share);
        self.timing.pass.backward += start.elapsed();
        let store =
            store.map_err(|error| RunError::task("the backward pass", &self.view, error))?;
        if !self.records.is_empty() {
            self.call_module_backward(&store)?;
        }
        let gradients = Gradients::from_store(self.task.parameters(), &store);
        drop(store);
        self.check_gradients(&gradients, batch)?;
        self.audit(&gradients)?;
        self.shared.tensors.set_gradients(gradients);
        self.call(Point::AfterBackward)?;
        let Some(gradients) = self.shared.tensors.take_gradients() else {
            return Ok(());
        };
        // From here on, the batch is part of its update.
        self.update.progress = UpdateProgress::Torn;
        match &mut self.update.accumulated {
            None => self.update.accumulated = Some(gradients),
            Some(accumulated) => accumulated
                .accumulate(&gradients)
                .map_err(|error| RunError::task("adding gradients up", &self.view, error))?,
        }
        Ok(())
    }

    /// Computes the gradients of the batch's fraction of its update. The factor is that fraction of the
    /// update's samples, times the loss scale requested by hooks.
    fn differentiate(&self, loss: &Tensor, share: f64) -> candle_core::Result<GradStore> {
        let factor = share * self.shared.requests.take_loss_scale();
        ops::backward(loss, factor)
    }

    /// Runs the first part of the gradient audit, once, before the first backward pass. It finds operations
    /// of candle that have wrong gradients.
    fn warn_of_wrong_gradients(&self, batch: &Batch, loss: &Tensor) -> Result<(), RunError> {
        if self.update.is_audited {
            return Ok(());
        }
        let found = wrong_operations(loss, &batch.inputs, &ops::recorded())
            .map_err(|error| RunError::task("the gradient audit", &self.view, error))?;
        for Wrong { operation, instead } in found {
            self.shared.warn(&format!(
                "the loss depends on candle's `{operation}`, whose gradient is wrong, so what comes before \
                 it learns something else; use `{instead}` (docs/candle-gradients.md)"
            ));
        }
        Ok(())
    }

    /// Runs the gradient audit, once, in the first iteration.
    fn audit(&mut self, gradients: &Gradients) -> Result<(), RunError> {
        if self.update.is_audited {
            return Ok(());
        }
        self.update.is_audited = true;
        let audit = gradients
            .audit(self.task.parameters())
            .map_err(|error| RunError::task("the gradient audit", &self.view, error))?;
        if let Some(warning) = audit.warning() {
            self.shared.warn(&warning);
        }
        match audit.problem(&self.plan.allow_missing_gradients) {
            Some(problem) => Err(RunError::Audit(problem)),
            None => Ok(()),
        }
    }

    /// Steps the parameters by the accumulated gradients, if there are any and no hook skips the update.
    fn update(&mut self) -> Result<(), RunError> {
        let Some(gradients) = self.update.accumulated.take() else {
            self.shared.requests.take_skip_update();
            return Ok(());
        };
        self.update.progress = UpdateProgress::Torn;
        self.shared.tensors.set_gradients(gradients);
        self.call(Point::BeforeUpdate)?;
        let Some(gradients) = self.shared.tensors.take_gradients() else {
            return Ok(());
        };
        if self.shared.requests.take_skip_update() {
            return Ok(());
        }
        let groups = self.shared.groups.borrow();
        self.optimizer.groups_mut().follow(&groups);
        drop(groups);
        let start = Instant::now();
        let step = self.optimizer.step(self.task.parameters(), &gradients);
        self.timing.pass.update += start.elapsed();
        step.map_err(|error| RunError::optimizer(&self.view, error))?;
        self.update.progress = UpdateProgress::Stepped;
        self.view.update += 1;
        if self.optimizer.tensor_count() != self.shared.tensors.optimizer_count() {
            self.show_optimizer();
        }
        self.call(Point::AfterUpdate)
    }
}

/// The value of a scalar tensor of any float type.
fn scalar(tensor: &Tensor) -> candle_core::Result<f64> {
    use candle_core::DType;
    match tensor.dtype() {
        DType::F32 => tensor.to_scalar::<f32>().map(f64::from),
        _ => tensor.to_dtype(DType::F64)?.to_scalar::<f64>(),
    }
}
