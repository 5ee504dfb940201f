//! Adam with decoupled weight decay.

use candle_core::Tensor;

use super::moments::{Entry, Moments};
use super::sweep::{Float, Sweep, sweep};
use super::{Error, Optimizer};
use crate::gradients::Gradients;
use crate::parameters::Parameters;

/// `AdamW` (Loshchilov and Hutter, 2019) as PyTorch's `torch.optim.AdamW` computes it, for each
/// element of a parameter p with gradient g at its t-th step:
///
/// - p ← p − `learning_rate` · `weight_decay` · p
/// - m ← β₁ · m + (1 − β₁) · g
/// - v ← β₂ · v + (1 − β₂) · g²
/// - p ← p − `learning_rate` / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
#[derive(Clone, Debug)]
pub struct AdamW {
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    weight_decay: f64,
    moments: Moments,
}

impl AdamW {
    /// With β₁ = 0.9, β₂ = 0.999, ε = 1e-8 and a weight decay of 0.01.
    pub fn new(learning_rate: f64) -> AdamW {
        AdamW {
            learning_rate,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.01,
            moments: Moments::new(&["exp_avg", "exp_avg_sq"]),
        }
    }

    /// With other averages.
    pub fn with_betas(mut self, beta1: f64, beta2: f64, epsilon: f64) -> AdamW {
        self.beta1 = beta1;
        self.beta2 = beta2;
        self.epsilon = epsilon;
        self
    }

    /// With another weight decay.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> AdamW {
        self.weight_decay = weight_decay;
        self
    }
}

impl Optimizer for AdamW {
    fn step(&mut self, parameters: &Parameters, gradients: &Gradients) -> Result<(), Error> {
        for (index, parameter) in parameters.iter().enumerate() {
            let (Some(gradient), true) = (gradients.at(index), parameter.is_trainable()) else {
                continue;
            };
            let entry = self.moments.entry(index);
            let count = (entry.steps + 1) as f64;
            let mut step = Step {
                shrink: 1.0 - self.learning_rate * self.weight_decay,
                beta1: self.beta1,
                beta2: self.beta2,
                epsilon: self.epsilon,
                size: self.learning_rate / (1.0 - self.beta1.powf(count)),
                correction: 1.0 / (1.0 - self.beta2.powf(count)).sqrt(),
                entry,
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
    /// What the weight decay leaves of a parameter.
    shrink: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    /// The learning rate with the first moment's bias taken out.
    size: f64,
    /// 1 over the second moment's bias, under the root.
    correction: f64,
    entry: &'a mut Entry,
}

impl Step<'_> {
    fn run<T: Float>(&mut self, parameter: &mut [T], gradient: &[T]) {
        let shrink = T::from_f64(self.shrink);
        let (beta1, beta2) = (T::from_f64(self.beta1), T::from_f64(self.beta2));
        let (fresh1, fresh2) = (T::from_f64(1.0 - self.beta1), T::from_f64(1.0 - self.beta2));
        let (size, epsilon) = (T::from_f64(self.size), T::from_f64(self.epsilon));
        let correction = T::from_f64(self.correction);
        let [first, second] = &mut self.entry.moments;
        let first = first.values::<T>(parameter.len());
        let second = second.values::<T>(parameter.len());
        let moments = first.iter_mut().zip(second);
        for ((p, &g), (m, v)) in parameter.iter_mut().zip(gradient).zip(moments) {
            *m = beta1 * *m + fresh1 * g;
            *v = beta2 * *v + fresh2 * (g * g);
            *p = *p * shrink - size * (*m / (v.sqrt() * correction + epsilon));
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
