//! Adam with decoupled weight decay.

use candle_core::Result;
#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule;

use super::moments::Moments;
use super::rule::SweepRule;
use super::sweep::{Float, Sweep, SweepSlices, SweepTensors, Updated};
use super::{Groups, ParameterGroup};

/// `AdamW` (Loshchilov and Hutter, 2019) as PyTorch's `torch.optim.AdamW` computes it, for each
/// element of a parameter p with gradient g at its t-th step:
///
/// - p ← p − `learning_rate` · `weight_decay` · p
/// - m ← β₁ · m + (1 − β₁) · g
/// - v ← β₂ · v + (1 − β₂) · g²
/// - p ← p − `learning_rate` / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
#[derive(Debug)]
pub struct AdamW {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    groups: Groups,
    moments: Moments,
}

impl AdamW {
    /// Creates `AdamW` with β₁ = 0.9, β₂ = 0.999, ε = 1e-8 and a weight decay of 0.01.
    pub fn new(learning_rate: f64) -> AdamW {
        AdamW {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            groups: Groups::single(learning_rate, 0.01),
            moments: Moments::new(&["exp_avg", "exp_avg_sq"]),
        }
    }

    /// Sets the decay rates of the moving averages, and ε.
    pub fn with_betas(mut self, beta1: f64, beta2: f64, epsilon: f64) -> AdamW {
        self.beta1 = beta1;
        self.beta2 = beta2;
        self.epsilon = epsilon;
        self
    }

    /// Sets the weight decay.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> AdamW {
        self.groups.configure_weight_decay(weight_decay);
        self
    }

    /// Sets the parameter groups.
    pub(super) fn with_groups(mut self, groups: Groups) -> AdamW {
        self.groups = groups;
        self
    }
}

impl SweepRule for AdamW {
    fn parts(&self) -> (&Groups, &Moments) {
        (&self.groups, &self.moments)
    }

    fn parts_mut(&mut self) -> (&mut Groups, &mut Moments) {
        (&mut self.groups, &mut self.moments)
    }

    fn sweep(&self, group: &ParameterGroup, count: f64) -> impl Sweep + use<> {
        let beta1 = group.momentum.unwrap_or(self.beta1);
        AdamWStep {
            shrink: 1.0 - group.learning_rate * group.weight_decay,
            beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            size: group.learning_rate / (1.0 - beta1.powf(count)),
            correction: 1.0 / (1.0 - self.beta2.powf(count)).sqrt(),
        }
    }
}

struct AdamWStep {
    /// 1 − `learning_rate` · `weight_decay`, by which a parameter is multiplied.
    shrink: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    /// Learning rate divided by the first moment's bias correction.
    size: f64,
    /// 1 / √(1 − β₂ᵗ), the second moment's bias correction.
    correction: f64,
}

impl Sweep for AdamWStep {
    #[inline(always)]
    fn run<T: Float>(&self, numbers: SweepSlices<'_, T>) {
        let shrink = T::from_f64(self.shrink);
        let (beta1, beta2) = (T::from_f64(self.beta1), T::from_f64(self.beta2));
        let (fresh1, fresh2) = (T::from_f64(1.0 - self.beta1), T::from_f64(1.0 - self.beta2));
        let (size, epsilon) = (T::from_f64(self.size), T::from_f64(self.epsilon));
        let correction = T::from_f64(self.correction);
        let [first, second, _] = numbers.moments;
        let moments = first.iter_mut().zip(second);
        let steps = numbers.parameter.iter_mut().zip(numbers.gradient);
        for ((p, &g), (m, v)) in steps.zip(moments) {
            *m = beta1 * *m + fresh1 * g;
            *v = beta2 * *v + fresh2 * (g * g);
            *p = *p * shrink - size * (*m / (v.sqrt() * correction + epsilon));
        }
    }

    #[cfg(feature = "cuda")]
    fn kernel(&self) -> (Rule, [f64; 8]) {
        let terms = [
            self.shrink,
            self.beta1,
            1.0 - self.beta1,
            self.beta2,
            1.0 - self.beta2,
            self.size,
            self.correction,
            self.epsilon,
        ];
        (Rule::AdamW, terms)
    }

    fn compose(&self, old: &SweepTensors) -> Result<Updated> {
        let g = &old.gradient;
        let m = ((old.moment(0)? * self.beta1)? + (g * (1.0 - self.beta1))?)?;
        let v = ((old.moment(1)? * self.beta2)? + (g.sqr()? * (1.0 - self.beta2))?)?;
        let root = v.sqrt()?.affine(self.correction, self.epsilon)?;
        let kept = (&old.parameter * self.shrink)?;
        Ok(Updated {
            parameter: (kept - ((&m / root)? * self.size)?)?,
            moments: [Some(m), Some(v), None],
        })
    }
}
