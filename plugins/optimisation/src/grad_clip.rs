//! The `grad-clip` hook: clips gradients and publishes their norm.
//!
//! `{"hook": "grad-clip", "config": {"max_norm": 1.0}}`
//!
//! - `norm`: all gradients together are scaled so that their norm is at most `max_norm` (Pascanu et al.
//!   2013, arXiv:1211.5063; as `torch.nn.utils.clip_grad_norm_`).
//! - `value`: each element is clamped to `-max_value ..= max_value`.
//! - `adaptive`: each unit's gradient (a row of a weight, a whole bias) is scaled so that its norm is at
//!   most `clipping` times that of the unit's parameters (Brock et al. 2021, arXiv:2102.06171).

use sconce_plugin_api::Vectors;
use sconce_plugin_api::ext::{Change, Collection, Reduction};
use sconce_plugin_api::moment::ChangesGradients;
use sconce_plugin_api::prelude::*;

/// How gradients are clipped.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Clipping method. Default `norm`.
    by: By,
    /// Upper limit of the norm of all gradients together, above 0. For `norm`. Default 1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_norm: f64,
    /// Order of the norm that is clipped and published, above 0; 0 means the maximum norm. Default 2.
    #[schemars(range(min = 0.0))]
    order: f64,
    /// Upper limit of each element's absolute value, above 0. For `value`. Default 1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_value: f64,
    /// Upper limit of the ratio of a unit's gradient norm to its parameter norm, above 0. For `adaptive`.
    /// Default 0.01.
    #[schemars(extend("exclusiveMinimum" = 0))]
    clipping: f64,
    /// Lower limit of a unit's parameter norm, so that units of zeros can learn; not negative. For
    /// `adaptive`. Default 0.001.
    #[schemars(range(min = 0.0))]
    smallest: f64,
    /// How an infinite or NaN norm is handled. Default `fail`.
    non_finite: NonFinite,
    /// Metric name under which the norm before clipping is published; empty: not published.
    /// Default `grad_norm`.
    publish: String,
}

/// Clipping method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum By {
    /// By the norm of all gradients together.
    Norm,
    /// Each element by itself.
    Value,
    /// Each unit in proportion to the norm of its parameters.
    Adaptive,
    /// No clipping: the norm is only published.
    None,
}

/// How an infinite or NaN norm is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum NonFinite {
    /// An error of this hook, handled according to the entry's `on_error`.
    Fail,
    /// The update is skipped.
    Skip,
    /// The gradients stay unchanged.
    Keep,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            by: By::Norm,
            max_norm: 1.0,
            order: 2.0,
            max_value: 1.0,
            clipping: 0.01,
            smallest: 1e-3,
            non_finite: NonFinite::Fail,
            publish: "grad_norm".to_owned(),
        }
    }
}

impl Config {
    /// The norm of all gradients together.
    fn norm(&self, task: &TaskView<'_>, gradients: &mut Vectors) -> Result<f64> {
        if self.order == 0.0 {
            let largest = gradients.reduce(task, Reduction::Largest)?;
            return Ok(largest.iter().copied().fold(0.0, larger));
        }
        let powers = gradients.reduce(task, Reduction::Powers(self.order))?;
        Ok(powers.iter().sum::<f64>().powf(1.0 / self.order))
    }
}

/// The larger of two, or NaN if one is.
fn larger(one: f64, other: f64) -> f64 {
    if one.is_nan() || other.is_nan() {
        f64::NAN
    } else {
        one.max(other)
    }
}

/// See the [module](self).
pub(crate) struct GradClip {
    config: Config,
    gradients: Vectors,
}

/// For `adaptive`: what has a first dimension for its units, and what is one unit.
struct Units {
    weights: Pair,
    others: Pair,
}

/// Gradients and their parameters.
struct Pair {
    gradients: Vectors,
    parameters: Vectors,
}

impl Units {
    fn of(task: &At<'_, impl ChangesGradients>) -> Units {
        // The first dimension of a weight enumerates its units; a bias or the scale of a norm is one unit.
        let (weights, others): (Vec<_>, Vec<_>) = (task.gradients())
            .map(|gradient| (gradient.name().to_owned(), gradient.shape().len() > 1))
            .partition(|(_, has_units)| *has_units);
        let pair = |chosen: &[(String, bool)]| Pair {
            gradients: Vectors::named(Collection::Gradients, chosen.iter().map(|one| &one.0)),
            parameters: Vectors::named(Collection::Parameters, chosen.iter().map(|one| &one.0)),
        };
        let Pair {
            gradients,
            parameters,
        } = pair(&weights);
        Units {
            weights: Pair {
                gradients: gradients.along(0),
                parameters: parameters.along(0),
            },
            others: pair(&others),
        }
    }

    /// Clips the gradients unit by unit.
    fn clip(mut self, task: &mut TaskView<'_>, config: &Config) -> Result<()> {
        for Pair {
            gradients,
            parameters,
        } in [&mut self.weights, &mut self.others]
        {
            let squares = Reduction::Powers(2.0);
            let parameters = parameters.reduce(task, squares)?;
            let found = gradients.reduce(task, squares)?;
            let units = found.iter().zip(parameters);
            let factors: Vec<f64> = units
                .map(|(gradient, parameter)| {
                    let limit = parameter.sqrt().max(config.smallest) * config.clipping;
                    let norm = gradient.sqrt();
                    if norm > limit { limit / norm } else { 1.0 }
                })
                .collect();
            gradients.change(task, Change::ScaleSlices(&factors))?;
        }
        Ok(())
    }
}

#[hook(
    name = "grad-clip",
    about = "Keeps gradients small by norm, by value or adaptively, and publishes their norm.",
    priority = LOW,
    publishes = ["grad_norm"],
    requires = ["sconce.tensors/1", "sconce.vectors/1"],
    ranks = "all",
    reads = [gradients, parameters]
)]
impl Hook for GradClip {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let (unused, by): (&[&str], _) = match config.by {
            By::Norm => (&["max_value", "clipping", "smallest"], "norm"),
            By::Value => (&["max_norm", "clipping", "smallest"], "value"),
            By::Adaptive => (&["max_norm", "max_value"], "adaptive"),
            By::None => (&["max_norm", "max_value", "clipping", "smallest"], "none"),
        };
        setup.warn_of_unused(
            unused,
            format_args!("with `\"by\": \"{by}\"`: one hook clips in one way"),
        );
        if config.by != By::Adaptive {
            setup.reads(&["gradients"])?;
        }
        if config.non_finite != NonFinite::Skip {
            setup.asks(&[])?;
        }
        Ok(GradClip {
            config,
            gradients: Vectors::all(Collection::Gradients),
        })
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        let config = &self.config;
        let norm = config.norm(task, &mut self.gradients)?;
        if !config.publish.is_empty() {
            task.publish_metric(&config.publish, norm)?;
        }
        if !norm.is_finite() {
            return match config.non_finite {
                NonFinite::Fail => bail!("the norm of the gradients is {norm}"),
                NonFinite::Skip => task.skip_update(),
                NonFinite::Keep => Ok(()),
            };
        }
        match config.by {
            By::Norm if norm > config.max_norm => {
                // As in PyTorch: the small term keeps the quotient finite.
                let factor = config.max_norm / (norm + 1e-6);
                self.gradients.change(task, Change::Scale(factor))
            }
            By::Value => {
                let limit = config.max_value;
                self.gradients.change(task, Change::Clamp(-limit, limit))
            }
            By::Adaptive => {
                // Parameters may be frozen and thawed from one update to the next.
                Units::of(task).clip(task, config)
            }
            By::Norm | By::None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn large_gradients_are_clipped_side_by_side_as_one_after_the_other()
    -> std::result::Result<(), Failed> {
        // Integers, whose sums are exact in any order.
        let numbers: Vec<f32> = (0..40_000).map(|place| (place % 17) as f32 - 8.0).collect();
        let of_batch = numbers.clone();
        let run = ScriptedRun::new()
            .epochs(1)
            .iterations(1)
            .empty_model()
            .parameter("w", &[numbers.len()], &vec![0.0; numbers.len()])
            .gradient("w", move |_iteration| of_batch.clone());
        let squares: f64 = numbers.iter().map(|x| f64::from(x * x)).sum();
        let norm = squares.sqrt();
        for (config, clip) in [
            (json!({"max_norm": 2.0}), 2.0 / (norm + 1e-6)),
            (json!({"order": 0.0, "max_norm": 4.0}), 4.0 / (8.0 + 1e-6)),
        ] {
            let seen = run.drive::<GradClip>(config)?;
            let clipped = numbers.iter().map(|x| (f64::from(*x) * clip) as f32);
            assert_eq!(seen.changes()[0].after, clipped.collect::<Vec<_>>());
        }
        Ok(())
    }

    #[test]
    fn norms_of_any_order() -> std::result::Result<(), Failed> {
        let numbers: Vec<f32> = (1..=20).map(|number| number as f32 - 7.5).collect();
        let run = |numbers: Vec<f32>| {
            ScriptedRun::new()
                .epochs(1)
                .iterations(1)
                .empty_model()
                .parameter("w", &[20], &[0.0; 20])
                .gradient("w", move |_iteration| numbers.clone())
        };
        let published = |order: f64, numbers: &[f32]| -> std::result::Result<f64, Failed> {
            let config = json!({"by": "none", "order": order, "non_finite": "keep"});
            let seen = run(numbers.to_vec()).drive::<GradClip>(config)?;
            Ok(seen.metric(Phase::Train, "grad_norm")[0])
        };
        for order in [1.0, 2.0, 3.0, 0.5] {
            let found = published(order, &numbers)?;
            let sum: f64 = numbers.iter().map(|x| f64::from(x.abs()).powf(order)).sum();
            assert!(
                (found - sum.powf(1.0 / order)).abs() < 1e-9 * found,
                "{order}"
            );
        }
        assert!((published(0.0, &numbers)? - 12.5).abs() < 1e-12);
        let mut broken = numbers;
        broken[1] = f32::NAN;
        for order in [0.0, 2.0] {
            assert!(published(order, &broken)?.is_nan(), "{order}");
        }
        Ok(())
    }
}
