//! The work on one batch that needs several parts of the trainer: loss and metrics, gradients, and the sum of an update's.

use std::time::Instant;

use candle_core::Tensor;
use sconce_lifecycle::Consistency;
use sconce_plugin_api::{Phase, Point};

use super::finite::FiniteCheck;
use super::measures::ComputedBatch;
use super::modules::Listeners;
use super::statistics;
use super::surroundings::Surroundings;
use super::update::Update;
use crate::data::Batch;
use crate::gradients::Gradients;
use crate::nn::{Pass, ops};
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// Computes loss and metrics of a batch.
    pub(in crate::run) fn measure_batch(
        &mut self,
        batch: &Batch,
        outputs: &Tensor,
    ) -> candle_core::Result<Tensor> {
        let around = Surroundings(self.shared);
        let mut pass = Pass::new(self.position.phase == Phase::Train)
            .at(self.forward.key(&self.position))
            .within(&around);
        let loss = self.task.loss(batch, outputs, &mut pass)?;
        self.shared.tensors.show("loss".into(), &loss);
        let computed = ComputedBatch {
            batch,
            outputs,
            loss: &loss,
        };
        self.update.of_batch =
            (self.measures).measure(computed, self.task, &mut self.position, self.shared)?;
        Ok(loss)
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
        (self.update).warn_of_wrong_gradients(batch, &loss, &self.position, self.shared)?;
        let may_step_early = self.may_step_early();
        if may_step_early {
            self.position.consistency = Consistency::Torn;
        }
        // Its fraction of the update, times the loss scale requested by hooks.
        let is_weighed = Update::is_weighed(self.task, &self.position);
        let factor =
            self.update.factor(fraction, is_weighed) * self.shared.requests.take_loss_scale();
        let parameters = self.task.parameters();
        if may_step_early {
            (self.stepper).differentiate_and_step(
                (loss, factor),
                parameters,
                self.shared,
                &self.position,
                &mut self.timing.pass,
            )?;
            self.update.is_stepped = true;
            return Ok(());
        }
        let start = Instant::now();
        let store = ops::backward_giving(loss, factor, |_, gradient| Ok(Some(gradient)));
        self.timing.pass.backward += start.elapsed();
        let store =
            store.map_err(|error| RunError::task("the backward pass", &self.position, error))?;
        if self.forward.has_records() {
            if self.position.pass.loss_waits {
                self.read_loss_for(Point::ModuleBackward)?;
            }
            let mut listeners = Listeners {
                hooks: &mut self.hooks,
                position: &self.position,
                shared: self.shared,
            };
            self.forward.call_backward(&store, &mut listeners)?;
        }
        let gradients = Gradients::from_store(self.task.parameters(), &store);
        drop(store);
        if self.plan.check_finite {
            let is_on_device = self.measures.deferral.is_apart;
            (self.finite_check()).check_gradients(&gradients, batch, is_on_device)?;
        }
        let allowed = &self.plan.allow_missing_gradients;
        let parameters = self.task.parameters();
        (self.update).audit(&gradients, parameters, allowed, &self.position, self.shared)?;
        self.shared.tensors.set_gradients(gradients);
        Ok(())
    }

    /// Whether this batch's gradients can be used up one after the other.
    fn may_step_early(&self) -> bool {
        let sees = |point| self.hooks.is_subscribed(point, Phase::Train);
        let is_alone = self.position.pass.updates && self.update.accumulated.is_empty();
        // On a device a step of all parameters at once is faster than one for each.
        is_alone
            && !self.measures.deferral.is_apart
            && self.update.is_audited
            && self.ranks.is_none()
            && !self.plan.check_finite
            && !Update::is_weighed(self.task, &self.position)
            && !self.shared.requests.skips_update()
            && !sees(Point::ModuleBackward)
            && !sees(Point::AfterBackward)
            && !sees(Point::BeforeUpdate)
    }

    /// Rejects a training loss that is not finite, or warns about the first one. One that is still on a device is looked at
    /// when it is read, or with the gradients.
    fn check_loss(&mut self, batch: &Batch) -> Result<(), RunError> {
        let Some(loss) = self.position.pass.loss else {
            return Ok(());
        };
        if self.plan.check_finite && !loss.is_finite() {
            let what = format!("the loss is {loss}");
            return Err(self.finite_check().explain(what, batch));
        }
        if !loss.is_finite() || self.measures.losses.first.is_none() {
            (self.measures).note_loss(loss, &self.position, self.shared);
        }
        Ok(())
    }

    fn finite_check(&mut self) -> FiniteCheck<'_, '_> {
        FiniteCheck {
            key: self.forward.key(&self.position),
            task: self.task,
            shared: self.shared,
            position: &mut self.position,
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
        // On several ranks the weights come with what they have measured.
        let is_weighed = self.ranks.is_none() && Update::is_weighed(self.task, &self.position);
        let added = self.update.add(round.index, gradients, is_weighed);
        added.map_err(|error| RunError::task("adding gradients up", &self.position, error))
    }

    /// Takes the sum of the update's gradients out, of all ranks; `None` if no batch has any.
    pub(in crate::run) fn take_gradient_sum(&mut self) -> Result<Option<Gradients>, RunError> {
        let position = &self.position;
        let failed = |doing| move |error| RunError::task(doing, position, error);
        let sum = if let Some(ranks) = &mut self.ranks {
            let own = self.update.accumulated.take();
            let all = ranks.sum_update(&own, self.task.parameters(), position)?;
            for batch in &all.measured {
                self.update.weight.add(batch.loss_weight());
            }
            statistics::apply(&self.forward.statistics, &all.statistics)
                .map_err(failed("tracking batch norms' statistics"))?;
            (self.measures).add(Phase::Train, &all.measured, self.task, self.shared);
            all.gradients
        } else {
            let sum = self.update.accumulated.take_sum();
            sum.map_err(failed("adding gradients up"))?
        };
        let weight = std::mem::take(&mut self.update.weight);
        let Some(mut gradients) = sum else {
            return Ok(None);
        };
        if Update::is_weighed(self.task, position) {
            let normalised = weight.normalise(&mut gradients);
            normalised.map_err(failed("weighting gradients"))?;
        }
        Ok(Some(gradients))
    }
}
