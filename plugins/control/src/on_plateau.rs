//! The `on-plateau` hook: acts when a metric has stopped improving on average.
//!
//! `{"hook": "on-plateau", "config": {"long_term": 10, "short_term": 3, "action": "lower-rate"}}`
//!
//! Like emloop's `OnPlateau`, it compares two means at the end of each epoch: once there are
//! `long_term` values, the metric is on a plateau if the mean of the last `long_term` of them is
//! better than that of the last `short_term`. A few bad epochs are thus not a plateau, but a long
//! noisy stagnation is.

use std::collections::VecDeque;

use sconce_plugin_api::ext::check_tag;
use sconce_plugin_api::moment::BetweenIterations;
use sconce_plugin_api::prelude::*;

/// Which metric is watched, and how the hook responds.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The metric, of validation unless prefixed: `accuracy`, `train/loss`. Default `loss`.
    monitor: Monitor,
    /// Which value is better. Default: `less` for losses and errors, `greater` for accuracies and
    /// other scores; required for any other name.
    rule: Option<Rule>,
    /// Number of epochs in the long-term mean; at least 2. Default 50.
    #[schemars(range(min = 2))]
    long_term: usize,
    /// Number of epochs in the short-term mean, fewer than `long_term`; at least 1. Default 10.
    #[schemars(range(min = 1))]
    short_term: usize,
    /// How much better than the short-term mean the long-term mean must be; not negative.
    /// Default 0.
    #[schemars(range(min = 0.0))]
    min_delta: f64,
    /// Response to a plateau. Default `stop`.
    action: Action,
    /// With `lower-rate`: all learning rates are multiplied by this, above 0 and below 1. A rate
    /// that an `lr-schedule` sets afterwards overrides this. Default 0.1.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    factor: f64,
    /// With `lower-rate`: lower bound of the lowered rates; not negative. Default 0.
    #[schemars(range(min = 0.0))]
    min_rate: f64,
    /// With `save`: the checkpoint's tag, followed by the number of epochs, as in `plateau-12`.
    /// Default: this entry's name.
    tag: Option<String>,
    /// With `lower-rate` and `save`: respond to at most this many plateaus, at least 1. Default: no
    /// limit.
    #[schemars(range(min = 1))]
    times: Option<u64>,
}

/// Response to a plateau. After `lower-rate` and `save` both means start afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Action {
    /// Stop the run.
    Stop,
    /// Lower the learning rates.
    LowerRate,
    /// Save a checkpoint.
    Save,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            monitor: Monitor::from("loss"),
            rule: None,
            long_term: 50,
            short_term: 10,
            min_delta: 0.0,
            action: Action::Stop,
            factor: 0.1,
            min_rate: 0.0,
            tag: None,
            times: None,
        }
    }
}

/// See the [module](self).
pub(crate) struct OnPlateau {
    config: Config,
    rule: Rule,
    tag: String,
    state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    /// The last values, at most `long_term` of them.
    values: VecDeque<f64>,
    /// Number of plateaus responded to.
    #[serde(deserialize_with = "state::count")]
    answered: u64,
    /// Whether this epoch has been validated.
    validated: bool,
}

impl State {
    /// Adds an epoch's value; returns the long-term and short-term means if they show a plateau.
    fn take(&mut self, value: f64, config: &Config, rule: Rule) -> Option<(f64, f64)> {
        if !value.is_finite() {
            return None;
        }
        self.values.push_back(value);
        while self.values.len() > config.long_term {
            self.values.pop_front();
        }
        if self.values.len() < config.long_term {
            return None;
        }
        let mean = |count: usize| {
            let last = self.values.iter().rev().take(count);
            last.sum::<f64>() / count as f64
        };
        let (long, short) = (mean(config.long_term), mean(config.short_term));
        (rule.gain(long, short) > config.min_delta).then_some((long, short))
    }
}

impl OnPlateau {
    fn answer(&mut self, task: &mut At<'_, impl BetweenIterations>, what: &str) -> Result<()> {
        if self.config.action == Action::Stop {
            return task.stop(what);
        }
        self.state.values.clear();
        if self
            .config
            .times
            .is_some_and(|times| self.state.answered >= times)
        {
            return Ok(());
        }
        self.state.answered += 1;
        if self.config.action == Action::Save {
            task.info(what);
            return task
                .checkpoint(&format!("{}-{}", self.tag, task.epoch()))
                .save();
        }
        let Config {
            factor, min_rate, ..
        } = self.config;
        let rates: Vec<(String, f64)> = task
            .groups()
            .map(|group| {
                let rate = group.learning_rate;
                (
                    group.name.to_owned(),
                    (rate * factor).max(min_rate).min(rate),
                )
            })
            .collect();
        for (group, rate) in &rates {
            task.set_learning_rate(group, *rate)?;
        }
        // The first group is the default one.
        let rate = rates.first().map_or(f64::NAN, |(_, rate)| *rate);
        task.info(format_args!("{what}; the learning rate is {rate} now"));
        Ok(())
    }
}

#[hook(
    name = "on-plateau",
    about = "Stops, lowers the learning rate or saves when a metric's short mean is no better than its long one.",
    priority = LOWEST,
    state = state,
    asks = [stop, save_checkpoint, set_learning_rate],
    reads = groups
)]
impl Hook for OnPlateau {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let monitor = &config.monitor;
        let rule = Rule::or_of_metric(config.rule, monitor)?;
        if config.short_term >= config.long_term {
            bail!(
                "`short_term` must be below `long_term`, found {} and {}",
                config.short_term,
                config.long_term
            );
        }
        config.monitor.check(setup, Phase::Val)?;
        let phase = config.monitor.phase().unwrap_or(Phase::Val);
        if let Some(plan) = setup.plan()?
            && let Some(passes) = plan.phase(phase).map(|plan| plan.passes)
            && passes > 0
            && passes < config.long_term as u64
        {
            setup.warn(format_args!(
                "it can't find a plateau: `long_term` is {}, and `{}` has {passes} values in this run",
                config.long_term, config.monitor
            ));
        }
        match config.action {
            Action::Stop => setup.asks(&["stop"])?,
            Action::LowerRate => setup.asks(&["set_learning_rate"])?,
            Action::Save => setup.asks(&["save_checkpoint"])?,
        }
        if config.action != Action::LowerRate {
            setup.reads(&[])?;
        }
        let (unused, action): (&[&str], _) = match config.action {
            Action::Stop => (&["factor", "min_rate", "tag", "times"], "stop"),
            Action::LowerRate => (&["tag"], "lower-rate"),
            Action::Save => (&["factor", "min_rate"], "save"),
        };
        setup.warn_of_unused(unused, format_args!("with `\"action\": \"{action}\"`"));
        let tag = (config.tag.clone()).unwrap_or_else(|| setup.name().to_owned());
        if config.action == Action::Save {
            check_tag(&format!("{tag}-1"))
                .map_err(|reason| HookError::new(format_args!("`tag`: {reason}")))?;
        }
        Ok(OnPlateau {
            tag,
            config,
            rule,
            state: State::default(),
        })
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.state.validated |= task.phase() == Phase::Val && !task.is_initial_validation();
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        let monitor = &self.config.monitor;
        let is_fresh =
            std::mem::take(&mut self.state.validated) || monitor.phase() == Some(Phase::Train);
        if !is_fresh || !task.is_whole() {
            return Ok(());
        }
        let Some(value) = monitor.value(task, Phase::Val) else {
            bail!("the metric `{monitor}` has no value");
        };
        let Some((long, short)) = self.state.take(value, &self.config, self.rule) else {
            return Ok(());
        };
        let Config {
            long_term,
            short_term,
            ..
        } = self.config;
        let what = format!(
            "{monitor} is on a plateau: its mean over {long_term} epochs is {long}, over the last \
             {short_term} {short}"
        );
        self.answer(task, &what)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plateau_is_where_the_long_mean_is_better_than_the_short_one() {
        let first = |config: &Config, rule, values: &[f64]| {
            let mut state = State::default();
            (1..)
                .zip(values)
                .find(|(_, value)| state.take(**value, config, rule).is_some())
                .map(|(epoch, _)| epoch)
        };
        let config = |min_delta| Config {
            long_term: 4,
            short_term: 2,
            min_delta,
            ..Config::default()
        };
        // Means over 4 and 2: 2.75 and 2.0, then 2.25 and 2.0, then 2.0 and 2.0, then 2.0 and 2.5.
        let values = [4.0, 3.0, 2.0, 2.0, 2.0, 2.0, 3.0];
        assert_eq!(first(&config(0.0), Rule::Less, &values), Some(7));
        assert_eq!(first(&config(0.25), Rule::Less, &values), None);
        assert_eq!(first(&config(0.0), Rule::Greater, &values), Some(4));
        assert_eq!(first(&config(0.0), Rule::Less, &values[..6]), None);
        let broken = [f64::NAN, 1.0, 1.0, 2.0, 2.0];
        assert_eq!(first(&config(0.0), Rule::Less, &broken), Some(5));
    }

    /// One iteration per epoch, with these validation losses.
    fn run(losses: &'static [f64]) -> ScriptedRun {
        ScriptedRun::new()
            .epochs(losses.len() as u64)
            .iterations(1)
            .group("fc2", 0.25)
            .metric(Phase::Val, "loss", |epoch| losses[epoch as usize - 1])
    }

    /// Plateaus after the epochs 4 and 7, if the means start afresh at the first.
    const LOSSES: &[f64] = &[3.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0, 0.0, 0.0];

    #[test]
    fn each_plateau_lowers_the_rates_of_all_groups_down_to_the_smallest()
    -> std::result::Result<(), Failed> {
        let config = json!({
            "long_term": 3, "short_term": 1, "action": "lower-rate", "factor": 0.5, "min_rate": 0.04,
        });
        let seen = run(LOSSES).drive::<OnPlateau>(config.clone())?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.epoch, asked.text.as_str(), asked.number))
            .collect();
        assert_eq!(
            asked,
            [
                (4, "default", 0.05),
                (4, "fc2", 0.025),
                (7, "default", 0.04),
                (7, "fc2", 0.025),
            ]
        );
        assert_eq!(
            seen.learning_rates(),
            [0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.04, 0.04]
        );
        run(LOSSES).check_resume::<OnPlateau>(config)
    }

    #[test]
    fn a_plateau_stops_the_run_or_saves_a_few_times() -> std::result::Result<(), Failed> {
        let seen = run(LOSSES).drive::<OnPlateau>(json!({"long_term": 3, "short_term": 1}))?;
        assert_eq!(seen.stopped_at().map(|at| at.epoch), Some(4));
        let reason = "loss is on a plateau: its mean over 3 epochs is 1.6666666666666667, over the \
                  last 1 2";
        assert_eq!(seen.stop_reason(), Some(reason));
        for (times, saved) in [
            (json!(null), &["flat-4", "flat-7"][..]),
            (json!(1), &["flat-4"]),
        ] {
            let config = json!({
                "long_term": 3, "short_term": 1, "action": "save", "tag": "flat", "times": times,
            });
            assert_eq!(run(LOSSES).drive::<OnPlateau>(config)?.saved(), saved);
        }
        Ok(())
    }
}
