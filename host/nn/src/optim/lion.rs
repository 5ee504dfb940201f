//! Lion: steps of one size, by the sign of an average.

use super::moments::Moments;
use super::rule::Rule;
use super::sweep::{Float, Numbers, Sweep};
use super::{Group, Groups};

/// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, algorithm 2), for each
/// element of a parameter p with gradient g:
///
/// - c ← β₁ · m + (1 − β₁) · g
/// - p ← p − `learning_rate` · (sign c + `weight_decay` · p)
/// - m ← β₂ · m + (1 − β₂) · g
///
/// Its authors want learning rates of a third to a tenth of Adam's, and a weight decay that is larger
/// by as much.
#[derive(Debug)]
pub struct Lion {
    beta1: f64,
    beta2: f64,
    groups: Groups,
    moments: Moments,
}

impl Lion {
    /// With β₁ = 0.9 and β₂ = 0.99, without weight decay.
    pub fn new(learning_rate: f64) -> Lion {
        Lion {
            beta1: 0.9,
            beta2: 0.99,
            groups: Groups::single(learning_rate, 0.0),
            moments: Moments::new(&["exp_avg"]),
        }
    }

    /// With other averages.
    pub fn with_betas(mut self, beta1: f64, beta2: f64) -> Lion {
        self.beta1 = beta1;
        self.beta2 = beta2;
        self
    }

    /// With weight decay, apart from the gradient.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> Lion {
        self.groups.set_weight_decay(weight_decay);
        self
    }

    /// With parameter groups.
    pub(super) fn with_groups(mut self, groups: Groups) -> Lion {
        self.groups = groups;
        self
    }
}

impl Rule for Lion {
    fn parts(&self) -> (&Groups, &Moments) {
        (&self.groups, &self.moments)
    }

    fn parts_mut(&mut self) -> (&mut Groups, &mut Moments) {
        (&mut self.groups, &mut self.moments)
    }

    fn sweep(&self, group: &Group, _count: f64) -> impl Sweep + use<> {
        Step {
            shrink: 1.0 - group.learning_rate * group.weight_decay,
            learning_rate: group.learning_rate,
            beta1: group.momentum.unwrap_or(self.beta1),
            beta2: self.beta2,
        }
    }
}

struct Step {
    /// What the weight decay leaves of a parameter.
    shrink: f64,
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
}

impl Sweep for Step {
    #[inline(always)]
    fn run<T: Float>(&self, numbers: Numbers<'_, T>) {
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
}
