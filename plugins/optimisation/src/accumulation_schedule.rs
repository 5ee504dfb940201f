//! The `accumulation-schedule` hook: sets the number of batches per update by epoch.
//!
//! `{"hook": "accumulation-schedule", "config": {"factors": {"0": 8, "4": 4, "8": 1}}}`

use std::collections::BTreeMap;

use sconce_plugin_api::prelude::*;

/// Number of batches per update, by epoch.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Number of batches per update, keyed by the epoch (counted from 0) from which it applies:
    /// `{"0": 8, "4": 1}`. Before the first of these, the manifest's `train.accumulate` applies.
    #[schemars(
        length(min = 1),
        extend(
            "additionalProperties" = {"type": "integer", "minimum": 1, "maximum": 1_000_000_000},
            "patternProperties" = {},
            "propertyNames" = {"pattern": "^(0|[1-9][0-9]*)$"},
            "minProperties" = 1
        )
    )]
    factors: BTreeMap<u64, u64>,
    /// Metric name under which the current factor is published; empty: not published.
    /// Default `accumulation`.
    #[serde(default = "accumulation")]
    publish: String,
}

fn accumulation() -> String {
    "accumulation".to_owned()
}

/// See the [module](self).
pub(crate) struct AccumulationSchedule {
    config: Config,
}

#[hook(
    name = "accumulation-schedule",
    about = "Changes with the epochs how many batches make an update.",
    priority = HIGHER,
    publishes = ["accumulation"],
    requires = ["sconce.requests/1"],
    ranks = "all"
)]
impl Hook for AccumulationSchedule {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if let Some(plan) = setup.plan()? {
            for (epoch, factor) in &config.factors {
                if *epoch >= plan.epochs {
                    setup.warn(format_args!(
                        "`factors`: the run has {} epochs, epoch {epoch} (counted from 0) is not reached",
                        plan.epochs
                    ));
                } else if *factor > plan.batches() {
                    setup.warn(format_args!(
                        "`factors`: an update of {factor} batches is longer than an epoch, which has {}: each \
                         epoch is one update",
                        plan.batches()
                    ));
                }
            }
        }
        Ok(AccumulationSchedule { config })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        let Some((_, factor)) = self.config.factors.range(..=task.epoch()).next_back() else {
            return Ok(());
        };
        if !self.config.publish.is_empty() {
            task.publish_metric(&self.config.publish, *factor as f64)?;
        }
        task.set_accumulation(*factor)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn each_epoch_has_the_factor_that_its_number_has_reached() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new().epochs(4).iterations(4);
        let config = json!({"factors": {"1": 2, "3": 3}});
        let seen = run.drive::<AccumulationSchedule>(config.clone())?;
        let asked = seen.asked_for(Request::SetAccumulation).into_iter();
        let asked: Vec<_> = asked.map(|asked| (asked.at.epoch, asked.number)).collect();
        assert_eq!(asked, [(1, 2.0), (2, 2.0), (3, 3.0)]);
        assert_eq!(seen.metric(Phase::Train, "accumulation"), [2.0, 2.0, 3.0]);
        // Four updates, then two, two, and two of which the last is shorter.
        assert_eq!(seen.learning_rates().len(), 10);
        run.check_resume::<AccumulationSchedule>(config)
    }

    #[test]
    fn factors_that_change_nothing_are_warned_of() -> std::result::Result<(), Failed> {
        let config = json!({"factors": {"0": 5, "3": 2}});
        let seen = ScriptedRun::new().drive::<AccumulationSchedule>(config)?;
        assert_eq!(
            seen.warnings(),
            [
                "`factors`: an update of 5 batches is longer than an epoch, which has 4: each epoch is \
             one update",
                "`factors`: the run has 3 epochs, epoch 3 (counted from 0) is not reached",
            ]
        );
        Ok(())
    }
}
