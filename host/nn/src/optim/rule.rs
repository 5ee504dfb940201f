//! Common implementation of most optimizers: a sweep over each parameter that has a gradient, with
//! moments that start as zeros.

use candle_core::Tensor;

use super::moments::Moments;
use super::sweep::{Sweep, sweep};
use super::{Groups, Optimizer, OptimizerError, ParameterGroup};
use crate::parameters::Parameters;

/// An optimizer that is fully defined by its sweep.
pub(super) trait SweepRule {
    /// Returns its groups and moments.
    fn parts(&self) -> (&Groups, &Moments);

    /// Returns its groups and moments, mutable.
    fn parts_mut(&mut self) -> (&mut Groups, &mut Moments);

    /// Whether it has an adjustable momentum.
    fn has_momentum(&self) -> bool {
        true
    }

    /// Returns the sweep over a parameter of this group for its step number `count`, from 1.
    fn sweep(&self, group: &ParameterGroup, count: f64) -> impl Sweep + use<Self>;
}

impl<R: SweepRule> Optimizer for R {
    fn step_one(
        &mut self,
        parameters: &Parameters,
        index: usize,
        gradient: &Tensor,
    ) -> Result<(), OptimizerError> {
        let trained = parameters.at(index).filter(|entry| entry.is_trainable());
        let Some(parameter) = trained else {
            return Ok(());
        };
        let failed = |source| OptimizerError::Step {
            parameter: parameter.name().to_owned(),
            source,
        };
        let tensor = parameter.tensor();
        let count = self.parts_mut().1.entry(index).steps + 1;
        let step = {
            let group = self.parts().0.shared(index, parameter.share());
            self.sweep(&group, count as f64)
        };
        let moments = self.parts_mut().1;
        let entry = moments.state_with_moments(index, tensor).map_err(failed)?;
        sweep(tensor, gradient, &entry.moments, &step).map_err(failed)?;
        entry.steps = count;
        Ok(())
    }

    fn groups(&self) -> &Groups {
        self.parts().0
    }

    fn groups_mut(&mut self) -> &mut Groups {
        self.parts_mut().0
    }

    fn has_momentum(&self) -> bool {
        SweepRule::has_momentum(self)
    }

    fn tensor_count(&self) -> usize {
        self.parts().1.count()
    }

    fn tensors(&self, parameters: &Parameters) -> Vec<(String, Tensor)> {
        self.parts().1.tensors(parameters)
    }

    fn state(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, OptimizerError> {
        self.parts().1.save(parameters)
    }

    fn load_state(
        &mut self,
        parameters: &Parameters,
        state: &[(String, Tensor)],
    ) -> Result<(), OptimizerError> {
        self.parts_mut().1.load(parameters, state)
    }
}
