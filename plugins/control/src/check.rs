//! The `check` hook: fails the run unless a metric reaches a value by some epoch.
//!
//! `{"hook": "check", "config": {"monitor": "accuracy", "required": 0.9, "by_epoch": 5}}`

use sconce_plugin_api::moment::Stops;
use sconce_plugin_api::prelude::*;

/// Which value must be reached, and when.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The metric, of validation unless prefixed: `accuracy`, `train/loss`.
    monitor: Monitor,
    /// The value that the metric must reach.
    required: f64,
    /// Which value is better. Default: `less` for losses and errors, `greater` for accuracies and
    /// other scores; required for any other name.
    #[serde(default)]
    rule: Option<Rule>,
    /// The value must be reached within this many epochs, at least 1. Default: by the end of
    /// training.
    #[serde(default)]
    #[schemars(range(min = 1))]
    by_epoch: Option<u64>,
    /// Stop the run as soon as the value is reached. Default false.
    #[serde(default)]
    stop_when_reached: bool,
    /// Response if the value is not reached. Default `fail`.
    #[serde(default)]
    otherwise: Otherwise,
}

/// Response if the value is not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Otherwise {
    /// Report an error of this hook, handled according to the entry's `on_error`: the run fails.
    #[default]
    Fail,
    /// Stop the run.
    Stop,
    /// Print a warning.
    Warn,
}

/// See the [module](self).
pub(crate) struct Check {
    config: Config,
    rule: Rule,
    state: State,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct State {
    best: Option<f64>,
    reached: bool,
    /// Whether the miss has been reported.
    said: bool,
}

impl Check {
    fn miss(&mut self, task: &mut At<'_, impl Stops>) -> Result<()> {
        if self.state.reached || std::mem::replace(&mut self.state.said, true) {
            return Ok(());
        }
        let Config {
            monitor, required, ..
        } = &self.config;
        let best = self.state.best.map_or_else(
            || "it has had no value".to_owned(),
            |best| format!("its best was {best}"),
        );
        let epochs = task.epoch();
        let message = format!("`{monitor}` has not reached {required} in {epochs} epochs: {best}");
        match self.config.otherwise {
            Otherwise::Fail => bail!("{message}"),
            Otherwise::Stop => task.stop(&message),
            Otherwise::Warn => {
                task.warn(message);
                Ok(())
            }
        }
    }
}

#[hook(
    name = "check",
    about = "Fails the run where a metric does not reach what it must.",
    priority = LOWEST,
    state = state,
    asks = stop
)]
impl Hook for Check {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let rule = Rule::or_of_metric(config.rule, &config.monitor)?;
        config.monitor.check(setup, Phase::Val)?;
        if !config.stop_when_reached && config.otherwise != Otherwise::Stop {
            setup.asks(&[])?;
        }
        let epochs = setup.plan()?.map(|plan| plan.epochs);
        if let (Some(by), Some(epochs)) = (config.by_epoch, epochs)
            && by > epochs
        {
            setup.warn(format_args!(
                "`by_epoch` is {by}, the run has {epochs} epochs: it is judged at the training's end"
            ));
        }
        Ok(Check {
            config,
            rule,
            state: State::default(),
        })
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        let Config {
            monitor,
            required,
            by_epoch,
            stop_when_reached,
            ..
        } = &self.config;
        if let Some(value) = monitor
            .value(task, Phase::Val)
            .filter(|value| !value.is_nan())
        {
            let (rule, state) = (self.rule, &mut self.state);
            if state.best.is_none_or(|best| rule.is_better(value, best)) {
                state.best = Some(value);
            }
            if !state.reached && !rule.is_better(*required, value) {
                state.reached = true;
                if *stop_when_reached {
                    task.stop(&format!("`{monitor}` has reached {required}"))?;
                }
            }
        }
        if by_epoch.is_some_and(|limit| task.epoch() >= limit) {
            return self.miss(task);
        }
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        let by_epoch = self.config.by_epoch;
        let is_due = by_epoch.is_none_or(|limit| limit > task.epochs());
        if task.phase() == Phase::Train && is_due {
            return self.miss(task);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// Accuracies of 0.5, 0.9 and 0.7.
    fn run() -> ScriptedRun {
        let accuracies = [0.5, 0.9, 0.7];
        ScriptedRun::new().metric(Phase::Val, "accuracy", move |epoch| {
            accuracies[epoch as usize - 1]
        })
    }

    #[test]
    fn what_is_not_reached_in_time_fails_or_stops_the_run_or_warns()
    -> std::result::Result<(), Failed> {
        let config = |by_epoch: Option<u64>, otherwise: &str| {
            json!({
                "monitor": "accuracy", "required": 0.95, "by_epoch": by_epoch, "otherwise": otherwise,
            })
        };
        let miss = |epochs, best| {
            format!("`accuracy` has not reached 0.95 in {epochs} epochs: its best was {best}")
        };
        let failed = run().drive::<Check>(config(Some(1), "fail")).unwrap_err();
        assert_eq!(failed.message, miss(1, 0.5));
        let seen = run().drive::<Check>(config(Some(2), "stop"))?;
        assert_eq!(seen.stop_reason(), Some(miss(2, 0.9).as_str()));
        // Without a limit it is judged at the end, and said once.
        for by_epoch in [None, Some(2)] {
            let seen = run().drive::<Check>(config(by_epoch, "warn"))?;
            assert_eq!(seen.warnings(), [miss(by_epoch.unwrap_or(3), 0.9).as_str()]);
            assert_eq!(seen.asked(), []);
        }
        Ok(())
    }

    #[test]
    fn a_value_that_is_reached_counts_for_good_and_may_stop_the_run()
    -> std::result::Result<(), Failed> {
        let reached = json!({"monitor": "accuracy", "required": 0.9});
        let seen = run().drive::<Check>(reached)?;
        assert_eq!((seen.warnings().len(), seen.asked()), (0, &[][..]));
        let stopping = json!({"monitor": "accuracy", "required": 0.9, "stop_when_reached": true});
        let seen = run().drive::<Check>(stopping)?;
        assert_eq!(seen.stopped_at().map(|at| at.epoch), Some(2));
        assert_eq!(seen.stop_reason(), Some("`accuracy` has reached 0.9"));
        Ok(())
    }
}
