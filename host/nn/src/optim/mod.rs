//! Optimizers: in-place updates in one pass over each parameter, with a named state.
//!
//! candle's own optimizers make a dozen temporaries per parameter and hide their moments, so that a
//! run could not be resumed.
#![allow(
    clippy::inline_always,
    reason = "what loops call must become part of them for each set of instructions"
)]

mod adam;
mod config;
mod elements;
mod error;
mod lion;
mod moment_storage;
mod moments;
mod narrow;
#[cfg(test)]
mod narrow_tests;
#[cfg(test)]
mod reference_tests;
mod rmsprop;
mod rule;
mod sgd;
mod sweep;
#[cfg(test)]
mod tests;

use candle_core::Tensor;

pub use adam::{Adam, AdamRule, AdamW};
pub use config::OptimizerConfig;
pub use error::OptimizerError;
pub use lion::{Lion, LionRule};
pub use moment_storage::MomentStorage;
pub use rmsprop::{RmsProp, RmsPropRule};
pub use rule::RuleOptimizer;
pub use sconce_parameters::groups::{DEFAULT_GROUP, GroupConfig, Groups, ParameterGroup};
pub use sgd::{Sgd, SgdRule};

use crate::gradients::Gradients;
use crate::parameters::Parameters;

/// An optimizer, which updates parameters by their gradients.
pub trait Optimizer {
    /// Performs one step. Frozen parameters and those without a gradient are left unchanged.
    fn step(
        &mut self,
        parameters: &Parameters,
        gradients: &Gradients,
    ) -> Result<(), OptimizerError> {
        #[cfg(feature = "cuda")]
        let launch = sconce_ops::cuda::optimizers::Launch::begin();
        for index in 0..parameters.len() {
            if let Some(gradient) = gradients.at(index) {
                self.step_one(parameters, index, gradient)?;
            }
        }
        #[cfg(feature = "cuda")]
        launch.finish().map_err(|source| OptimizerError::Step {
            parameter: "all parameters".to_owned(),
            source,
        })?;
        Ok(())
    }

    /// Performs a step of the registry's entry at `index` alone, unless it is frozen. Whether a step is done at once or
    /// for one parameter after the other, in any order, makes no difference to the results.
    fn step_one(
        &mut self,
        parameters: &Parameters,
        index: usize,
        gradient: &Tensor,
    ) -> Result<(), OptimizerError>;

    /// Returns the parameter groups, with their learning rates.
    fn groups(&self) -> &Groups;

    /// Returns the parameter groups for changes, which apply from the next step on.
    fn groups_mut(&mut self) -> &mut Groups;

    /// Returns the learning rate of the default group.
    fn learning_rate(&self) -> f64 {
        self.groups().default().learning_rate
    }

    /// Sets the learning rate of all groups from the next step on.
    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.groups_mut().set_learning_rate(learning_rate);
    }

    /// Whether its groups have an adjustable momentum (or first beta).
    fn has_momentum(&self) -> bool {
        true
    }

    /// Returns the number of [`tensors`](Optimizer::tensors), which grows at the first step of each
    /// parameter.
    fn tensor_count(&self) -> usize;

    /// Returns the moments by name, e.g. `fc1.weight.exp_avg`, in the type in which they are stored, sharing their storage: hooks see
    /// these.
    fn tensors(&self, parameters: &Parameters) -> Vec<(String, Tensor)>;

    /// Returns a copy of the state by name: for each parameter stepped so far, its number of steps, e.g.
    /// `fc1.weight.step` (an i64 scalar), and its moments, e.g. `fc1.weight.exp_avg`, in its shape, as they are stored.
    fn state(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, OptimizerError>;

    /// Restores a result of [`state`](Optimizer::state): every name must be known and have the
    /// parameter's shape, and none may be missing. After an error the state is unchanged.
    fn load_state(
        &mut self,
        parameters: &Parameters,
        state: &[(String, Tensor)],
    ) -> Result<(), OptimizerError>;
}
