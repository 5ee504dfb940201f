//! Steps of parameters during the backward pass.
//!
//! A parameter is stepped as soon as its gradient is complete. The gradient is then still in cache, and its memory serves
//! for the next one: no two large gradients exist at the same time. The results have the same bits as with an update after
//! the backward pass, which is left only to those who can tell the difference: hooks that see or change gradients, or may
//! skip the update, sums over batches and ranks, and checks of all gradients.

use std::time::{Duration, Instant};

use candle_core::Tensor;
use sconce_lifecycle::Consistency;
use sconce_plugin_api::{Phase, Point};

use crate::gradients::Gradients;
use crate::nn::ops;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// Whether this batch's gradients can be used up one after the other.
    pub(in crate::run) fn may_step_early(&self) -> bool {
        let sees = |point| self.hooks.is_subscribed(point, Phase::Train);
        let is_alone = self.position.pass.updates && self.update.accumulated.is_empty();
        // On a device a step of all parameters at once is faster than one for each.
        is_alone
            && !self.deferral.is_apart
            && self.update.is_audited
            && self.ranks.is_none()
            && !self.plan.check_finite
            && !self.weighs_update()
            && !self.shared.requests.skips_update()
            && !sees(Point::ModuleBackward)
            && !sees(Point::AfterBackward)
            && !sees(Point::BeforeUpdate)
    }

    /// Computes the gradients of a batch that is an update of its own, and steps each parameter by its gradient.
    pub(in crate::run) fn differentiate_and_step(
        &mut self,
        loss: Tensor,
        fraction: f64,
    ) -> Result<(), RunError> {
        self.follow_groups();
        self.position.consistency = Consistency::Torn;
        let factor = self.loss_factor(fraction);
        let (parameters, optimizer) = (self.task.parameters(), &mut *self.optimizer);
        let (mut stepping, mut failure) = (Duration::ZERO, None);
        let start = Instant::now();
        let store = ops::backward_giving(loss, factor, |variable, gradient| {
            let Some(index) = parameters.index_of_variable(variable) else {
                return Ok(Some(gradient));
            };
            let start = Instant::now();
            let stepped = optimizer.step_one(parameters, index, &gradient);
            stepping += start.elapsed();
            stepped.map_err(|error| {
                let message = candle_core::Error::Msg(error.to_string());
                failure = Some(error);
                message
            })?;
            Ok(None)
        });
        self.timing.pass.backward += start.elapsed().saturating_sub(stepping);
        self.timing.pass.update += stepping;
        if let Some(error) = failure {
            return Err(RunError::optimizer(&self.position, error));
        }
        let store =
            store.map_err(|error| RunError::task("the backward pass", &self.position, error))?;
        // Those to which operations of candle's may contribute are complete only now.
        let gradients = Gradients::from_store(parameters, &store);
        drop(store);
        self.step_parameters(&gradients)?;
        self.update.is_stepped = true;
        Ok(())
    }
}
