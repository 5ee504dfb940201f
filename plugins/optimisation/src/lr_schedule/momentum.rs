//! Momentum schedules alongside the learning rate.

use sconce_plugin_api::prelude::*;
use serde_json::Value;

use super::{Config, Curve, ScheduleSegment, Stage};

/// How the momentum changes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Momentum {
    /// Inverse to the rate of a `one-cycle`: falls while the rate rises, then rises again (Smith and Topin
    /// 2018). During a warm-up before the cycle it is `high`.
    Opposite {
        /// Momentum at the peak of the rate, from 0 to below 1. Default 0.85.
        #[serde(default = "low")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1))]
        low: f64,
        /// Momentum at both ends, from 0 to below 1. Default 0.95.
        #[serde(default = "high")]
        #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1))]
        high: f64,
    },
    /// A curve of its own, starting from the optimizer's momentum: the curve's rates are momenta, which
    /// stay below 1.
    Curve {
        /// The curve; `plateau` is not allowed.
        schedule: Curve,
    },
}

fn low() -> f64 {
    0.85
}

fn high() -> f64 {
    0.95
}

/// Upper limit of the momentum, since optimizers require values below 1.
const MOST: f64 = 1.0 - 1e-9;

impl Momentum {
    /// Checks that it fits the schedule of the rate.
    pub(crate) fn check(&self, config: &Config) -> Result<()> {
        match self {
            Momentum::Opposite { low, high } => {
                if !(0.0..1.0).contains(low) || !(0.0..1.0).contains(high) {
                    bail!("`momentum` must go between numbers from 0 to below 1");
                }
                let chain = config.chain.iter().map(|stage: &Stage| &stage.schedule);
                let mut curves = config.schedule.iter().chain(chain);
                if !curves.any(|curve| matches!(curve, Curve::OneCycle { .. })) {
                    bail!(
                        "`momentum`: only a `one-cycle` has an opposite; say `\"kind\": \"curve\"`"
                    );
                }
            }
            Momentum::Curve { schedule } => {
                if matches!(schedule, Curve::Plateau(_)) {
                    bail!("`momentum`: a `plateau` changes rates alone");
                }
            }
        }
        Ok(())
    }

    /// Returns the momentum after `step` completed steps of `total`, with `base` as the optimizer's own.
    pub(crate) fn value(&self, way: &ScheduleSegment, base: f64, step: u64, total: u64) -> f64 {
        match self {
            Momentum::Opposite { low, high } => {
                let warm_up = way.warm_up.as_ref().map_or(0, |warm_up| warm_up.steps);
                if step < warm_up {
                    return *high;
                }
                let place = way.place(step, total);
                let opposite = place.and_then(|(stage, step, left)| {
                    stage.schedule.opposite(*low, *high, step, left)
                });
                opposite.unwrap_or(*high)
            }
            Momentum::Curve { schedule } => {
                schedule.rate(base, step, total.max(1)).clamp(0.0, MOST)
            }
        }
    }
}

/// Returns the optimizer's momentum, or first beta, in a manifest.
pub(crate) fn of_optimizer(manifest: &Value) -> Option<f64> {
    let optimizer = manifest.get("optimizer")?;
    let momentum = optimizer.get("momentum").or_else(|| optimizer.get("beta1"));
    momentum.and_then(Value::as_f64)
}
