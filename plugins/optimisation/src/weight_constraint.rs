//! The `weight-constraint` hook: keeps parameters within bounds after each update.
//!
//! `{"hook": "weight-constraint", "config": {"kind": "max-norm", "max": 3.0}}`
//!
//! A slice is the part of a parameter at one index of `axis`: with axis 0 a row of a linear layer or a
//! filter of a convolution, that is, all inputs of one unit. Norms are those of slices, as in
//! `torch.renorm`.

use sconce_plugin_api::prelude::*;

use crate::names;

/// Which bounds apply, and to which parameters.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Constraint. Default `max-norm`.
    kind: Kind,
    /// Upper limit of a slice's norm, above 0. For `max-norm` and `min-max-norm`. Default 2.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max: f64,
    /// Lower limit of a slice's norm, not negative. For `min-max-norm`. Default 0.
    #[schemars(range(min = 0.0))]
    min: f64,
    /// Fraction of the distance to the bound covered each time, above 0 and at most 1. For `min-max-norm`.
    /// Default 1.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1.0))]
    rate: f64,
    /// Dimension along which a parameter is split into slices, counted from 0. A parameter with fewer
    /// dimensions is one slice. Default 0.
    #[schemars(range(max = 11))]
    axis: usize,
    /// Order of the norm, above 0; 0 means the maximum norm. Default 2.
    #[schemars(range(min = 0.0))]
    order: f64,
    /// The parameters: name patterns. Default `*.weight`.
    #[schemars(length(min = 1))]
    parameters: Vec<String>,
    /// Number of updates per application, at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
}

/// Constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Slices with a norm above `max` are scaled to it (Srivastava et al. 2014).
    MaxNorm,
    /// Slices whose norm is not between `min` and `max` are scaled towards the nearer bound.
    MinMaxNorm,
    /// All slices are scaled to a norm of 1.
    UnitNorm,
    /// Elements below 0 are set to 0.
    NonNegative,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            kind: Kind::MaxNorm,
            max: 2.0,
            min: 0.0,
            rate: 1.0,
            axis: 0,
            order: 2.0,
            parameters: vec!["*.weight".to_owned()],
            every: 1,
        }
    }
}

impl Config {
    /// Returns the factor for a slice of this norm.
    fn factor(&self, norm: f64) -> f64 {
        // As in PyTorch: the small term keeps the quotient finite.
        let to = |bound: f64| bound / (norm + 1e-7);
        match self.kind {
            Kind::MaxNorm if norm > self.max => to(self.max),
            Kind::UnitNorm => to(1.0),
            Kind::MinMaxNorm => {
                let bound = norm.clamp(self.min, self.max);
                if (bound - norm).abs() > 0.0 {
                    to(self.rate * bound + (1.0 - self.rate) * norm)
                } else {
                    1.0
                }
            }
            Kind::MaxNorm | Kind::NonNegative => 1.0,
        }
    }

    /// Adds an element to the sum (or maximum) that gives the norm.
    fn add(&self, sum: f64, number: f64) -> f64 {
        if self.order == 0.0 {
            sum.max(number.abs())
        } else if (self.order - 2.0).abs() < f64::EPSILON {
            sum + number * number
        } else {
            sum + number.abs().powf(self.order)
        }
    }

    fn norm(&self, sum: f64) -> f64 {
        if self.order == 0.0 {
            sum
        } else {
            sum.powf(1.0 / self.order)
        }
    }

    /// Constrains the elements of a parameter of this shape; `norms` is a scratch buffer.
    fn hold<T: Number>(&self, numbers: &mut [T], shape: &[i64], norms: &mut Vec<f64>) {
        if self.kind == Kind::NonNegative {
            for number in numbers {
                if number.wide() < 0.0 {
                    *number = T::narrow(0.0);
                }
            }
            return;
        }
        let size = |sizes: &[i64]| sizes.iter().product::<i64>().max(1) as usize;
        let slices = shape
            .get(self.axis)
            .map_or(1, |&slices| slices.max(1) as usize);
        let inner = shape
            .get(self.axis + 1..)
            .map_or(numbers.len().max(1), size);
        norms.clear();
        norms.resize(slices, 0.0);
        // A slice is contiguous in runs of `inner` elements, which alternate with those of the other
        // slices.
        for run in numbers.chunks(inner * slices) {
            for (norm, part) in norms.iter_mut().zip(run.chunks(inner)) {
                *norm = part
                    .iter()
                    .fold(*norm, |sum, number| self.add(sum, number.wide()));
            }
        }
        for norm in &mut *norms {
            *norm = self.factor(self.norm(*norm));
        }
        for run in numbers.chunks_mut(inner * slices) {
            for (factor, part) in norms.iter().zip(run.chunks_mut(inner)) {
                if (factor - 1.0).abs() > 0.0 {
                    for number in part {
                        *number = T::narrow(number.wide() * factor);
                    }
                }
            }
        }
    }
}

/// An element of a parameter.
trait Number: Copy {
    fn wide(self) -> f64;
    fn narrow(wide: f64) -> Self;
}

impl Number for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn narrow(wide: f64) -> f32 {
        wide as f32
    }
}

impl Number for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn narrow(wide: f64) -> f64 {
        wide
    }
}

/// See the [module](self).
pub(crate) struct WeightConstraint {
    config: Config,
    parameters: Vec<String>,
    norms: Vec<f64>,
}

#[hook(
    name = "weight-constraint",
    about = "Holds norms or signs of parameters within bounds after each update.",
    priority = HIGH,
    requires = ["sconce.tensors/1"],
    ranks = "all"
)]
impl Hook for WeightConstraint {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        names::check(setup, "parameters", &config.parameters)?;
        let is_positive = |value: f64| value.is_finite() && value > 0.0;
        if !is_positive(config.max) {
            bail!("`max` must be finite and above 0, found {}", config.max);
        }
        if !config.min.is_finite() || config.min < 0.0 || config.min > config.max {
            bail!(
                "`min` must be from 0 to `max`, {}, found {}",
                config.max,
                config.min
            );
        }
        if !is_positive(config.rate) || config.rate > 1.0 {
            bail!("`rate` must be from above 0 to 1, found {}", config.rate);
        }
        if !config.order.is_finite() || config.order < 0.0 {
            bail!(
                "`order` must be finite and not negative, found {}",
                config.order
            );
        }
        if config.every == 0 {
            bail!("`every` must be at least 1, found 0");
        }
        let (unused, kind): (&[&str], _) = match config.kind {
            Kind::MaxNorm => (&["min", "rate"], "max-norm"),
            Kind::MinMaxNorm => (&[], "min-max-norm"),
            Kind::UnitNorm => (&["max", "min", "rate"], "unit-norm"),
            Kind::NonNegative => (&["max", "min", "rate", "axis", "order"], "non-negative"),
        };
        setup.warn_of_unused(unused, format_args!("with `\"kind\": \"{kind}\"`"));
        Ok(WeightConstraint {
            config,
            parameters: Vec::new(),
            norms: Vec::new(),
        })
    }

    fn before_run(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        self.parameters = names::chosen_parameters(task, "parameters", &self.config.parameters)?;
        Ok(())
    }

    fn after_update(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        if !task.update().is_multiple_of(self.config.every) {
            return Ok(());
        }
        for name in &self.parameters {
            let shape = task.parameter(name)?.shape().to_vec();
            let mut parameter = task.parameter_mut(name)?;
            if parameter.view().dtype() == Some(DType::F64) {
                let numbers = parameter.as_mut_slice::<f64>()?;
                self.config.hold(numbers, &shape, &mut self.norms);
            } else {
                let numbers = parameter.as_mut_slice::<f32>()?;
                self.config.hold(numbers, &shape, &mut self.norms);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Compares with `torch.renorm` and formulas: see `tests/reference/constraints.py`.
    #[test]
    fn slices_of_any_dimension_are_held_as_pytorch_does() {
        let text = include_str!("../../../tests/reference/constraints.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(text).expect("JSON");
        assert!(cases.len() > 8);
        for case in cases {
            let config: Config = serde_json::from_value(case["config"].clone()).expect("a config");
            let list = |name: &str| -> Vec<f64> {
                serde_json::from_value(case[name].clone()).expect("numbers")
            };
            let shape: Vec<i64> = serde_json::from_value(case["shape"].clone()).expect("a shape");
            let mut numbers = list("before");
            config.hold(&mut numbers, &shape, &mut Vec::new());
            assert!(!numbers.is_empty() && numbers.len() == list("after").len());
            for (found, expected) in numbers.iter().zip(list("after")) {
                assert!(
                    (found - expected).abs() < 1e-6,
                    "{}: {found} {expected}",
                    case["config"]
                );
            }
            let mut single: Vec<f32> = list("before").iter().map(|&number| number as f32).collect();
            config.hold(&mut single, &shape, &mut Vec::new());
            for (found, expected) in single.iter().zip(list("after")) {
                assert!(
                    (f64::from(*found) - expected).abs() < 1e-5,
                    "{}",
                    case["config"]
                );
            }
        }
    }

    #[test]
    fn rows_are_held_after_every_so_many_updates() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .epochs(1)
            .empty_model()
            .parameter("fc.weight", &[2, 2], &[3.0, -4.0, 0.25, -0.5])
            .parameter("fc.bias", &[2], &[9.0, -9.0])
            .gradient("fc.weight", |_iteration| vec![0.0; 4])
            .gradient("fc.bias", |_iteration| vec![0.0; 2]);
        let factor = 1.0 / (5.0 + 1e-7);
        let row = [(3.0 * factor) as f32, (-4.0 * factor) as f32];
        for (config, after) in [
            (
                json!({"max": 1.0, "every": 3}),
                [row[0], row[1], 0.25, -0.5],
            ),
            (
                json!({"kind": "non-negative", "every": 3}),
                [3.0, 0.0, 0.25, 0.0],
            ),
        ] {
            let seen = run.drive::<WeightConstraint>(config)?;
            let changed = seen.changes().iter();
            let changed: Vec<_> = changed
                .map(|change| {
                    (
                        change.at.update,
                        change.name.as_str(),
                        change.after.as_slice(),
                    )
                })
                .collect();
            assert_eq!(changed, [(3, "fc.weight", &after[..])]);
        }
        let failed = run.drive::<WeightConstraint>(json!({"kind": "min-max-norm", "min": 3.0}));
        let message = "`min` must be from 0 to `max`, 2, found 3";
        assert_eq!(failed.unwrap_err().message, message);
        Ok(())
    }
}
