//! Stochastic gradient descent with momentum.

#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule as KernelRule;

use super::ParameterGroup;
use super::elements::{Float, Sweep, SweepSlices};
use super::moments::Moments;
use super::rule::{Rule, RuleOptimizer, StepNumber};

/// SGD as PyTorch's `torch.optim.SGD` computes it, for each element of a parameter p with
/// gradient g:
///
/// - g ← g + `weight_decay` · p
/// - with momentum: b ← `momentum` · b + (1 − `dampening`) · g (b = g at the first step with momentum), and then
///   g ← g + `momentum` · b for Nesterov's, else g ← b
/// - p ← p − `learning_rate` · g
pub type Sgd = RuleOptimizer<SgdRule>;

/// The rule of [`Sgd`].
#[derive(Debug)]
pub struct SgdRule {
    momentum: f64,
    dampening: f64,
    nesterov: bool,
}

impl Sgd {
    /// Creates SGD without momentum and weight decay.
    pub fn new(learning_rate: f64) -> Sgd {
        let rule = SgdRule {
            momentum: 0.0,
            dampening: 0.0,
            nesterov: false,
        };
        let moments = Moments::optional(&["momentum_buffer"]);
        RuleOptimizer::of(rule, moments, learning_rate, 0.0)
    }

    /// Sets the momentum, its dampening, and whether it is Nesterov's.
    pub fn with_momentum(mut self, momentum: f64, dampening: f64, nesterov: bool) -> Sgd {
        self.rule = SgdRule {
            momentum,
            dampening,
            nesterov,
        };
        self
    }
}

impl Rule for SgdRule {
    fn needs_moments(&self, group: &ParameterGroup) -> bool {
        group.momentum.unwrap_or(self.momentum) != 0.0
    }

    fn sweep(&self, group: &ParameterGroup, at: StepNumber) -> impl Sweep + use<> {
        SgdStep {
            learning_rate: group.learning_rate,
            weight_decay: group.weight_decay,
            momentum: group.momentum.unwrap_or(self.momentum),
            dampening: self.dampening,
            nesterov: self.nesterov,
            is_first: at.is_first,
        }
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
    fn kernel(&self) -> (KernelRule, [f64; 8]) {
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
        (KernelRule::Sgd, terms)
    }
}
