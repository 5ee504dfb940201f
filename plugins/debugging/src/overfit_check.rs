//! The `overfit-check` hook: a model that can't overfit one batch is broken; this says where.
//!
//! `{"hook": "overfit-check", "config": {"below": 0.01, "iterations": 200}}`

use sconce_plugin_api::moment::Stops;
use sconce_plugin_api::prelude::*;

use crate::numbers::magnitude;

/// Which loss must be reached, and when.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The batch's loss must fall to this value or below. Default 0.01.
    below: f64,
    /// Within this many training iterations, at least 1. Default 100.
    #[schemars(range(min = 1))]
    iterations: u64,
    /// Whether it is an error if an epoch has more than one batch: each batch would undo what the
    /// previous one taught. Default true.
    one_batch: bool,
    /// Gradients are reported as tiny if their norm is below this fraction of their parameter's
    /// norm, above 0. Default 1e-8.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    tiny: f64,
    /// Response if the loss is not reached. Default `fail`.
    otherwise: Otherwise,
}

/// Response if the loss is not reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Otherwise {
    /// Report an error of this hook, with the explanation: the run fails.
    Fail,
    /// Stop the run, with the explanation as a warning.
    Stop,
    /// Print a warning with the explanation; the run continues.
    Warn,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            below: 0.01,
            iterations: 100,
            one_batch: true,
            tiny: 1e-8,
            otherwise: Otherwise::Fail,
        }
    }
}

/// Statistics of a learned parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Watched {
    name: String,
    /// The largest norm of its gradients so far, relative to the parameter's own norm; `None` if
    /// there was no gradient.
    gradient: Option<f64>,
}

/// State saved in a checkpoint.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    first: Option<f64>,
    /// The lowest loss so far.
    best: Option<f64>,
    parameters: Vec<Watched>,
    is_over: bool,
}

/// See the [module](self).
pub(crate) struct OverfitCheck {
    config: Config,
    state: State,
}

impl OverfitCheck {
    /// Explains why the loss was not reached, as far as that can be seen.
    fn explanation(&self, task: &TaskView<'_>) -> String {
        let mut reasons = Vec::new();
        let list = |wanted: &dyn Fn(&Watched) -> bool| {
            let found = self.state.parameters.iter().filter(|one| wanted(one));
            let names: Vec<String> = found.map(|one| format!("`{}`", one.name)).collect();
            names.join(", ")
        };
        let is_zero = |one: &Watched| one.gradient == Some(0.0);
        let is_tiny = |one: &Watched| {
            let gradient = one.gradient.unwrap_or(0.0);
            gradient > 0.0 && gradient < self.config.tiny
        };
        for (names, what) in [
            (
                list(&|one| one.gradient.is_none()),
                "no gradient (the loss does not depend on them, or what is between lets none through)",
            ),
            (
                list(&is_zero),
                "gradients of zero (dead units, or saturated ones)",
            ),
            (list(&is_tiny), "tiny gradients beside their own size"),
        ] {
            if !names.is_empty() {
                reasons.push(format!("{what}: {names}"));
            }
        }
        let rate = task.learning_rate();
        let (first, now) = (
            self.state.first.unwrap_or(f64::NAN),
            task.loss().unwrap_or(f64::NAN),
        );
        if rate == 0.0 {
            reasons.push("the learning rate is 0".to_owned());
        } else if now.is_nan() || now > first {
            reasons.push(format!(
                "the loss has grown from {first:.4} to {now:.4}: the learning rate of {rate:e} may be \
                 too high"
            ));
        } else if reasons.is_empty() {
            reasons.push(format!(
                "all parameters have gradients, and the loss has fallen from {first:.4} to {now:.4}: more \
                 iterations or a higher learning rate than {rate:e} may do; dropout, augmentation, label \
                 smoothing and weight decay keep it from falling to 0"
            ));
        }
        reasons.join("; ")
    }

    fn give_up(&mut self, task: &mut At<'_, impl Stops>) -> Result<()> {
        self.state.is_over = true;
        let Config {
            below,
            iterations,
            otherwise,
            ..
        } = self.config;
        let best = self.state.best.unwrap_or(f64::NAN);
        let what = format!(
            "one batch can't be learned by heart: its loss has not reached {below} in {iterations} \
             iterations, its best was {best:.4}"
        );
        let why = self.explanation(task);
        match otherwise {
            Otherwise::Fail => bail!("{what}. {why}"),
            Otherwise::Warn => {
                task.warn(format_args!("{what}. {why}"));
                Ok(())
            }
            Otherwise::Stop => {
                task.warn(why);
                task.stop(&what)
            }
        }
    }
}

#[hook(
    name = "overfit-check",
    about = "Asks that one batch can be learned by heart, and says what keeps it from being.",
    priority = LOW,
    state = state,
    reads = groups
)]
impl Hook for OverfitCheck {
    type Config = Config;

    fn new(config: Config, _setup: &Setup<'_>) -> Result<Self> {
        Ok(OverfitCheck {
            config,
            state: State::default(),
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if task.phase() != Phase::Train || self.state.is_over {
            return Ok(());
        }
        let (batches, iterations) = (task.batches(), self.config.iterations);
        if self.config.one_batch && batches > 1 {
            bail!(
                "an epoch has {batches} batches, and one batch is to be learned by heart: make \
                 `train.batch_size` as large as the training data, or the data smaller, or set \
                 `one_batch` to false"
            );
        }
        let all = task.epochs().saturating_mul(batches);
        if all < iterations {
            bail!(
                "the run has {all} iterations, fewer than the {iterations} of `iterations`: \
                 `train.epochs` must be at least {}",
                iterations.div_ceil(batches.max(1))
            );
        }
        if self.state.parameters.is_empty() {
            let learned = task.parameters().filter(|parameter| !parameter.is_buffer());
            let watched = |name: &str| Watched {
                name: name.to_owned(),
                gradient: None,
            };
            self.state.parameters = learned.map(|parameter| watched(parameter.name())).collect();
        }
        Ok(())
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        if self.state.is_over {
            return Ok(());
        }
        for gradient in task.gradients() {
            let name = gradient.name();
            let Some(norm) = magnitude(&gradient)?.map(crate::numbers::Magnitude::norm) else {
                continue;
            };
            let own =
                magnitude(&task.parameter(name)?)?.map_or(0.0, crate::numbers::Magnitude::norm);
            // A bias initialised to zero has no norm to compare with.
            let part = if own > 0.0 { norm / own } else { norm };
            let found = self
                .state
                .parameters
                .iter_mut()
                .find(|one| one.name == name);
            if let Some(one) = found {
                // NaN is reported by way of the loss; JSON has no infinity.
                let part = if part.is_finite() { part } else { f64::MAX };
                one.gradient = Some(one.gradient.map_or(part, |most| most.max(part)));
            }
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.phase() != Phase::Train || self.state.is_over {
            return Ok(());
        }
        let Some(loss) = task.loss() else {
            return Ok(());
        };
        let (below, iteration) = (self.config.below, task.iteration());
        if loss.is_finite() {
            self.state.first.get_or_insert(loss);
            self.state.best = Some(self.state.best.map_or(loss, |best| best.min(loss)));
        }
        if loss <= below {
            self.state.is_over = true;
            return task.stop(&format!(
                "one batch is learned by heart: its loss is {loss:.6} after {iteration} iterations"
            ));
        }
        if iteration >= self.config.iterations {
            return self.give_up(task);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Six epochs of one batch, with these losses.
    fn run(losses: [f64; 6]) -> ScriptedRun {
        ScriptedRun::new()
            .epochs(6)
            .iterations(1)
            .empty_model()
            .parameter("w", &[1], &[1.0])
            .parameter("b", &[1], &[1.0])
            .gradient("w", |_iteration| vec![1.0])
            .gradient("b", |_iteration| vec![0.0])
            .loss(move |at| losses[at.iteration.min(5) as usize])
    }

    #[test]
    fn the_run_ends_once_its_batch_is_learned_by_heart() -> std::result::Result<(), Failed> {
        let seen = run([1.0, 0.5, 0.125, 0.25, 0.0, 0.0])
            .drive::<OverfitCheck>(json!({"below": 0.125, "iterations": 6}))?;
        assert_eq!(
            seen.stop_reason(),
            Some("one batch is learned by heart: its loss is 0.125000 after 3 iterations")
        );
        Ok(())
    }

    #[test]
    fn what_keeps_a_batch_from_being_learned_is_explained() -> std::result::Result<(), Failed> {
        let config = |otherwise: &str| json!({"iterations": 3, "otherwise": otherwise});
        let what = "one batch can't be learned by heart: its loss has not reached 0.01 in 3 iterations, \
                its best was 0.5000";
        let dead = "gradients of zero (dead units, or saturated ones): `b`";
        let slow = run([1.0, 0.5, 0.75, 0.0, 0.0, 0.0]);
        let failed = slow.drive::<OverfitCheck>(config("fail")).unwrap_err();
        assert_eq!(failed.message, format!("{what}. {dead}"));
        assert_eq!(failed.at.map(|at| at.iteration), Some(3));
        let seen = slow.drive::<OverfitCheck>(config("stop"))?;
        assert_eq!(
            (seen.stop_reason(), seen.warnings()),
            (Some(what), vec![dead])
        );
        let grown = run([1.0, 0.5, 2.0, 0.0, 0.0, 0.0]).drive::<OverfitCheck>(config("warn"))?;
        let high =
            "the loss has grown from 1.0000 to 2.0000: the learning rate of 1e-1 may be too high";
        assert_eq!(grown.warnings(), [format!("{what}. {dead}; {high}")]);
        assert_eq!(grown.asked(), []);
        Ok(())
    }

    #[test]
    fn a_run_that_can_not_show_it_is_refused() {
        let failed = ScriptedRun::new().drive::<OverfitCheck>(json!({}));
        let message = failed.unwrap_err().message;
        assert!(message.starts_with("an epoch has 4 batches"), "{message}");
        let failed = run([0.0; 6]).drive::<OverfitCheck>(json!({"iterations": 7}));
        assert_eq!(
            failed.unwrap_err().message,
            "the run has 6 iterations, fewer than the 7 of `iterations`: `train.epochs` must be at least 7"
        );
    }
}
