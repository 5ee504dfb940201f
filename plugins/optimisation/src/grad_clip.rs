//! The `grad-clip` hook: clips gradients and publishes their norm.
//!
//! `{"hook": "grad-clip", "config": {"max_norm": 1.0}}`
//!
//! - `norm`: all gradients together are scaled so that their norm is at most `max_norm` (Pascanu et al.
//!   2013, arXiv:1211.5063; as `torch.nn.utils.clip_grad_norm_`).
//! - `value`: each element is clamped to `-max_value ..= max_value`.
//! - `adaptive`: each unit's gradient (a row of a weight, a whole bias) is scaled so that its norm is at
//!   most `clipping` times that of the unit's parameters (Brock et al. 2021, arXiv:2102.06171).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// Accumulator of a norm: the maximum (order 0) or a sum of powers.
#[derive(Clone, Copy)]
struct Norm {
    order: f64,
    total: f64,
}

impl Norm {
    fn new(order: f64) -> Norm {
        Norm { order, total: 0.0 }
    }

    /// Adds elements.
    fn add<T: Copy + Into<f64>>(&mut self, numbers: &[T]) {
        let more = if self.is_largest() {
            total_of(numbers, |most, number| {
                if number.is_nan() || most.is_nan() {
                    f64::NAN
                } else {
                    most.max(number.abs())
                }
            })
        } else if (self.order - 2.0).abs() < f64::EPSILON {
            total_of(numbers, |sum, number| sum + number * number)
        } else {
            total_of(numbers, |sum, number| sum + number.abs().powf(self.order))
        };
        for more in more {
            self.count(more);
        }
    }

    fn is_largest(self) -> bool {
        self.order == 0.0
    }

    /// Adds another accumulator's total.
    fn count(&mut self, more: f64) {
        self.total = if !self.is_largest() {
            self.total + more
        } else if more.is_nan() || self.total.is_nan() {
            f64::NAN
        } else {
            self.total.max(more)
        };
    }

    /// Adds many elements in parallel. Chunks have a fixed size, so that the number of threads changes no
    /// bit.
    fn add_all<T: Copy + Into<f64> + Sync>(&mut self, numbers: &[T], threads: Threads<'_>) {
        if numbers.len() <= PIECE {
            return self.add(numbers);
        }
        let pieces: Vec<&[T]> = numbers.chunks(PIECE).collect();
        let totals: Vec<AtomicU64> = pieces.iter().map(|_| AtomicU64::new(0)).collect();
        let order = self.order;
        threads.run(pieces.len(), |piece| {
            let mut norm = Norm::new(order);
            norm.add(pieces[piece]);
            totals[piece].store(norm.total.to_bits(), Relaxed);
        });
        for total in totals {
            self.count(f64::from_bits(total.into_inner()));
        }
    }

    fn add_tensor(&mut self, tensor: &Tensor<'_>, threads: Threads<'_>) -> Result<()> {
        match tensor.dtype() {
            Some(DType::F64) => self.add_all(&tensor.to_contiguous::<f64>()?, threads),
            _ => self.add_all(&tensor.to_contiguous::<f32>()?, threads),
        }
        Ok(())
    }

    fn value(self) -> f64 {
        if self.order == 0.0 {
            self.total
        } else {
            self.total.powf(1.0 / self.order)
        }
    }
}

/// Reduces elements into sixteen partial totals, so that the loop is vectorised.
fn total_of<T: Copy + Into<f64>>(numbers: &[T], count: impl Fn(f64, f64) -> f64) -> [f64; 16] {
    let mut totals = [0.0; 16];
    let chunks = numbers.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (total, number) in totals.iter_mut().zip(chunk) {
            *total = count(*total, (*number).into());
        }
    }
    for (total, number) in totals.iter_mut().zip(rest) {
        *total = count(*total, (*number).into());
    }
    totals
}

/// Elements per chunk of a parallel reduction.
const PIECE: usize = 16_384;

/// See the [module](self).
pub(crate) struct GradClip {
    config: Config,
}

impl GradClip {
    /// Clips a parameter's gradient unit by unit.
    fn adapt(&self, task: &mut TaskView<'_>, name: &str) -> Result<()> {
        let parameter = task.parameter(name)?;
        // The first dimension of a weight enumerates its units; a bias or the scale of a norm is one unit.
        let units = match parameter.shape() {
            [] | [_] => 1,
            [units, ..] => (*units).max(1) as usize,
        };
        let limits: Vec<f64> = match parameter.dtype() {
            Some(DType::F64) => self.limits(&parameter.to_contiguous::<f64>()?, units),
            _ => self.limits(&parameter.to_contiguous::<f32>()?, units),
        };
        let mut gradient = task.gradient_mut(name)?;
        if gradient.view().dtype() == Some(DType::F64) {
            shrink(
                gradient.as_mut_slice::<f64>()?,
                &limits,
                |number, factor| number * factor,
            );
        } else {
            let scale = |number: f32, factor: f64| (f64::from(number) * factor) as f32;
            shrink(gradient.as_mut_slice::<f32>()?, &limits, scale);
        }
        Ok(())
    }

    /// Returns the largest norm that each unit's gradient may have.
    fn limits<T: Copy + Into<f64>>(&self, numbers: &[T], units: usize) -> Vec<f64> {
        let size = (numbers.len() / units).max(1);
        let limit = |unit: &[T]| norm_of(unit).max(self.config.smallest) * self.config.clipping;
        numbers.chunks(size).map(limit).collect()
    }
}

fn norm_of<T: Copy + Into<f64>>(numbers: &[T]) -> f64 {
    let mut norm = Norm::new(2.0);
    norm.add(numbers);
    norm.value()
}

fn shrink<T: Copy + Into<f64>>(gradient: &mut [T], limits: &[f64], scale: impl Fn(T, f64) -> T) {
    let size = (gradient.len() / limits.len().max(1)).max(1);
    for (unit, limit) in gradient.chunks_mut(size).zip(limits) {
        let norm = norm_of(unit);
        if norm > *limit {
            for number in unit {
                *number = scale(*number, limit / norm);
            }
        }
    }
}

fn for_each_number(task: &mut TaskView<'_>, change: impl Fn(f64) -> f64 + Sync) -> Result<()> {
    let threads = task.threads();
    task.for_each_gradient(|mut gradient| {
        if gradient.view().dtype() == Some(DType::F64) {
            threads.each(gradient.as_mut_slice::<f64>()?, |numbers| {
                for number in numbers {
                    *number = change(*number);
                }
            });
        } else {
            threads.each(gradient.as_mut_slice::<f32>()?, |numbers| {
                for number in numbers {
                    *number = change(f64::from(*number)) as f32;
                }
            });
        }
        Ok(())
    })
}

#[hook(
    name = "grad-clip",
    about = "Keeps gradients small by norm, by value or adaptively, and publishes their norm.",
    priority = LOW,
    publishes = ["grad_norm"],
    requires = ["sconce.tensors/1"],
    ranks = "all"
)]
impl Hook for GradClip {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        for (name, value) in [
            ("max_norm", config.max_norm),
            ("max_value", config.max_value),
            ("clipping", config.clipping),
        ] {
            if !value.is_finite() || value <= 0.0 {
                bail!("`{name}` must be finite and above 0, found {value}");
            }
        }
        for (name, value) in [("order", config.order), ("smallest", config.smallest)] {
            if !value.is_finite() || value < 0.0 {
                bail!("`{name}` must be finite and not negative, found {value}");
            }
        }
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
        Ok(GradClip { config })
    }

    fn before_update(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        let config = &self.config;
        let mut norm = Norm::new(config.order);
        let threads = task.threads();
        for gradient in task.gradients() {
            norm.add_tensor(&gradient, threads)?;
        }
        let norm = norm.value();
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
                for_each_number(task, |number| number * factor)
            }
            By::Value => {
                let limit = config.max_value;
                for_each_number(task, |number| number.clamp(-limit, limit))
            }
            By::Adaptive => {
                let names: Vec<String> = task
                    .gradients()
                    .map(|gradient| gradient.name().to_owned())
                    .collect();
                names.iter().try_for_each(|name| self.adapt(task, name))
            }
            By::Norm | By::None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_api::testing::{Failed, ScriptedRun};
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
    fn norms_of_any_order() {
        let numbers: Vec<f32> = (1..=20).map(|number| number as f32 - 7.5).collect();
        for order in [1.0, 2.0, 3.0, 0.5] {
            let mut norm = Norm::new(order);
            let (head, tail) = numbers.split_at(11);
            norm.add(head);
            norm.add(tail);
            let sum: f64 = numbers.iter().map(|x| f64::from(x.abs()).powf(order)).sum();
            assert!(
                (norm.value() - sum.powf(1.0 / order)).abs() < 1e-9 * norm.value(),
                "{order}"
            );
        }
        let mut largest = Norm::new(0.0);
        largest.add(&numbers);
        assert!((largest.value() - 12.5).abs() < 1e-12);
        for order in [0.0, 2.0] {
            let mut norm = Norm::new(order);
            norm.add(&[1.0_f32, f32::NAN, 2.0]);
            norm.add(&[3.0_f32; 20]);
            assert!(norm.value().is_nan(), "{order}");
        }
    }
}
