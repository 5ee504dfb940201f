//! Learning rate curves as functions of the step.

use std::f64::consts::PI;

use sconce_plugin_api::prelude::*;

/// Course of a learning rate, relative to the rate in the optimizer's configuration. A step is an update or
/// an epoch, according to the hook's `by`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Curve {
    /// Constant.
    Constant {
        /// Factor of the rate; not negative. Default 1.
        #[serde(default = "one")]
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Multiplied by `factor` every `every` steps.
    Step {
        /// Steps between two changes, at least 1.
        #[schemars(range(min = 1))]
        every: u64,
        /// Factor at each change; not negative. Default 0.1.
        #[serde(default = "tenth")]
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Multiplied by `factor` at given steps.
    MultiStep {
        /// Numbers of completed steps at which the rate changes.
        at: Vec<u64>,
        /// Factor at each change; not negative. Default 0.1.
        #[serde(default = "tenth")]
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Multiplied by `factor` at every step.
    Exponential {
        /// Factor at each step; not negative.
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Linear from one factor to another.
    Linear {
        /// Initial factor; not negative. Default 1.
        #[serde(default = "one")]
        #[schemars(range(min = 0.0))]
        from: f64,
        /// Final factor; not negative. Default 0.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        to: f64,
        /// Number of steps. Default: all that remain.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// Cosine annealing (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts).
    Cosine {
        /// Final rate; not negative. Default 0.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        min_rate: f64,
        /// Number of steps. Default: all that remain.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// Cosine annealing with warm restarts (the same paper).
    CosineRestarts {
        /// Number of steps in the first period, at least 1.
        #[schemars(range(min = 1))]
        period: u64,
        /// Factor by which each period is longer than the previous one, at least 1. Default 1.
        #[serde(default = "once")]
        #[schemars(range(min = 1))]
        growth: u64,
        /// Factor of each period's initial rate relative to the previous one; not negative. Default 1.
        #[serde(default = "one")]
        #[schemars(range(min = 0.0))]
        decay: f64,
        /// Rate at the end of each period; not negative. Default 0.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        min_rate: f64,
    },
    /// Proportional to a power of the fraction of steps that remain.
    Polynomial {
        /// Exponent; above 0. Default 1.
        #[serde(default = "one")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        power: f64,
        /// Final rate; not negative. Default 0.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        min_rate: f64,
        /// Number of steps. Default: all that remain.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// One cycle: up to the optimizer's rate, then down to almost zero (Smith and Topin 2018,
    /// arXiv:1708.07120).
    OneCycle {
        /// Fraction of the steps during which the rate rises, from 0 to 1. Default 0.3.
        #[serde(default = "three_tenths")]
        #[schemars(range(min = 0.0, max = 1.0))]
        rise: f64,
        /// Divisor of the optimizer's rate that gives the initial rate; above 0. Default 25.
        #[serde(default = "twenty_five")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        start_divisor: f64,
        /// Divisor of the initial rate that gives the final rate; above 0. Default 10000.
        #[serde(default = "ten_thousand")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        end_divisor: f64,
        /// Shape of the rise and the fall. Default `cosine`.
        #[serde(default)]
        anneal: Anneal,
        /// Number of steps. Default: all that remain.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// Inverse square root of the steps, as for the transformer (Vaswani et al. 2017).
    InverseSquareRoot {
        /// Number of steps after which the rate is divided by the square root of 2; at least 1.
        /// Default 10000.
        #[serde(default = "ten_thousand_steps")]
        #[schemars(range(min = 1))]
        timescale: u64,
    },
    /// Multiplied by `factor` whenever a metric, checked at the end of each epoch, has stopped improving.
    Plateau(Plateau),
}

/// When a metric counts as no longer improving, and how the rate is reduced.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plateau {
    /// Metric to watch, from validation unless it names another phase. Default `loss`.
    pub(crate) monitor: Monitor,
    /// Whether smaller or larger values are better. Default: `less` for losses and errors, `greater` for
    /// accuracies and other scores; required for any other name.
    pub(crate) rule: Option<Rule>,
    /// Factor by which the rate is reduced, from 0 to 1. Default 0.1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) factor: f64,
    /// Number of epochs without improvement that are tolerated. Default 10.
    pub(crate) patience: u64,
    /// Smallest change that counts as an improvement; not negative. Default 0.0001.
    #[schemars(range(min = 0.0))]
    pub(crate) threshold: f64,
    /// Whether the threshold is relative or absolute. Default `relative`.
    pub(crate) threshold_is: ThresholdIs,
    /// Number of epochs after a change that are not counted. Default 0.
    pub(crate) cooldown: u64,
    /// Lower limit of the rate; not negative. Default 0.
    #[schemars(range(min = 0.0))]
    pub(crate) min_rate: f64,
}

/// How a threshold is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ThresholdIs {
    /// A fraction of the best value.
    Relative,
    /// A difference from the best value.
    Absolute,
}

/// Shape of the transition from one rate to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Anneal {
    /// Half a cosine.
    #[default]
    Cosine,
    /// A straight line.
    Linear,
}

impl Default for Plateau {
    fn default() -> Self {
        Plateau {
            monitor: Monitor::from("loss"),
            rule: None,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            threshold_is: ThresholdIs::Relative,
            cooldown: 0,
            min_rate: 0.0,
        }
    }
}

fn one() -> f64 {
    1.0
}
fn once() -> u64 {
    1
}
fn tenth() -> f64 {
    0.1
}
fn three_tenths() -> f64 {
    0.3
}
fn twenty_five() -> f64 {
    25.0
}
fn ten_thousand() -> f64 {
    10_000.0
}
fn ten_thousand_steps() -> u64 {
    10_000
}

impl Curve {
    /// Returns the rate after `step` of `left` (at least 1) steps, for a group whose own rate is `base`.
    /// After its last step a curve keeps its final rate.
    pub(crate) fn rate(&self, base: f64, step: u64, left: u64) -> f64 {
        let power = |factor: f64, count: u64| factor.powf(count as f64);
        // Progress, from 0 to 1.
        let way = |steps: &Option<u64>| {
            let steps = steps.unwrap_or(left).max(1);
            (step as f64 / steps as f64).min(1.0)
        };
        match self {
            Curve::Constant { factor } => base * factor,
            Curve::Step { every, factor } => base * power(*factor, step / every.max(&1)),
            Curve::MultiStep { at, factor } => {
                let passed = at.iter().filter(|&&at| step >= at).count();
                base * power(*factor, passed as u64)
            }
            Curve::Exponential { factor } => base * power(*factor, step),
            Curve::Linear { from, to, steps } => base * (from + (to - from) * way(steps)),
            Curve::Cosine { min_rate, steps } => {
                Anneal::Cosine.between(base, *min_rate, way(steps))
            }
            Curve::CosineRestarts {
                period,
                growth,
                decay,
                min_rate,
            } => {
                let (restart, way) = restart(step, *period, *growth);
                let top = base * power(*decay, restart);
                Anneal::Cosine.between(top, *min_rate, way)
            }
            Curve::Polynomial {
                power,
                min_rate,
                steps,
            } => min_rate + (base - min_rate) * (1.0 - way(steps)).powf(*power),
            Curve::OneCycle {
                rise,
                start_divisor,
                end_divisor,
                anneal,
                steps,
            } => {
                let start = base / start_divisor;
                match cycle(*rise, step, steps.unwrap_or(left)) {
                    (true, way) => anneal.between(start, base, way),
                    (false, way) => anneal.between(base, start / end_divisor, way),
                }
            }
            Curve::InverseSquareRoot { timescale } => {
                let timescale = *timescale as f64;
                base / ((step as f64 + timescale) / timescale).sqrt()
            }
            // The reductions are applied separately.
            Curve::Plateau(_) => base,
        }
    }

    /// Returns the momentum that mirrors a one-cycle: from `high` down to `low` while the rate rises, and
    /// back; `None` for other curves.
    pub(crate) fn opposite(&self, low: f64, high: f64, step: u64, left: u64) -> Option<f64> {
        let Curve::OneCycle {
            rise,
            anneal,
            steps,
            ..
        } = self
        else {
            return None;
        };
        Some(match cycle(*rise, step, steps.unwrap_or(left)) {
            (true, way) => anneal.between(high, low, way),
            (false, way) => anneal.between(low, high, way),
        })
    }

    /// Returns the last step at which the rate changes, if the curve itself determines it.
    pub(crate) fn last_step(&self) -> Option<u64> {
        match self {
            Curve::Step { every, .. } => Some(*every),
            Curve::MultiStep { at, .. } => at.iter().max().copied(),
            Curve::CosineRestarts { period, .. } => Some(*period),
            _ => self.steps(),
        }
    }

    /// Returns the curve's own number of steps, if it has one.
    pub(crate) fn steps(&self) -> Option<u64> {
        match self {
            Curve::Linear { steps, .. }
            | Curve::Cosine { steps, .. }
            | Curve::Polynomial { steps, .. }
            | Curve::OneCycle { steps, .. } => *steps,
            _ => None,
        }
    }
}

impl Anneal {
    fn between(self, from: f64, to: f64, way: f64) -> f64 {
        match self {
            Anneal::Cosine => to + (from - to) * f64::midpoint(1.0, (PI * way).cos()),
            Anneal::Linear => from + (to - from) * way,
        }
    }
}

/// Returns whether a one-cycle is rising after `step` of `steps`, and the progress in that phase.
fn cycle(rise: f64, step: u64, steps: u64) -> (bool, f64) {
    let last = steps.max(2) - 1;
    // As in PyTorch: the peak is one step before the given fraction of the steps.
    let top = (rise * (last + 1) as f64 - 1.0).max(0.0);
    let now = (step as f64).min(last as f64);
    if now <= top && top > 0.0 {
        (true, now / top)
    } else {
        (false, (now - top) / (last as f64 - top))
    }
}

/// Returns the number of restarts before a step, and the progress in the current period.
fn restart(step: u64, period: u64, growth: u64) -> (u64, f64) {
    let (mut count, mut rest, mut length) = (0, step, period.max(1));
    while rest >= length {
        rest -= length;
        length = length.saturating_mul(growth.max(1));
        count += 1;
    }
    (count, rest as f64 / length as f64)
}
