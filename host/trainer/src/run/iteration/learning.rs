//! What a run learns with: the work on one batch, from its forward pass to the step of the parameters.

use std::time::Instant;

use candle_core::Tensor;
use sconce_lifecycle::{Consistency, Position};
use sconce_plugin_api::{Phase, Point};

use super::finite::FiniteCheck;
use super::measures::{ComputedBatch, Measures};
use super::modules::{Forward, Listeners};
use super::statistics;
use super::stepper::Stepper;
use super::surroundings::Surroundings;
use super::update::Update;
use crate::bridge::BridgeState;
use crate::data::Batch;
use crate::dispatch::Dispatcher;
use crate::gradients::Gradients;
use crate::nn::ops::device::timeline;
use crate::nn::{Pass, ops};
use crate::optim::Optimizer;
use crate::run::ranks::state::Ranks;
use crate::run::timing::profile::PassTimes;
use crate::run::{RunError, TrainingPlan};
use crate::task::Task;

/// The state of learning: what the passes over batches have left for the next ones.
pub(in crate::run) struct Learning<'run> {
    pub(in crate::run) forward: Forward,
    pub(in crate::run) measures: Measures,
    pub(in crate::run) update: Update,
    pub(in crate::run) stepper: Stepper<'run>,
    /// Whether a hook has given the loss of the last batch.
    is_loss_given: bool,
}

/// What the work on a batch is given of the run around it.
pub(in crate::run) struct RunContext<'a, 'run> {
    pub(in crate::run) task: &'a mut dyn Task,
    pub(in crate::run) hooks: &'a mut Dispatcher,
    pub(in crate::run) shared: &'a BridgeState<'run>,
    pub(in crate::run) position: &'a mut Position,
    pub(in crate::run) plan: &'a TrainingPlan,
    pub(in crate::run) ranks: Option<&'a mut Ranks>,
    pub(in crate::run) times: &'a mut PassTimes,
}

impl<'run> RunContext<'_, 'run> {
    fn failed(&self, doing: &'static str) -> impl Fn(candle_core::Error) -> RunError {
        move |error| RunError::task(doing, self.position, error)
    }

    fn listeners(&mut self) -> Listeners<'_, 'run> {
        Listeners {
            hooks: self.hooks,
            position: self.position,
            shared: self.shared,
        }
    }
}

impl<'run> Learning<'run> {
    /// Before the first batch.
    pub(in crate::run) fn new(
        task: &dyn Task,
        optimizer: &'run mut dyn Optimizer,
        plan: &TrainingPlan,
    ) -> Self {
        Learning {
            forward: Forward::new(task.modules(), plan.seed),
            measures: Measures::new(task, plan.check_finite),
            update: Update::default(),
            stepper: Stepper { optimizer },
            is_loss_given: false,
        }
    }

    /// Runs the forward pass of a batch and makes its outputs visible, unless they are left to the loss, as no hook may read them.
    pub(in crate::run) fn outputs(
        &mut self,
        batch: &Batch,
        run: &mut RunContext<'_, '_>,
    ) -> Result<Tensor, RunError> {
        let _span = timeline::span("forward");
        let is_read = run.hooks.may_read_outputs(run.position.phase);
        let for_loss = !is_read && !self.measures.deferral.is_on;
        let listeners = Listeners {
            hooks: run.hooks,
            position: run.position,
            shared: run.shared,
        };
        let ranks = run.ranks.as_deref();
        let batch = (batch, for_loss);
        let outputs = (self.forward).outputs(batch, run.task, ranks, listeners, run.times)?;
        if !self.forward.has_left_outputs {
            run.shared.tensors.set_outputs(&outputs);
        }
        Ok(outputs)
    }

    /// Computes loss and metrics of a batch, and adds them to those of its pass.
    pub(in crate::run) fn measure(
        &mut self,
        batch: &Batch,
        outputs: &Tensor,
        run: &mut RunContext<'_, '_>,
    ) -> Result<Tensor, RunError> {
        let start = Instant::now();
        let span = timeline::span("loss");
        let loss = self.compute_loss(batch, outputs, run);
        drop(span);
        run.times.loss += start.elapsed();
        let loss = loss.map_err(run.failed("the loss"))?;
        let (ranks, statistics) = (run.ranks.as_deref_mut(), &self.forward.statistics);
        (self.measures).count(run.task, run.position, run.shared, ranks, statistics)?;
        Ok(loss)
    }

    fn compute_loss(
        &mut self,
        batch: &Batch,
        outputs: &Tensor,
        run: &mut RunContext<'_, '_>,
    ) -> candle_core::Result<Tensor> {
        let around = Surroundings(run.shared);
        let mut pass = Pass::new(run.position.phase == Phase::Train)
            .at(self.forward.key(run.position))
            .within(&around);
        let given = run.shared.model.given_losses.take(outputs)?;
        self.is_loss_given = given.is_some();
        let loss = match given {
            Some(given) => given,
            None => run.task.loss(batch, outputs, &mut pass)?,
        };
        run.shared.tensors.show("loss".into(), &loss);
        let computed = ComputedBatch {
            batch,
            outputs,
            loss: &loss,
        };
        self.update.of_batch =
            (self.measures).measure(computed, run.task, run.position, run.shared)?;
        Ok(loss)
    }

    /// Computes the gradients of a batch and makes them visible; or, where no hook and no check is in between, steps each
    /// parameter as soon as its gradient is complete.
    pub(in crate::run) fn differentiate_or_step(
        &mut self,
        batch: &Batch,
        loss: Tensor,
        fraction: f64,
        run: &mut RunContext<'_, '_>,
    ) -> Result<(), RunError> {
        let _span = timeline::span("backward");
        self.check_loss(batch, run)?;
        (self.update).warn_of_wrong_gradients(batch, &loss, run.position, run.shared)?;
        // Its fraction of the update, times the loss scale requested by hooks.
        let is_weighed = Update::is_weighed(run.task, run.position);
        let factor =
            self.update.factor(fraction, is_weighed) * run.shared.requests.take_loss_scale();
        if self.may_step_early(run) {
            run.position.consistency = Consistency::Torn;
            (self.stepper).differentiate_and_step(
                (loss, factor),
                run.task.parameters(),
                run.shared,
                run.position,
                run.times,
            )?;
            self.update.is_stepped = true;
            return Ok(());
        }
        self.differentiate(batch, loss, factor, run)
    }

    /// Whether this batch's gradients can be used up one after the other.
    fn may_step_early(&self, run: &RunContext<'_, '_>) -> bool {
        let sees = |point| run.hooks.is_subscribed(point, Phase::Train);
        let is_alone = run.position.pass.updates && self.update.accumulated.is_empty();
        // On a device a step of all parameters at once is faster than one for each.
        is_alone
            && !self.measures.deferral.is_apart
            && self.update.is_audited
            && run.ranks.is_none()
            && !run.plan.check_finite
            && !Update::is_weighed(run.task, run.position)
            && !run.shared.requests.skips_update()
            && !sees(Point::ModuleBackward)
            && !sees(Point::AfterBackward)
            && !sees(Point::BeforeUpdate)
    }

    /// Computes the gradients of the loss times `factor`, checks them, and makes them visible.
    fn differentiate(
        &mut self,
        batch: &Batch,
        loss: Tensor,
        factor: f64,
        run: &mut RunContext<'_, '_>,
    ) -> Result<(), RunError> {
        let start = Instant::now();
        let store = ops::backward_giving(loss, factor, |_, gradient| Ok(Some(gradient)));
        run.times.backward += start.elapsed();
        let store = store.map_err(run.failed("the backward pass"))?;
        if self.forward.has_records() {
            let waits = run.position.pass.loss_waits;
            if waits && run.hooks.needs_loss(Point::ModuleBackward, run.position) {
                self.measures.settle(run.position, run.shared)?;
            }
            self.forward.call_backward(&store, &mut run.listeners())?;
        }
        let gradients = Gradients::from_store(run.task.parameters(), &store);
        drop(store);
        if run.plan.check_finite {
            let is_on_device = self.measures.deferral.is_apart;
            (self.finite_check(run)).check_gradients(&gradients, batch, is_on_device)?;
        }
        let (parameters, allowed) = (run.task.parameters(), &run.plan.allow_missing_gradients);
        (self.update).audit(&gradients, parameters, allowed, run.position, run.shared)?;
        run.shared.tensors.set_gradients(gradients);
        Ok(())
    }

    /// Rejects a training loss that is not finite, or warns about the first one. One that is still on a device is looked at
    /// when it is read, or with the gradients.
    fn check_loss(&mut self, batch: &Batch, run: &mut RunContext<'_, '_>) -> Result<(), RunError> {
        let Some(loss) = run.position.pass.loss else {
            return Ok(());
        };
        if run.plan.check_finite && !loss.is_finite() {
            let what = format!("the loss is {loss}");
            return Err(self.finite_check(run).explain(what, batch));
        }
        if !loss.is_finite() || self.measures.losses.first.is_none() {
            (self.measures).note_loss(loss, run.position, run.shared);
        }
        Ok(())
    }

    fn finite_check<'a, 'run_state>(
        &self,
        run: &'a mut RunContext<'_, 'run_state>,
    ) -> FiniteCheck<'a, 'run_state> {
        FiniteCheck {
            key: self.forward.key(run.position),
            is_loss_given: self.is_loss_given,
            task: run.task,
            shared: run.shared,
            position: run.position,
        }
    }

    /// Adds the visible gradients to those of the batch's update.
    pub(in crate::run) fn accumulate(&mut self, run: &RunContext<'_, '_>) -> Result<(), RunError> {
        let Some(gradients) = run.shared.tensors.take_gradients() else {
            return Ok(());
        };
        let round = run.position.round;
        if round.is_repeated {
            return Ok(());
        }
        // On several ranks the weights come with what they have measured.
        let is_weighed = run.ranks.is_none() && Update::is_weighed(run.task, run.position);
        let added = self.update.add(round.index, gradients, is_weighed);
        added.map_err(run.failed("adding gradients up"))
    }

    /// Takes the sum of the update's gradients out, of all ranks; `None` if no batch has any.
    pub(in crate::run) fn take_gradient_sum(
        &mut self,
        run: &mut RunContext<'_, '_>,
    ) -> Result<Option<Gradients>, RunError> {
        let sum = if let Some(ranks) = run.ranks.as_deref_mut() {
            let own = self.update.accumulated.take();
            let all = ranks.sum_update(&own, run.task.parameters(), run.position)?;
            for batch in &all.measured {
                self.update.weight.add(batch.loss_weight());
            }
            statistics::apply(&self.forward.statistics, &all.statistics)
                .map_err(run.failed("tracking batch norms' statistics"))?;
            (self.measures).add(Phase::Train, &all.measured, run.task, run.shared);
            all.gradients
        } else {
            let sum = self.update.accumulated.take_sum();
            sum.map_err(run.failed("adding gradients up"))?
        };
        let weight = std::mem::take(&mut self.update.weight);
        let Some(mut gradients) = sum else {
            return Ok(None);
        };
        if Update::is_weighed(run.task, run.position) {
            let normalised = weight.normalise(&mut gradients);
            normalised.map_err(run.failed("weighting gradients"))?;
        }
        Ok(Some(gradients))
    }

    /// Steps the parameters by the visible gradients, if there are any and the step is not skipped; says whether it did.
    pub(in crate::run) fn step(
        &mut self,
        is_skipped: bool,
        run: &mut RunContext<'_, '_>,
    ) -> Result<bool, RunError> {
        if std::mem::take(&mut self.update.is_stepped) {
            return Ok(true);
        }
        let gradients = run.shared.tensors.take_gradients();
        let Some(gradients) = gradients.filter(|_| !is_skipped) else {
            return Ok(false);
        };
        run.position.consistency = Consistency::Torn;
        let _span = timeline::span("update");
        let parameters = run.task.parameters();
        (self.stepper).step(&gradients, parameters, run.shared, run.position, run.times)?;
        Ok(true)
    }
}
