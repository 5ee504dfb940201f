//! Lion: steps of equal size, by the sign of a moving average.

#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule as KernelRule;

use super::ParameterGroup;
use super::elements::{Float, Sweep, SweepSlices};
use super::moments::Moments;
use super::rule::{Rule, RuleOptimizer, StepNumber};

/// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, algorithm 2), for each
/// element of a parameter p with gradient g:
///
/// - c ← β₁ · m + (1 − β₁) · g
/// - p ← p − `learning_rate` · (sign c + `weight_decay` · p)
/// - m ← β₂ · m + (1 − β₂) · g
///
/// The authors recommend a third to a tenth of Adam's learning rate, and a weight decay larger by
/// the same factor.
pub type Lion = RuleOptimizer<LionRule>;

/// The rule of [`Lion`].
#[derive(Debug)]
pub struct LionRule {
    beta1: f64,
    beta2: f64,
}

impl Lion {
    /// Creates Lion with β₁ = 0.9, β₂ = 0.99 and no weight decay.
    pub fn new(learning_rate: f64) -> Lion {
        let rule = LionRule {
            beta1: 0.9,
            beta2: 0.99,
        };
        RuleOptimizer::of(rule, Moments::new(&["exp_avg"]), learning_rate, 0.0)
    }

    /// Sets the decay rates of the moving average.
    pub fn with_betas(mut self, beta1: f64, beta2: f64) -> Lion {
        self.rule = LionRule { beta1, beta2 };
        self
    }
}

impl Rule for LionRule {
    fn sweep(&self, group: &ParameterGroup, _at: StepNumber) -> impl Sweep + use<> {
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
    fn kernel(&self) -> (KernelRule, [f64; 8]) {
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
        (KernelRule::Lion, terms)
    }
}
