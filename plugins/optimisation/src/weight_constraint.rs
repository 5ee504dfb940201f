//! The `weight-constraint` hook: keeps parameters within bounds after each update.
//!
//! `{"hook": "weight-constraint", "config": {"kind": "max-norm", "max": 3.0}}`
//!
//! A slice is the part of a parameter at one index of `axis`: with axis 0 a row of a linear layer or a
//! filter of a convolution, that is, all inputs of one unit. Norms are those of slices, as in
//! `torch.renorm`.

use sconce_plugin_api::Vectors;
use sconce_plugin_api::ext::{Change, Collection, Reduction};
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

    /// What gives a slice's norm.
    fn reduction(&self) -> Reduction {
        if self.order == 0.0 {
            Reduction::Largest
        } else {
            Reduction::Powers(self.order)
        }
    }

    /// The norm of a slice, given its reduction.
    fn norm(&self, found: f64) -> f64 {
        if self.order == 0.0 {
            found
        } else {
            found.powf(1.0 / self.order)
        }
    }
}

/// See the [module](self).
pub(crate) struct WeightConstraint {
    config: Config,
    parameters: Vectors,
    factors: Vec<f64>,
}

#[hook(
    name = "weight-constraint",
    about = "Holds norms or signs of parameters within bounds after each update.",
    priority = HIGH,
    requires = ["sconce.tensors/1", "sconce.vectors/1"],
    ranks = "all",
    reads = parameters
)]
impl Hook for WeightConstraint {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        names::check(setup, "parameters", &config.parameters)?;
        if config.min > config.max {
            bail!(
                "`min` must be from 0 to `max`, {}, found {}",
                config.max,
                config.min
            );
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
            parameters: Vectors::named(Collection::Parameters, [""; 0]),
            factors: Vec::new(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let chosen = names::chosen_parameters(task, "parameters", &self.config.parameters)?;
        self.parameters = Vectors::named(Collection::Parameters, chosen).along(self.config.axis);
        Ok(())
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        if !task.update().is_multiple_of(self.config.every) {
            return Ok(());
        }
        if self.config.kind == Kind::NonNegative {
            let change = Change::Clamp(0.0, f64::INFINITY);
            return self.parameters.change(task, change);
        }
        let found = self.parameters.reduce(task, self.config.reduction())?;
        let factors = found
            .iter()
            .map(|found| self.config.factor(self.config.norm(*found)));
        self.factors.clear();
        self.factors.extend(factors);
        self.parameters
            .change(task, Change::ScaleSlices(&self.factors))
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Compares with `torch.renorm` and formulas: see `tests/reference/constraints.py`.
    #[test]
    fn slices_of_any_dimension_are_held_as_pytorch_does() -> std::result::Result<(), Failed> {
        let text = include_str!("../../../tests/reference/constraints.json");
        let cases: Vec<serde_json::Value> = serde_json::from_str(text).expect("JSON");
        assert!(cases.len() > 8);
        for case in cases {
            let numbers = |name: &str| -> Vec<f32> {
                serde_json::from_value(case[name].clone()).expect("numbers")
            };
            let shape: Vec<usize> = serde_json::from_value(case["shape"].clone()).expect("a shape");
            let (before, after) = (numbers("before"), numbers("after"));
            let zeros = vec![0.0; before.len()];
            let seen = ScriptedRun::new()
                .epochs(1)
                .iterations(1)
                .empty_model()
                .parameter("fc.weight", &shape, &before)
                .gradient("fc.weight", move |_iteration| zeros.clone())
                .drive::<WeightConstraint>(case["config"].clone())?;
            let found = seen.parameter("fc.weight");
            assert!(!found.is_empty() && found.len() == after.len());
            for (found, expected) in found.iter().zip(after) {
                assert!(
                    (found - expected).abs() < 1e-5,
                    "{}: {found} {expected}",
                    case["config"]
                );
            }
        }
        Ok(())
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
