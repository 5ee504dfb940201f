//! Adam, with weight decay added to the gradient or decoupled from it.

#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule as KernelRule;

use super::ParameterGroup;
use super::elements::{Float, Sweep, SweepSlices};
use super::moments::Moments;
use super::rule::{Rule, RuleOptimizer, StepNumber};

/// Adam (Kingma and Ba, 2015) as PyTorch's `torch.optim.Adam` computes it, for each element of a
/// parameter p with gradient g at its t-th step:
///
/// - g ← g + `weight_decay` · p
/// - m ← β₁ · m + (1 − β₁) · g
/// - v ← β₂ · v + (1 − β₂) · g²
/// - p ← p − `learning_rate` / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
pub type Adam = RuleOptimizer<AdamRule<false>>;

/// `AdamW` (Loshchilov and Hutter, 2019) as PyTorch's `torch.optim.AdamW` computes it: as [`Adam`], but instead of the first
/// line
///
/// - p ← p − `learning_rate` · `weight_decay` · p
pub type AdamW = RuleOptimizer<AdamRule<true>>;

/// The rule of [`Adam`] and [`AdamW`], whose weight decay is decoupled.
#[derive(Debug)]
pub struct AdamRule<const DECOUPLED: bool> {
    beta1: f64,
    beta2: f64,
    epsilon: f64,
}

impl<const DECOUPLED: bool> RuleOptimizer<AdamRule<DECOUPLED>> {
    /// Creates it with β₁ = 0.9, β₂ = 0.999 and ε = 1e-8; Adam without weight decay, `AdamW` with 0.01.
    pub fn new(learning_rate: f64) -> Self {
        let rule = AdamRule {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        };
        let weight_decay = if DECOUPLED { 0.01 } else { 0.0 };
        let moments = Moments::new(&["exp_avg", "exp_avg_sq"]);
        RuleOptimizer::of(rule, moments, learning_rate, weight_decay)
    }

    /// Sets the decay rates of the moving averages, and ε.
    pub fn with_betas(mut self, beta1: f64, beta2: f64, epsilon: f64) -> Self {
        self.rule = AdamRule {
            beta1,
            beta2,
            epsilon,
        };
        self
    }
}

impl<const DECOUPLED: bool> Rule for AdamRule<DECOUPLED> {
    fn sweep(&self, group: &ParameterGroup, at: StepNumber) -> impl Sweep + use<DECOUPLED> {
        let beta1 = group.momentum.unwrap_or(self.beta1);
        AdamStep::<DECOUPLED> {
            decay: if DECOUPLED {
                1.0 - group.learning_rate * group.weight_decay
            } else {
                group.weight_decay
            },
            beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            size: group.learning_rate / (1.0 - beta1.powf(at.count)),
            correction: 1.0 / (1.0 - self.beta2.powf(at.count)).sqrt(),
        }
    }
}

struct AdamStep<const DECOUPLED: bool> {
    /// The weight decay; if it is decoupled, 1 − `learning_rate` · `weight_decay`, by which a parameter is multiplied.
    decay: f64,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    /// Learning rate divided by the first moment's bias correction.
    size: f64,
    /// 1 / √(1 − β₂ᵗ), the second moment's bias correction.
    correction: f64,
}

impl<const DECOUPLED: bool> Sweep for AdamStep<DECOUPLED> {
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
            let (g, kept) = if DECOUPLED {
                (g, *p * decay)
            } else {
                (g + decay * *p, *p)
            };
            *m = beta1 * *m + fresh1 * g;
            *v = beta2 * *v + fresh2 * (g * g);
            *p = kept - size * (*m / (v.sqrt() * correction + epsilon));
        }
    }

    #[cfg(feature = "cuda")]
    fn kernel(&self) -> (KernelRule, [f64; 8]) {
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
        let rule = if DECOUPLED {
            KernelRule::AdamW
        } else {
            KernelRule::Adam
        };
        (rule, terms)
    }
}
