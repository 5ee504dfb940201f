//! An optimizer as a rule: a sweep over each parameter that has a gradient, with moments that start as zeros.

use candle_core::Tensor;

use super::elements::Sweep;
use super::moments::Moments;
use super::sweep::sweep;
use super::{Groups, MomentStorage, Optimizer, OptimizerError, ParameterGroup, narrow};
use crate::parameters::Parameters;

/// An optimizer that steps each parameter by a rule; its parameter groups have the learning rates and weight decays.
#[derive(Debug)]
pub struct RuleOptimizer<R> {
    pub(super) rule: R,
    pub(super) moments: Moments,
    groups: Groups,
}

/// What distinguishes an optimizer from others.
pub(super) trait Rule {
    /// Whether it has an adjustable momentum.
    fn has_momentum(&self) -> bool {
        true
    }

    /// Whether steps of a parameter of this group need its moments.
    fn needs_moments(&self, _group: &ParameterGroup) -> bool {
        true
    }

    /// Returns the sweep over a parameter of this group.
    fn sweep(&self, group: &ParameterGroup, at: StepNumber) -> impl Sweep + use<Self>;
}

/// Which of a parameter's steps it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepNumber {
    /// Its number, from 1.
    pub(super) count: f64,
    /// Whether it is the first with moments.
    pub(super) is_first: bool,
}

impl<R> RuleOptimizer<R> {
    pub(super) fn of(
        rule: R,
        moments: Moments,
        learning_rate: f64,
        weight_decay: f64,
    ) -> RuleOptimizer<R> {
        RuleOptimizer {
            rule,
            moments,
            groups: Groups::single(learning_rate, weight_decay),
        }
    }

    /// Sets the weight decay, 0 or more, added to the gradient or decoupled from it as the optimizer says.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> Self {
        self.groups.configure_weight_decay(weight_decay);
        self
    }

    /// Sets the parameter groups.
    pub(super) fn with_groups(mut self, groups: Groups) -> Self {
        self.groups = groups;
        self
    }

    /// Sets how moments are stored; to be called before the first step.
    pub(super) fn with_moments(mut self, storage: MomentStorage) -> Self {
        self.moments.storage = storage;
        self
    }
}

impl<R: Rule> Optimizer for RuleOptimizer<R> {
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
        let group = self.groups.shared(index, parameter.share());
        let entry = self.moments.entry(index);
        let count = entry.steps + 1;
        let number = StepNumber {
            count: count as f64,
            is_first: entry.moments[0].is_none(),
        };
        let step = self.rule.sweep(&group, number);
        let mut rounding = None;
        let entry = if self.rule.needs_moments(&group) {
            if self.moments.storage == MomentStorage::Bf16 {
                rounding = Some(narrow::key(parameters.seed(), parameter.name(), count));
            }
            let entry = self.moments.state_with_moments(index, tensor);
            entry.map_err(failed)?
        } else {
            entry
        };
        sweep(tensor, gradient, &entry.moments, &step, rounding).map_err(failed)?;
        entry.steps = count;
        Ok(())
    }

    fn groups(&self) -> &Groups {
        &self.groups
    }

    fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
    }

    fn has_momentum(&self) -> bool {
        self.rule.has_momentum()
    }

    fn tensor_count(&self) -> usize {
        self.moments.count()
    }

    fn tensors(&self, parameters: &Parameters) -> Vec<(String, Tensor)> {
        self.moments.tensors(parameters)
    }

    fn state(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, OptimizerError> {
        self.moments.save(parameters)
    }

    fn load_state(
        &mut self,
        parameters: &Parameters,
        state: &[(String, Tensor)],
    ) -> Result<(), OptimizerError> {
        self.moments.load(parameters, state)
    }
}
