//! The curves: learning rates as functions of the step.

use std::f64::consts::PI;

use sconce_plugin_api::Rule;
use sconce_plugin_api::prelude::*;

/// How a learning rate goes, from the rate of the optimizer's configuration on. A step is an update or an
/// epoch, by the hook's `by`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Curve {
    /// Always the same.
    Constant {
        /// The rate is multiplied by this; not negative. Default 1.
        #[serde(default = "one")]
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Multiplied by `factor` every so many steps.
    Step {
        /// The steps between two changes, at least 1.
        #[schemars(range(min = 1))]
        every: u64,
        /// What it is multiplied by; not negative. Default 0.1.
        #[serde(default = "tenth")]
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Multiplied by `factor` at certain steps.
    MultiStep {
        /// The numbers of finished steps at which it changes.
        at: Vec<u64>,
        /// What it is multiplied by; not negative. Default 0.1.
        #[serde(default = "tenth")]
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// Multiplied by `factor` in every step.
    Exponential {
        /// What it is multiplied by; not negative.
        #[schemars(range(min = 0.0))]
        factor: f64,
    },
    /// A straight line.
    Linear {
        /// The factor at its beginning; not negative. Default 1.
        #[serde(default = "one")]
        #[schemars(range(min = 0.0))]
        from: f64,
        /// The factor at its end; not negative. Default 0.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        to: f64,
        /// Its steps. Default: all that are left.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// Half a cosine (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts).
    Cosine {
        /// The rate at its end; not negative. Default 0.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        min_rate: f64,
        /// Its steps. Default: all that are left.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// Half a cosine again and again (the same paper).
    CosineRestarts {
        /// The steps of the first, at least 1.
        #[schemars(range(min = 1))]
        period: u64,
        /// Each is so many times as long as the one before it, at least 1. Default 1.
        #[serde(default = "once")]
        #[schemars(range(min = 1))]
        growth: u64,
        /// Each begins at so many times the rate of the one before it; not negative. Default 1.
        #[serde(default = "one")]
        #[schemars(range(min = 0.0))]
        decay: f64,
        /// The rate at their ends; not negative. Default 0.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        min_rate: f64,
    },
    /// A power of the share of the steps that is left.
    Polynomial {
        /// The power; above 0. Default 1.
        #[serde(default = "one")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        power: f64,
        /// The rate at its end; not negative. Default 0.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        min_rate: f64,
        /// Its steps. Default: all that are left.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// Up to the optimizer's rate and down to almost nothing (Smith and Topin 2018, arXiv:1708.07120).
    OneCycle {
        /// The share of the steps that it goes up, from 0 to 1. Default 0.3.
        #[serde(default = "three_tenths")]
        #[schemars(range(min = 0.0, max = 1.0))]
        rise: f64,
        /// It begins at the rate divided by this; above 0. Default 25.
        #[serde(default = "twenty_five")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        start_divisor: f64,
        /// It ends at its beginning divided by this; above 0. Default 10000.
        #[serde(default = "ten_thousand")]
        #[schemars(extend("exclusiveMinimum" = 0))]
        end_divisor: f64,
        /// On which way it goes. Default `cosine`.
        #[serde(default)]
        anneal: Anneal,
        /// Its steps. Default: all that are left.
        #[serde(default)]
        steps: Option<u64>,
    },
    /// Divided by the square root of the steps, as for the transformer (Vaswani et al. 2017).
    InverseSquareRoot {
        /// After so many steps the rate is divided by the square root of 2; at least 1. Default 10000.
        #[serde(default = "ten_thousand_steps")]
        #[schemars(range(min = 1))]
        timescale: u64,
    },
    /// Multiplied by `factor` whenever a metric has stopped getting better; it is looked at the end of each
    /// epoch.
    Plateau(Plateau),
}

/// When a metric has stopped getting better, and what follows.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plateau {
    /// The metric, of the validation unless it says otherwise. Default `loss`.
    pub(crate) monitor: Monitor,
    /// Which value is better. Default: `less` for losses and errors, `greater` for accuracies and other
    /// scores; of any other name it must be said.
    pub(crate) rule: Option<Rule>,
    /// What the rate is multiplied by, from 0 to 1. Default 0.1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) factor: f64,
    /// The epochs without a better value that are waited for. Default 10.
    pub(crate) patience: u64,
    /// How much better a value must be to count as better; not negative. Default 0.0001.
    #[schemars(range(min = 0.0))]
    pub(crate) threshold: f64,
    /// What the threshold is. Default `relative`.
    pub(crate) threshold_is: ThresholdIs,
    /// After a change so many epochs count for nothing. Default 0.
    pub(crate) cooldown: u64,
    /// The rate never goes below this; not negative. Default 0.
    #[schemars(range(min = 0.0))]
    pub(crate) min_rate: f64,
}

/// What a threshold is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ThresholdIs {
    /// A share of the best value.
    Relative,
    /// A difference to it.
    Absolute,
}

/// The way from one rate to another.
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
    /// The rate after `step` finished steps of `left` (at least 1), for a group whose own rate is `base`.
    /// Behind a curve's last step its end goes on.
    pub(crate) fn rate(&self, base: f64, step: u64, left: u64) -> f64 {
        let power = |factor: f64, count: u64| factor.powf(count as f64);
        // How much of the way is done, from 0 to 1.
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
            // What the metric does to it comes on top.
            Curve::Plateau(_) => base,
        }
    }

    /// Where the rate of a one-cycle goes up, a momentum that goes from `high` down to `low`, and back;
    /// nothing of other curves.
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

    /// The last step at which it changes the rate, where it says so itself.
    pub(crate) fn last_step(&self) -> Option<u64> {
        match self {
            Curve::Step { every, .. } => Some(*every),
            Curve::MultiStep { at, .. } => at.iter().max().copied(),
            Curve::CosineRestarts { period, .. } => Some(*period),
            _ => self.steps(),
        }
    }

    /// How long it lasts, where it says so.
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

/// Whether a one-cycle of so many steps goes up after `step` of them, and how much of that way is done.
fn cycle(rise: f64, step: u64, steps: u64) -> (bool, f64) {
    let last = steps.max(2) - 1;
    // As PyTorch counts: the top is a step before the share of the steps.
    let top = (rise * (last + 1) as f64 - 1.0).max(0.0);
    let now = (step as f64).min(last as f64);
    if now <= top && top > 0.0 {
        (true, now / top)
    } else {
        (false, (now - top) / (last as f64 - top))
    }
}

/// Which restart a step belongs to, from 0, and how much of its way is done.
fn restart(step: u64, period: u64, growth: u64) -> (u64, f64) {
    let (mut count, mut rest, mut length) = (0, step, period.max(1));
    while rest >= length {
        rest -= length;
        length = length.saturating_mul(growth.max(1));
        count += 1;
    }
    (count, rest as f64 / length as f64)
}
