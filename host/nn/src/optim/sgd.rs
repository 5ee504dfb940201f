//! Stochastic gradient descent with momentum.

use candle_core::{Result as TensorResult, Tensor};
#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule;

use super::moments::Moments;
use super::sweep::{Float, Sweep, SweepSlices, SweepTensors, Updated, sweep};
use super::{Groups, Optimizer, OptimizerError};
use crate::parameters::Parameters;

/// SGD as PyTorch's `torch.optim.SGD` computes it, for each element of a parameter p with
/// gradient g:
///
/// - g ← g + `weight_decay` · p
/// - with momentum: b ← `momentum` · b + (1 − `dampening`) · g (b = g at the first step with momentum), and then
///   g ← g + `momentum` · b for Nesterov's, else g ← b
/// - p ← p − `learning_rate` · g
#[derive(Debug)]
pub struct Sgd {
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    groups: Groups,
    moments: Moments,
}

impl Sgd {
    /// Creates SGD without momentum and weight decay.
    pub fn new(learning_rate: f64) -> Sgd {
        Sgd {
            momentum: 0.0,
            dampening: 0.0,
            nesterov: false,
            groups: Groups::single(learning_rate, 0.0),
            moments: Moments::optional(&["momentum_buffer"]),
        }
    }

    /// Sets the momentum, its dampening, and whether it is Nesterov's.
    pub fn with_momentum(mut self, momentum: f64, dampening: f64, nesterov: bool) -> Sgd {
        self.momentum = momentum;
        self.dampening = dampening;
        self.nesterov = nesterov;
        self
    }

    /// Sets the weight decay, added to the gradient.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> Sgd {
        self.groups.configure_weight_decay(weight_decay);
        self
    }

    /// Sets the parameter groups.
    pub(super) fn with_groups(mut self, groups: Groups) -> Sgd {
        self.groups = groups;
        self
    }
}

impl Optimizer for Sgd {
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
        // The first step with momentum, which may not be the parameter's first step.
        let is_first = self.moments.entry(index).moments[0].is_none();
        let group = self.groups.shared(index, parameter.share());
        let momentum = group.momentum.unwrap_or(self.momentum);
        let entry = if momentum == 0.0 {
            self.moments.entry(index)
        } else {
            self.moments
                .state_with_moments(index, tensor)
                .map_err(failed)?
        };
        let step = SgdStep {
            learning_rate: group.learning_rate,
            weight_decay: group.weight_decay,
            momentum,
            dampening: self.dampening,
            nesterov: self.nesterov,
            is_first,
        };
        sweep(tensor, gradient, &entry.moments, &step).map_err(failed)?;
        entry.steps += 1;
        Ok(())
    }

    fn groups(&self) -> &Groups {
        &self.groups
    }

    fn groups_mut(&mut self) -> &mut Groups {
        &mut self.groups
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

struct SgdStep {
    learning_rate: f64,
    weight_decay: f64,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    is_first: bool,
}

impl Sweep for SgdStep {
    #[inline(always)]
    fn run<T: Float>(&self, numbers: SweepSlices<'_, T>) {
        let rate = T::from_f64(self.learning_rate);
        let decay = T::from_f64(self.weight_decay);
        let steps = numbers.parameter.iter_mut().zip(numbers.gradient);
        if self.momentum == 0.0 {
            for (p, &g) in steps {
                *p = *p - rate * (g + decay * *p);
            }
            return;
        }
        let momentum = T::from_f64(self.momentum);
        let kept = if self.is_first { T::ZERO } else { momentum };
        let fresh = if self.is_first {
            1.0
        } else {
            1.0 - self.dampening
        };
        let fresh = T::from_f64(fresh);
        let [buffer, ..] = numbers.moments;
        for ((p, &g), b) in steps.zip(buffer) {
            let g = g + decay * *p;
            *b = kept * *b + fresh * g;
            let direction = if self.nesterov { g + momentum * *b } else { *b };
            *p = *p - rate * direction;
        }
    }

    #[cfg(feature = "cuda")]
    fn kernel(&self) -> (Rule, [f64; 8]) {
        let terms = [
            self.learning_rate,
            self.weight_decay,
            self.momentum,
            if self.is_first { 0.0 } else { self.momentum },
            if self.is_first {
                1.0
            } else {
                1.0 - self.dampening
            },
            f64::from(u8::from(self.nesterov)),
            0.0,
            0.0,
        ];
        (Rule::Sgd, terms)
    }

    fn compose(&self, old: &SweepTensors) -> TensorResult<Updated> {
        let g = (&old.gradient + (&old.parameter * self.weight_decay)?)?;
        let stepped = |direction: &Tensor| &old.parameter - (direction * self.learning_rate)?;
        if self.momentum == 0.0 {
            return Ok(Updated {
                parameter: stepped(&g)?,
                moments: [None, None, None],
            });
        }
        let b = if self.is_first {
            g.clone()
        } else {
            ((old.moment(0)? * self.momentum)? + (&g * (1.0 - self.dampening))?)?
        };
        let parameter = if self.nesterov {
            stepped(&(g + (&b * self.momentum)?)?)?
        } else {
            stepped(&b)?
        };
        Ok(Updated {
            parameter,
            moments: [Some(b), None, None],
        })
    }
}
