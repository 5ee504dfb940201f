//! Stochastic gradient descent with momentum.

use candle_core::Tensor;

use super::moments::{Entry, Moments};
use super::sweep::{Float, Sweep, sweep};
use super::{Error, Optimizer};
use crate::gradients::Gradients;
use crate::parameters::Parameters;

/// SGD as PyTorch's `torch.optim.SGD` computes it, for each element of a parameter p with
/// gradient g:
///
/// - g ← g + `weight_decay` · p
/// - with momentum: b ← `momentum` · b + (1 − `dampening`) · g (b = g at the first step with momentum), and then
///   g ← g + `momentum` · b for Nesterov's, else g ← b
/// - p ← p − `learning_rate` · g
#[derive(Clone, Debug)]
pub struct Sgd {
    learning_rate: f64,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    weight_decay: f64,
    moments: Moments,
}

impl Sgd {
    /// Without momentum and weight decay.
    pub fn new(learning_rate: f64) -> Sgd {
        Sgd {
            learning_rate,
            momentum: 0.0,
            dampening: 0.0,
            nesterov: false,
            weight_decay: 0.0,
            moments: Moments::optional(&["momentum_buffer"]),
        }
    }

    /// With momentum, damped by `dampening`; or Nesterov's.
    pub fn with_momentum(mut self, momentum: f64, dampening: f64, nesterov: bool) -> Sgd {
        self.momentum = momentum;
        self.dampening = dampening;
        self.nesterov = nesterov;
        self
    }

    /// With weight decay, added to the gradient.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> Sgd {
        self.weight_decay = weight_decay;
        self
    }
}

impl Optimizer for Sgd {
    fn step(&mut self, parameters: &Parameters, gradients: &Gradients) -> Result<(), Error> {
        for (index, parameter) in parameters.iter().enumerate() {
            let (Some(gradient), true) = (gradients.at(index), parameter.is_trainable()) else {
                continue;
            };
            let mut step = Step {
                learning_rate: self.learning_rate,
                momentum: self.momentum,
                dampening: self.dampening,
                nesterov: self.nesterov,
                weight_decay: self.weight_decay,
                entry: self.moments.entry(index),
            };
            sweep(parameter.tensor(), gradient, &mut step).map_err(|source| Error::Step {
                parameter: parameter.name().to_owned(),
                source,
            })?;
            step.entry.steps += 1;
        }
        Ok(())
    }

    fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.learning_rate = learning_rate;
    }

    fn state(&self, parameters: &Parameters) -> Result<Vec<(String, Tensor)>, Error> {
        self.moments.save(parameters)
    }

    fn load_state(
        &mut self,
        parameters: &Parameters,
        state: &[(String, Tensor)],
    ) -> Result<(), Error> {
        self.moments.load(parameters, state)
    }
}

struct Step<'a> {
    learning_rate: f64,
    momentum: f64,
    dampening: f64,
    nesterov: bool,
    weight_decay: f64,
    entry: &'a mut Entry,
}

impl Step<'_> {
    fn run<T: Float>(&mut self, parameter: &mut [T], gradient: &[T]) {
        let rate = T::from_f64(self.learning_rate);
        let decay = T::from_f64(self.weight_decay);
        if self.momentum == 0.0 {
            for (p, &g) in parameter.iter_mut().zip(gradient) {
                *p = *p - rate * (g + decay * *p);
            }
            return;
        }
        let [buffer, _] = &mut self.entry.moments;
        // Not the first step: the first with momentum, which may have come later.
        let is_first = !buffer.is_used();
        let momentum = T::from_f64(self.momentum);
        let kept = if is_first { T::ZERO } else { momentum };
        let fresh = T::from_f64(if is_first { 1.0 } else { 1.0 - self.dampening });
        let nesterov = self.nesterov;
        let buffer = buffer.values::<T>(parameter.len());
        for ((p, &g), b) in parameter.iter_mut().zip(gradient).zip(buffer) {
            let g = g + decay * *p;
            *b = kept * *b + fresh * g;
            let direction = if nesterov { g + momentum * *b } else { *b };
            *p = *p - rate * direction;
        }
    }
}

impl Sweep for Step<'_> {
    fn f32(&mut self, parameter: &mut [f32], gradient: &[f32]) {
        self.run(parameter, gradient);
    }

    fn f64(&mut self, parameter: &mut [f64], gradient: &[f64]) {
        self.run(parameter, gradient);
    }
}
