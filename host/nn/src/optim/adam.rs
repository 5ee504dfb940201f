//! Adam.

use candle_core::Result;
#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule;

use super::moments::Moments;
use super::rule::SweepRule;
use super::sweep::{Float, Sweep, SweepSlices, SweepTensors, Updated};
use super::{Groups, ParameterGroup};

/// Adam (Kingma and Ba, 2015) as PyTorch's `torch.optim.Adam` computes it, for each element of a
/// parameter p with gradient g at its t-th step:
///
/// - g ← g + `weight_decay` · p
/// - m ← β₁ · m + (1 − β₁) · g
/// - v ← β₂ · v + (1 − β₂) · g²
/// - p ← p − `learning_rate` / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
#[derive(Debug)]
pub struct Adam {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    groups: Groups,
    moments: Moments,
}

impl Adam {
    /// Creates Adam with β₁ = 0.9, β₂ = 0.999, ε = 1e-8 and no weight decay.
    pub fn new(learning_rate: f64) -> Adam {
        Adam {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            groups: Groups::single(learning_rate, 0.0),
            moments: Moments::new(&["exp_avg", "exp_avg_sq"]),
        }
    }

    /// Sets the decay rates of the moving averages, and ε.
    pub fn with_betas(mut self, beta1: f64, beta2: f64, epsilon: f64) -> Adam {
        self.beta1 = beta1;
        self.beta2 = beta2;
        self.epsilon = epsilon;
        self
    }

    /// Sets the weight decay, added to the gradient.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> Adam {
        self.groups.configure_weight_decay(weight_decay);
        self
    }

    /// Sets the parameter groups.
    pub(super) fn with_groups(mut self, groups: Groups) -> Adam {
        self.groups = groups;
        self
    }
}

impl SweepRule for Adam {
    fn parts(&self) -> (&Groups, &Moments) {
        (&self.groups, &self.moments)
    }

    fn parts_mut(&mut self) -> (&mut Groups, &mut Moments) {
        (&mut self.groups, &mut self.moments)
    }

    fn sweep(&self, group: &ParameterGroup, count: f64) -> impl Sweep + use<> {
        let beta1 = group.momentum.unwrap_or(self.beta1);
        AdamStep {
            decay: group.weight_decay,
            beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            size: group.learning_rate / (1.0 - beta1.powf(count)),
            correction: 1.0 / (1.0 - self.beta2.powf(count)).sqrt(),
        }
    }
}

struct AdamStep {
    decay: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    /// Learning rate divided by the first moment's bias correction.
    size: f64,
    /// 1 / √(1 − β₂ᵗ), the second moment's bias correction.
    correction: f64,
}

impl Sweep for AdamStep {
    #[inline(always)]
    fn run<T: Float>(&self, numbers: SweepSlices<'_, T>) {
        let decay = T::from_f64(self.decay);
        let (beta1, beta2) = (T::from_f64(self.beta1), T::from_f64(self.beta2));
        let (fresh1, fresh2) = (T::from_f64(1.0 - self.beta1), T::from_f64(1.0 - self.beta2));
        let (size, epsilon) = (T::from_f64(self.size), T::from_f64(self.epsilon));
        let correction = T::from_f64(self.correction);
        let [first, second, _] = numbers.moments;
        let moments = first.iter_mut().zip(second);
        let steps = numbers.parameter.iter_mut().zip(numbers.gradient);
        for ((p, &g), (m, v)) in steps.zip(moments) {
            let g = g + decay * *p;
            *m = beta1 * *m + fresh1 * g;
            *v = beta2 * *v + fresh2 * (g * g);
            *p = *p - size * (*m / (v.sqrt() * correction + epsilon));
        }
    }

    #[cfg(feature = "cuda")]
    fn kernel(&self) -> (Rule, [f64; 8]) {
        let terms = [
            self.decay,
            self.beta1,
            1.0 - self.beta1,
            self.beta2,
            1.0 - self.beta2,
            self.size,
            self.correction,
            self.epsilon,
        ];
        (Rule::Adam, terms)
    }

    fn compose(&self, old: &SweepTensors) -> Result<Updated> {
        let g = (&old.gradient + (&old.parameter * self.decay)?)?;
        let m = ((old.moment(0)? * self.beta1)? + (&g * (1.0 - self.beta1))?)?;
        let v = ((old.moment(1)? * self.beta2)? + (g.sqr()? * (1.0 - self.beta2))?)?;
        let root = v.sqrt()?.affine(self.correction, self.epsilon)?;
        Ok(Updated {
            parameter: (&old.parameter - ((&m / root)? * self.size)?)?,
            moments: [Some(m), Some(v), None],
        })
    }
}
