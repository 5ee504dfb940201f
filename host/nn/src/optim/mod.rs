//! Optimizers: in place, one pass over each parameter, with a state that has names.
//!
//! candle's own make a dozen temporaries per parameter and hide their moments, so that a run could
//! not be resumed.
#![allow(
    clippy::inline_always,
    reason = "what loops call must become part of them for each set of instructions"
)]

mod adam;
mod adamw;
mod config;
mod error;
mod groups;
mod lion;
mod moments;
#[cfg(test)]
mod reference_tests;
mod rmsprop;
mod rule;
mod sgd;
mod sweep;
#[cfg(test)]
mod tests;

use candle_core::Tensor;

pub use adam::Adam;
pub use adamw::AdamW;
pub use config::OptimizerConfig;
pub use error::Error;
pub use groups::{DEFAULT_GROUP, Group, GroupConfig, Groups};
pub use lion::Lion;
pub use rmsprop::RmsProp;
pub use sgd::Sgd;

use crate::gradients::Gradients;
use crate::parameters::Parameters;

/// Steps parameters by their gradients.
pub trait Optimizer {
    /// One step. Parameters without a gradient and frozen ones stay as they are.
    fn step(&mut self, parameters: &Parameters, gradients: &Gradients) -> Result<(), Error>;

    /// The parameter groups, with their learning rates.
    fn groups(&self) -> &Groups;

    /// The parameter groups, to be changed from the next step on.
    fn groups_mut(&mut self) -> &mut Groups;

    /// The learning rate of the default group.
    fn learning_rate(&self) -> f64 {
        self.groups().default().learning_rate
    }

    /// Sets the learning rate of all groups from the next step on.
    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.groups_mut().set_learning_rate(learning_rate);
    }

    /// Whether its groups have a momentum (or first beta) that can be set.
    fn has_momentum(&self) -> bool {
        true
    }

    /// How many tensors [`tensors`](Optimizer::tensors) has: they grow in number with the first step
    /// of each parameter.
    fn tensor_count(&self) -> usize;

    /// The moments by name, as `fc1.weight.exp_avg`, where they lie: what hooks see.
    fn tensors(&self, parameters: &Parameters) -> Vec<(String, Tensor)>;

    /// A copy of the state by name: for each parameter stepped so far, as `fc1.weight.step`, the number of its
    /// steps (an i64 scalar), and its moments, as `fc1.weight.exp_avg`, in its own shape and type.
    fn state(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, Error>;

    /// Restores what [`state`](Optimizer::state) gave: every name must be known and of the
    /// parameter's shape, and none may be missing. After an error the state is what it was.
    fn load_state(
        &mut self,
        parameters: &Parameters,
        state: &[(String, Tensor)],
    ) -> Result<(), Error>;
}
