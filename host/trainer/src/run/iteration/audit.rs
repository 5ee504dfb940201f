//! The gradient audit: in the first iteration, whether all parameters can learn.

use candle_core::Tensor;
use sconce_lifecycle::Position;

use super::update::Update;
use crate::bridge::BridgeState;
use crate::data::Batch;
use crate::gradients::{Gradients, Wrong, wrong_operations};
use crate::nn::ops;
use crate::parameters::Parameters;
use crate::run::RunError;

impl Update {
    /// Runs the first part of the gradient audit, once, before the first backward pass. It finds operations
    /// of candle that have wrong gradients.
    pub(in crate::run) fn warn_of_wrong_gradients(
        &self,
        batch: &Batch,
        loss: &Tensor,
        position: &Position,
        log: &BridgeState<'_>,
    ) -> Result<(), RunError> {
        if self.is_audited {
            return Ok(());
        }
        let found = wrong_operations(loss, &batch.inputs, &ops::recorded())
            .map_err(|error| RunError::task("the gradient audit", position, error))?;
        for Wrong { operation, instead } in found {
            log.warn(&format!(
                "the loss depends on candle's `{operation}`, whose gradient is wrong, so what comes before \
                 it learns something else; use `{instead}` (docs/candle-gradients.md)"
            ));
        }
        Ok(())
    }

    /// Runs the gradient audit, once, in the first iteration. `allowed` are patterns of parameters that may have no
    /// gradients.
    pub(in crate::run) fn audit(
        &mut self,
        gradients: &Gradients,
        parameters: &Parameters,
        allowed: &[String],
        position: &Position,
        log: &BridgeState<'_>,
    ) -> Result<(), RunError> {
        if self.is_audited {
            return Ok(());
        }
        self.is_audited = true;
        let audit = gradients
            .audit(parameters)
            .map_err(|error| RunError::task("the gradient audit", position, error))?;
        if let Some(warning) = audit.warning() {
            log.warn(&warning);
        }
        match audit.problem(allowed) {
            Some(problem) => Err(RunError::Audit(problem)),
            None => Ok(()),
        }
    }
}
