//! Steps of the parameters, after the backward pass or during it.
//!
//! During the backward pass a parameter is stepped as soon as its gradient is complete. The gradient is then still in cache,
//! and its memory serves for the next one: no two large gradients exist at the same time. The results have the same bits as
//! with an update after the backward pass, which is left only to those who can tell the difference: hooks that see or change
//! gradients, or may skip the update, sums over batches and ranks, and checks of all gradients.

use std::time::{Duration, Instant};

use candle_core::Tensor;
use sconce_lifecycle::Position;

use crate::bridge::BridgeState;
use crate::gradients::Gradients;
use crate::nn::ops;
use crate::optim::Optimizer;
use crate::parameters::Parameters;
use crate::run::RunError;
use crate::run::timing::profile::PassTimes;

/// Steps parameters with an optimizer.
pub(in crate::run) struct Stepper<'run> {
    pub(in crate::run) optimizer: &'run mut dyn Optimizer,
}

impl Stepper<'_> {
    /// Makes the optimizer's tensors visible to hooks.
    pub(in crate::run) fn show(&self, parameters: &Parameters, shared: &BridgeState<'_>) {
        (shared.tensors).set_optimizer(self.optimizer.tensors(parameters));
    }

    /// Gives the optimizer the learning rates and momenta that hooks have set.
    fn follow_groups(&mut self, shared: &BridgeState<'_>) {
        let groups = shared.optimizer.groups.borrow();
        self.optimizer.groups_mut().follow(&groups);
    }

    /// Steps the parameters by these gradients.
    pub(in crate::run) fn step(
        &mut self,
        gradients: &Gradients,
        parameters: &Parameters,
        shared: &BridgeState<'_>,
        position: &Position,
        times: &mut PassTimes,
    ) -> Result<(), RunError> {
        self.follow_groups(shared);
        let start = Instant::now();
        let step = self.optimizer.step(parameters, gradients);
        times.update += start.elapsed();
        step.map_err(|error| RunError::optimizer(position, error))?;
        if self.optimizer.tensor_count() != shared.tensors.optimizer_count() {
            self.show(parameters, shared);
        }
        Ok(())
    }

    /// Computes the gradients of a batch that is an update of its own, and steps each parameter by its gradient. The
    /// gradients are those of the loss times `factor`.
    pub(in crate::run) fn differentiate_and_step(
        &mut self,
        (loss, factor): (Tensor, f64),
        parameters: &Parameters,
        shared: &BridgeState<'_>,
        position: &Position,
        times: &mut PassTimes,
    ) -> Result<(), RunError> {
        self.follow_groups(shared);
        let optimizer = &mut *self.optimizer;
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
        times.backward += start.elapsed().saturating_sub(stepping);
        times.update += stepping;
        if let Some(error) = failure {
            return Err(RunError::optimizer(position, error));
        }
        let store = store.map_err(|error| RunError::task("the backward pass", position, error))?;
        // Those to which operations of candle's may contribute are complete only now.
        let gradients = Gradients::from_store(parameters, &store);
        drop(store);
        self.step(&gradients, parameters, shared, position, times)
    }
}
