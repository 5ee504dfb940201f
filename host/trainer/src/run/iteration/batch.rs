//! The work on one batch: forward pass, loss and metrics, backward pass, and the step of an update.

use std::time::Instant;

use candle_core::Tensor;
use candle_core::backprop::GradStore;
use sconce_plugin_api::{Phase, Point};

use super::measured::{self, BatchSums};
use super::staging::{Staging, StagingError};
use super::surroundings::Surroundings;
use super::update::is_weighed;
use crate::data::order::Sampler;
use crate::data::{Batch, Dataset, Loader};
use crate::gradients::{Gradients, Wrong, wrong_operations};
use crate::nn::ops::device;
use crate::nn::{Pass, ops};
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// The next batch of the pass, waiting until it is ready; `None` at the end.
    pub(in crate::run) fn load_batch(
        &mut self,
        batches: &mut Staging,
    ) -> Result<Option<Batch>, RunError> {
        let (start, waited) = (Instant::now(), device::waited());
        let batch = batches.next_batch();
        // That a GPU is behind is not the data's doing.
        let waited = device::waited().saturating_sub(waited);
        self.timing.pass.data += start.elapsed().saturating_sub(waited);
        batch.map_err(|error| match error {
            StagingError::Data(error) => RunError::data(&self.position, error),
            StagingError::Copy(error) => {
                RunError::task("copying a batch to the device", &self.position, error)
            }
        })
    }

    /// The order of the training samples in this epoch.
    pub(in crate::run) fn training_order(
        &mut self,
        data: &dyn Dataset,
    ) -> Result<Vec<u32>, RunError> {
        let sampler = match self.sampler.take() {
            Some(sampler) => sampler,
            None => Sampler::new(self.plan.sampling, data)
                .map_err(|error| RunError::data(&self.position, error))?,
        };
        let order = sampler.order(self.plan.seed, self.position.epoch);
        self.sampler = Some(sampler);
        Ok(order)
    }

    /// The batches of a loader, on the device of the parameters.
    pub(in crate::run) fn staged(&self, loader: Loader) -> Result<Staging, RunError> {
        let staged = Staging::new(loader, &self.device(), &self.uploaders);
        staged.map_err(|error| {
            RunError::task("preparing copies to the device", &self.position, error)
        })
    }

    /// Computes loss and metrics of a batch.
    pub(in crate::run) fn measure_batch(
        &mut self,
        batch: &Batch,
        outputs: &Tensor,
        phase: Phase,
    ) -> candle_core::Result<Tensor> {
        let around = Surroundings(self.shared);
        let mut pass = Pass::new(phase == Phase::Train)
            .at(self.moment())
            .within(&around);
        let loss = self.task.loss(batch, outputs, &mut pass)?;
        self.shared.tensors.show("loss".into(), &loss);
        if self.deferral.is_on {
            self.measure_deferred(batch, outputs, &loss, phase)?;
            return Ok(loss);
        }
        let value = scalar(&loss)?;
        self.position.pass.loss = Some(value);
        self.measured.measure(self.task, batch, outputs, value)?;
        self.update.of_batch = self.measured.loss_weight();
        Ok(loss)
    }

    /// Adds the measured batch to the metrics of its pass, or keeps it for all ranks.
    pub(in crate::run) fn count_measured(&mut self, phase: Phase) -> Result<(), Leave> {
        if self.deferral.is_on {
            return Ok(());
        }
        let measured = std::mem::take(&mut self.measured);
        let counted = self.count_batch(phase, &measured);
        self.measured = measured;
        counted
    }

    /// Adds batches to the metrics of a pass.
    pub(in crate::run) fn add_batches<'a>(
        &mut self,
        phase: Phase,
        batches: impl IntoIterator<Item = &'a BatchSums>,
    ) {
        let mut board = self.shared.metrics.borrow_mut();
        measured::add_batches(&mut board, self.task, &mut self.values, phase, batches);
    }

    fn count_batch(&mut self, phase: Phase, measured: &BatchSums) -> Result<(), Leave> {
        if self.ranks.is_none() {
            self.add_batches(phase, [measured]);
            return Ok(());
        }
        if phase != Phase::Train {
            if !self.keep_evaluated(phase, measured)? {
                self.add_batches(phase, [measured]);
            }
            return Ok(());
        }
        let round = self.position.round;
        let Some(ranks) = &mut self.ranks else {
            return Ok(());
        };
        let mut known = std::mem::take(&mut ranks.measured);
        let statistics = self.statistics.borrow().to_bytes();
        let statistics = statistics.map_err(|error| {
            RunError::task("recording batch norms' statistics", &self.position, error)
        })?;
        known.push(measured.of_batch(round.index, statistics));
        let mut board = self.shared.metrics.borrow_mut();
        measured::show_with(&mut board, self.task, &mut self.values, phase, &known);
        drop(board);
        if round.is_repeated {
            known.pop();
        }
        if let Some(ranks) = &mut self.ranks {
            ranks.measured = known;
        }
        Ok(())
    }

    /// Computes the gradients of a batch and makes them visible; or, where no hook and no check is in between, steps each
    /// parameter as soon as its gradient is complete.
    pub(in crate::run) fn differentiate_or_step(
        &mut self,
        batch: &Batch,
        loss: Tensor,
        fraction: f64,
    ) -> Result<(), Leave> {
        self.check_loss(batch)?;
        self.warn_of_wrong_gradients(batch, &loss)?;
        if self.may_step_early() {
            return Ok(self.differentiate_and_step(loss, fraction)?);
        }
        let start = Instant::now();
        let store = self.gradient_store(loss, fraction);
        self.timing.pass.backward += start.elapsed();
        let store =
            store.map_err(|error| RunError::task("the backward pass", &self.position, error))?;
        if !self.records.is_empty() {
            if self.position.pass.loss_waits {
                self.read_loss_for(Point::ModuleBackward)?;
            }
            self.call_module_backward(&store)?;
        }
        let gradients = Gradients::from_store(self.task.parameters(), &store);
        drop(store);
        self.check_gradients(&gradients, batch)?;
        self.audit(&gradients)?;
        self.shared.tensors.set_gradients(gradients);
        Ok(())
    }

    /// Computes the gradients of the batch's fraction of its update.
    fn gradient_store(&self, loss: Tensor, fraction: f64) -> candle_core::Result<GradStore> {
        let factor = self.loss_factor(fraction);
        ops::backward_giving(loss, factor, |_, gradient| Ok(Some(gradient)))
    }

    /// The factor of a batch's loss: its fraction of the update's samples, or of their weight before it is divided by
    /// the mean, times the loss scale requested by hooks.
    pub(in crate::run) fn loss_factor(&self, fraction: f64) -> f64 {
        let fraction = if self.weighs_update() {
            self.update.of_batch.factor(fraction)
        } else {
            fraction
        };
        fraction * self.shared.requests.take_loss_scale()
    }

    /// Runs the first part of the gradient audit, once, before the first backward pass. It finds operations
    /// of candle that have wrong gradients.
    fn warn_of_wrong_gradients(&self, batch: &Batch, loss: &Tensor) -> Result<(), RunError> {
        if self.update.is_audited {
            return Ok(());
        }
        let found = wrong_operations(loss, &batch.inputs, &ops::recorded())
            .map_err(|error| RunError::task("the gradient audit", &self.position, error))?;
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
            .map_err(|error| RunError::task("the gradient audit", &self.position, error))?;
        if let Some(warning) = audit.warning() {
            self.shared.warn(&warning);
        }
        match audit.problem(&self.plan.allow_missing_gradients) {
            Some(problem) => Err(RunError::Audit(problem)),
            None => Ok(()),
        }
    }

    /// Adds the visible gradients to those of the batch's update.
    pub(in crate::run) fn accumulate_gradients(&mut self) -> Result<(), RunError> {
        let Some(gradients) = self.shared.tensors.take_gradients() else {
            return Ok(());
        };
        let round = self.position.round;
        if round.is_repeated {
            return Ok(());
        }
        if self.weighs_update() && self.ranks.is_none() {
            self.update.weight.add(self.update.of_batch);
        }
        let added = self.update.accumulated.add(round.index, gradients);
        added.map_err(|error| RunError::task("adding gradients up", &self.position, error))
    }

    /// Takes the sum of the update's gradients out, of all ranks; `None` if no batch has any.
    pub(in crate::run) fn take_gradient_sum(&mut self) -> Result<Option<Gradients>, Leave> {
        let sum = if self.ranks.is_some() {
            self.joint_gradients()?
        } else {
            let sum = self.update.accumulated.take_sum();
            sum.map_err(|error| RunError::task("adding gradients up", &self.position, error))?
        };
        let weight = std::mem::take(&mut self.update.weight);
        let Some(mut gradients) = sum else {
            return Ok(None);
        };
        if self.weighs_update() {
            let normalised = weight.normalise(&mut gradients);
            normalised
                .map_err(|error| RunError::task("weighting gradients", &self.position, error))?;
        }
        Ok(Some(gradients))
    }

    /// Whether batches of the update in progress are weighted by what their losses count.
    pub(in crate::run) fn weighs_update(&self) -> bool {
        is_weighed(self.task, &self.position.update_batches)
    }

    /// Steps the parameters by the visible gradients.
    pub(in crate::run) fn step_parameters(
        &mut self,
        gradients: &Gradients,
    ) -> Result<(), RunError> {
        self.follow_groups();
        let start = Instant::now();
        let step = self.optimizer.step(self.task.parameters(), gradients);
        self.timing.pass.update += start.elapsed();
        step.map_err(|error| RunError::optimizer(&self.position, error))?;
        if self.optimizer.tensor_count() != self.shared.tensors.optimizer_count() {
            self.show_optimizer();
        }
        Ok(())
    }

    /// Gives the optimizer the learning rates and momenta that hooks have set.
    pub(in crate::run) fn follow_groups(&mut self) {
        let groups = self.shared.groups.borrow();
        self.optimizer.groups_mut().follow(&groups);
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
