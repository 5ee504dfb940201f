//! Lion: steps of equal size, by the sign of a moving average.

use candle_core::Result;
#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule;

use super::moments::Moments;
use super::rule::SweepRule;
use super::sweep::{Float, Sweep, SweepSlices, SweepTensors, Updated};
use super::{Groups, ParameterGroup};

/// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, algorithm 2), for each
/// element of a parameter p with gradient g:
///
/// - c ← β₁ · m + (1 − β₁) · g
/// - p ← p − `learning_rate` · (sign c + `weight_decay` · p)
/// - m ← β₂ · m + (1 − β₂) · g
///
/// The authors recommend a third to a tenth of Adam's learning rate, and a weight decay larger by
/// the same factor.
#[derive(Debug)]
pub struct Lion {
    beta1: f64,
    beta2: f64,
    groups: Groups,
    moments: Moments,
}

impl Lion {
    /// Creates Lion with β₁ = 0.9, β₂ = 0.99 and no weight decay.
    pub fn new(learning_rate: f64) -> Lion {
        Lion {
            beta1: 0.9,
            beta2: 0.99,
            groups: Groups::single(learning_rate, 0.0),
            moments: Moments::new(&["exp_avg"]),
        }
    }

    /// Sets the decay rates of the moving average.
    pub fn with_betas(mut self, beta1: f64, beta2: f64) -> Lion {
        self.beta1 = beta1;
        self.beta2 = beta2;
        self
    }

    /// Sets the weight decay, decoupled from the gradient.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> Lion {
        self.groups.configure_weight_decay(weight_decay);
        self
    }

    /// Sets the parameter groups.
    pub(super) fn with_groups(mut self, groups: Groups) -> Lion {
        self.groups = groups;
        self
    }
}

impl SweepRule for Lion {
    fn parts(&self) -> (&Groups, &Moments) {
        (&self.groups, &self.moments)
    }

    fn parts_mut(&mut self) -> (&mut Groups, &mut Moments) {
        (&mut self.groups, &mut self.moments)
    }

    fn sweep(&self, group: &ParameterGroup, _count: f64) -> impl Sweep + use<> {
        LionStep {
            shrink: 1.0 - group.learning_rate * group.weight_decay,
            learning_rate: group.learning_rate,
            beta1: group.momentum.unwrap_or(self.beta1),
            beta2: self.beta2,
        }
    }
}

struct LionStep {
    /// 1 − `learning_rate` · `weight_decay`, by which a parameter is multiplied.
    shrink: f64,
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
}

impl Sweep for LionStep {
    #[inline(always)]
    fn run<T: Float>(&self, numbers: SweepSlices<'_, T>) {
        let shrink = T::from_f64(self.shrink);
        let rate = T::from_f64(self.learning_rate);
        let (beta1, beta2) = (T::from_f64(self.beta1), T::from_f64(self.beta2));
        let (fresh1, fresh2) = (T::from_f64(1.0 - self.beta1), T::from_f64(1.0 - self.beta2));
        let [average, ..] = numbers.moments;
        let steps = numbers.parameter.iter_mut().zip(numbers.gradient);
        for ((p, &g), m) in steps.zip(average) {
            let direction = (beta1 * *m + fresh1 * g).sign();
            *p = *p * shrink - rate * direction;
            *m = beta2 * *m + fresh2 * g;
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
            self.learning_rate,
            0.0,
            0.0,
        ];
        (Rule::Lion, terms)
    }

    fn compose(&self, old: &SweepTensors) -> Result<Updated> {
        let (g, m) = (&old.gradient, old.moment(0)?);
        let mixed = ((m * self.beta1)? + (g * (1.0 - self.beta1))?)?;
        // candle's sign of NaN is 0.
        let direction = mixed.ne(&mixed)?.where_cond(&mixed, &mixed.sign()?)?;
        let kept = (&old.parameter * self.shrink)?;
        let m = ((m * self.beta2)? + (g * (1.0 - self.beta2))?)?;
        Ok(Updated {
            parameter: (kept - (direction * self.learning_rate)?)?,
            moments: [Some(m), None, None],
        })
    }
}
