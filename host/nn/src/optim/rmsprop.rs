//! RMSprop: gradients divided by the root of their moving mean square.

use candle_core::Result;
#[cfg(feature = "cuda")]
use sconce_ops::cuda::optimizers::Rule;

use super::moments::Moments;
use super::rule::SweepRule;
use super::sweep::{Float, Sweep, SweepSlices, SweepTensors, Updated};
use super::{Groups, ParameterGroup};

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
#[derive(Debug)]
pub struct RmsProp {
    alpha: f64,
    epsilon: f64,
    momentum: f64,
    centered: bool,
    groups: Groups,
    moments: Moments,
}

impl RmsProp {
    /// Creates RMSprop with α = 0.99, ε = 1e-8, no momentum and no weight decay, not centred.
    pub fn new(learning_rate: f64) -> RmsProp {
        RmsProp {
            alpha: 0.99,
            epsilon: 1e-8,
            momentum: 0.0,
            centered: false,
            groups: Groups::single(learning_rate, 0.0),
            moments: Moments::new(moments(false, false)),
        }
    }

    /// Sets the decay rate of the moving average, and ε.
    pub fn with_alpha(mut self, alpha: f64, epsilon: f64) -> RmsProp {
        self.alpha = alpha;
        self.epsilon = epsilon;
        self
    }

    /// Sets the momentum, and whether it is centred; to be called before the first step.
    pub fn with_momentum(mut self, momentum: f64, centered: bool) -> RmsProp {
        self.momentum = momentum;
        self.centered = centered;
        self.moments = Moments::new(moments(momentum > 0.0, centered));
        self
    }

    /// Sets the weight decay, added to the gradient.
    pub fn with_weight_decay(mut self, weight_decay: f64) -> RmsProp {
        self.groups.configure_weight_decay(weight_decay);
        self
    }

    /// Sets the parameter groups.
    pub(super) fn with_groups(mut self, groups: Groups) -> RmsProp {
        self.groups = groups;
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

impl SweepRule for RmsProp {
    fn parts(&self) -> (&Groups, &Moments) {
        (&self.groups, &self.moments)
    }

    fn parts_mut(&mut self) -> (&mut Groups, &mut Moments) {
        (&mut self.groups, &mut self.moments)
    }

    fn has_momentum(&self) -> bool {
        self.momentum > 0.0
    }

    fn sweep(&self, group: &ParameterGroup, _count: f64) -> impl Sweep + use<> {
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
    fn kernel(&self) -> (Rule, [f64; 8]) {
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
        (Rule::RmsProp, terms)
    }

    fn compose(&self, old: &SweepTensors) -> Result<Updated> {
        let g = (&old.gradient + (&old.parameter * self.decay)?)?;
        let fresh = 1.0 - self.alpha;
        let v = ((old.moment(0)? * self.alpha)? + (g.sqr()? * fresh)?)?;
        let (a, spread) = if self.centered {
            let a = ((old.moment(1)? * self.alpha)? + (&g * fresh)?)?;
            let spread = (&v - a.sqr()?)?;
            let zeros = spread.zeros_like()?;
            let spread = spread.lt(&zeros)?.where_cond(&zeros, &spread)?;
            (Some(a), spread)
        } else {
            (None, v.clone())
        };
        let scaled = (g / spread.sqrt()?.affine(1.0, self.epsilon)?)?;
        let b = if self.has_momentum {
            let b = old.moment(1 + usize::from(self.centered))?;
            Some(((b * self.momentum)? + &scaled)?)
        } else {
            None
        };
        let direction = b.as_ref().unwrap_or(&scaled);
        let parameter = (&old.parameter - (direction * self.learning_rate)?)?;
        let moments = match (a, b) {
            (None, b) => [Some(v), b, None],
            (a, b) => [Some(v), a, b],
        };
        Ok(Updated { parameter, moments })
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
