//! The `precise-batchnorm` hook: recomputes the means and variances of batch norms before evaluations (Wu
//! and Johnson 2021, arXiv:2105.07576, section 3).
//!
//! `{"hook": "precise-batchnorm", "config": {"samples": 5000}}`
//!
//! Running statistics lag behind the parameters and weight the last batches more than others. Here they are
//! computed from many training samples with the current parameters.

use sconce_plugin_api::prelude::*;

/// How many samples are used, and when statistics are computed.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Number of training samples to use; 0: all. Default 10000.
    samples: u64,
    /// Evaluations before which they are computed. Default `val`.
    before: Vec<Evaluation>,
    /// Number of epochs between validations preceded by the computation, at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Whether they are also computed at the end of training. This affects the test, `weights.safetensors`
    /// and checkpoints saved from then on. Default true.
    at_end: bool,
}

/// An evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Evaluation {
    /// Each validation.
    Val,
    /// The test.
    Test,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            samples: 10_000,
            before: vec![Evaluation::Val],
            every: 1,
            at_end: true,
        }
    }
}

/// See the [module](self).
pub(crate) struct PreciseBatchNorm {
    config: Config,
    has_norms: bool,
}

#[hook(
    name = "precise-batchnorm",
    about = "Recomputes the statistics of batch norms before evaluations and at the end.",
    requires = ["sconce.tensors/1", "sconce.requests/1"]
)]
impl Hook for PreciseBatchNorm {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let is_statistic = |name: &str| name.ends_with("running_mean");
        if let Some(plan) = setup.plan()?
            && !plan
                .parameters
                .iter()
                .any(|parameter| is_statistic(&parameter.name))
        {
            setup.warn("the model has no batch norm: there is nothing to compute");
        }
        Ok(PreciseBatchNorm {
            config,
            has_norms: false,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let is_statistic = |name: &str| name.ends_with("running_mean");
        self.has_norms = task.parameters().any(|tensor| is_statistic(tensor.name()));
        Ok(())
    }

    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        let wanted = match task.phase() {
            Phase::Val => Evaluation::Val,
            Phase::Test => Evaluation::Test,
            _ => return Ok(()),
        };
        let is_due = wanted == Evaluation::Test
            || !task.is_initial_validation() && task.epoch().is_multiple_of(self.config.every);
        if self.has_norms && is_due && self.config.before.contains(&wanted) {
            return task.renew_statistics(self.config.samples);
        }
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        if self.has_norms && self.config.at_end && task.phase() == Phase::Train {
            return task.renew_statistics(self.config.samples);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn statistics_are_computed_before_evaluations_and_at_the_end() -> std::result::Result<(), Failed>
    {
        let run = ScriptedRun::new()
            .epochs(4)
            .initial_validation()
            .test(1)
            .buffer("bn.running_mean", &[1], &[0.0]);
        let renewed = |config| -> std::result::Result<Vec<(u64, Phase, f64)>, Failed> {
            let seen = run.drive::<PreciseBatchNorm>(config)?;
            let asked = seen.asked_for(Request::RenewStatistics).into_iter();
            let asked = asked.map(|asked| (asked.at.epoch, asked.at.phase, asked.number));
            Ok(asked.collect())
        };
        let (train, val, test) = (Phase::Train, Phase::Val, Phase::Test);
        assert_eq!(
            renewed(json!({"every": 2, "samples": 6, "before": ["val", "test"]}))?,
            [
                (2, val, 6.0),
                (4, val, 6.0),
                (4, train, 6.0),
                (4, test, 6.0)
            ]
        );
        assert_eq!(
            renewed(json!({"every": 3, "at_end": false}))?,
            [(3, val, 10_000.0)]
        );
        Ok(())
    }

    #[test]
    fn a_model_without_batch_norms_is_warned_of_and_left_alone() -> std::result::Result<(), Failed>
    {
        let seen = ScriptedRun::new().drive::<PreciseBatchNorm>(json!({}))?;
        assert_eq!(seen.asked(), []);
        let warning = "the model has no batch norm: there is nothing to compute";
        assert_eq!(seen.warnings(), [warning]);
        Ok(())
    }
}
