//! RMSprop: gradients divided by the root of their moving mean square.

#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule as KernelRule;

use super::ParameterGroup;
use super::elements::{Float, Sweep, SweepSlices};
use super::moments::Moments;
use super::rule::{Rule, RuleOptimizer, StepNumber};

/// RMSprop (Hinton, 2012; centred: Graves, 2013) as PyTorch's `torch.optim.RMSprop` computes it, for
/// each element of a parameter p with gradient g:
///
/// - g ← g + `weight_decay` · p
/// - v ← α · v + (1 − α) · g²
/// - d ← √v + ε; centred: a ← α · a + (1 − α) · g, and d ← √(v − a²) + ε
/// - p ← p − `learning_rate` · g / d; with momentum: b ← `momentum` · b + g / d, and
///   p ← p − `learning_rate` · b
///
/// If rounding makes v − a² negative, it counts as 0; PyTorch computes NaN.
pub type RmsProp = RuleOptimizer<RmsPropRule>;

/// The rule of [`RmsProp`].
#[derive(Debug)]
pub struct RmsPropRule {
    alpha: f64,
    epsilon: f64,
    momentum: f64,
    centered: bool,
}

impl RmsProp {
    /// Creates RMSprop with α = 0.99, ε = 1e-8, no momentum and no weight decay, not centred.
    pub fn new(learning_rate: f64) -> RmsProp {
        let rule = RmsPropRule {
            alpha: 0.99,
            epsilon: 1e-8,
            momentum: 0.0,
            centered: false,
        };
        let moments = Moments::new(moments(false, false));
        RuleOptimizer::of(rule, moments, learning_rate, 0.0)
    }

    /// Sets the decay rate of the moving average, and ε.
    pub fn with_alpha(mut self, alpha: f64, epsilon: f64) -> RmsProp {
        self.rule.alpha = alpha;
        self.rule.epsilon = epsilon;
        self
    }

    /// Sets the momentum, and whether it is centred; to be called before the first step.
    pub fn with_momentum(mut self, momentum: f64, centered: bool) -> RmsProp {
        self.rule.momentum = momentum;
        self.rule.centered = centered;
        self.moments = Moments::new(moments(momentum > 0.0, centered));
        self
    }
}

/// Returns the names of the moments, in the order that the sweep expects.
fn moments(momentum: bool, centered: bool) -> &'static [&'static str] {
    match (momentum, centered) {
        (false, false) => &["square_avg"],
        (true, false) => &["square_avg", "momentum_buffer"],
        (false, true) => &["square_avg", "grad_avg"],
        (true, true) => &["square_avg", "grad_avg", "momentum_buffer"],
    }
}

impl Rule for RmsPropRule {
    fn has_momentum(&self) -> bool {
        self.momentum > 0.0
    }

    fn sweep(&self, group: &ParameterGroup, _at: StepNumber) -> impl Sweep + use<> {
        RmsPropStep {
            learning_rate: group.learning_rate,
            decay: group.weight_decay,
            alpha: self.alpha,
            epsilon: self.epsilon,
            momentum: group.momentum.unwrap_or(self.momentum),
            has_momentum: self.momentum > 0.0,
            centered: self.centered,
        }
    }
}

struct RmsPropStep {
    learning_rate: f64,
    decay: f64,
    alpha: f64,
    epsilon: f64,
    momentum: f64,
    has_momentum: bool,
    centered: bool,
}

/// Hyper-parameters in the parameter's own type.
struct Typed<T> {
    rate: T,
    decay: T,
    alpha: T,
    fresh: T,
    epsilon: T,
    momentum: T,
}

impl Sweep for RmsPropStep {
    #[inline(always)]
    fn run<T: Float>(&self, numbers: SweepSlices<'_, T>) {
        let typed = Typed {
            rate: T::from_f64(self.learning_rate),
            decay: T::from_f64(self.decay),
            alpha: T::from_f64(self.alpha),
            fresh: T::from_f64(1.0 - self.alpha),
            epsilon: T::from_f64(self.epsilon),
            momentum: T::from_f64(self.momentum),
        };
        let [squares, second, third] = numbers.moments;
        let steps = numbers.parameter.iter_mut().zip(numbers.gradient);
        let steps = steps.zip(squares).map(|((p, &g), v)| (p, g, v));
        // A loop for each variant, so that there is no branch per element.
        match (self.has_momentum, self.centered) {
            (false, false) => steps.for_each(|(p, g, v)| {
                *p = *p - typed.rate * typed.scaled(p, g, v, |v| v);
            }),
            (true, false) => steps.zip(second).for_each(|((p, g, v), b)| {
                *b = typed.momentum * *b + typed.scaled(p, g, v, |v| v);
                *p = *p - typed.rate * *b;
            }),
            (false, true) => steps.zip(second).for_each(|((p, g, v), a)| {
                *p = *p - typed.rate * typed.centered(p, g, v, a);
            }),
            (true, true) => {
                let steps = steps.zip(second).zip(third);
                steps.for_each(|(((p, g, v), a), b)| {
                    *b = typed.momentum * *b + typed.centered(p, g, v, a);
                    *p = *p - typed.rate * *b;
                });
            }
        }
    }

    #[cfg(feature = "cuda")]
    fn kernel(&self) -> (KernelRule, [f64; 8]) {
        let terms = [
            self.learning_rate,
            self.decay,
            self.alpha,
            1.0 - self.alpha,
            self.epsilon,
            self.momentum,
            f64::from(u8::from(self.centered)),
            f64::from(u8::from(self.has_momentum)),
        ];
        (KernelRule::RmsProp, terms)
    }
}

impl<T: Float> Typed<T> {
    /// Returns g / d, where d² comes from the new v.
    fn scaled(&self, p: &T, g: T, v: &mut T, spread: impl FnOnce(T) -> T) -> T {
        let g = g + self.decay * *p;
        *v = self.alpha * *v + self.fresh * (g * g);
        g / (spread(*v).sqrt() + self.epsilon)
    }

    fn centered(&self, p: &T, g: T, v: &mut T, a: &mut T) -> T {
        *a = self.alpha * *a + self.fresh * (g + self.decay * *p);
        let mean = *a;
        self.scaled(p, g, v, |v| {
            let spread = v - mean * mean;
            if spread < T::ZERO { T::ZERO } else { spread }
        })
    }
}
