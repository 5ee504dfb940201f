//! The `early-stopping` hook: stops when a metric has stopped improving.
//!
//! `{"hook": "early-stopping", "config": {"monitor": "loss", "patience": 5, "restore_best": true}}`
//!
//! The metric is evaluated at the end of each epoch, after validation; an epoch without validation
//! is ignored, unless the metric belongs to training.

use sconce_plugin_api::prelude::*;

/// Which metric is watched, and what stops the run.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The metric, of validation unless prefixed: `accuracy`, `train/loss`. Default `loss`.
    monitor: Monitor,
    /// Which value is better. Default: `less` for losses and errors, `greater` for accuracies and
    /// other scores; required for any other name.
    rule: Option<Rule>,
    /// How much better than the best so far a value must be to count as an improvement; not
    /// negative. Default 0.
    #[schemars(range(min = 0.0))]
    min_delta: f64,
    /// The run stops after this many epochs in a row without improvement, at least 1. Default 3.
    #[schemars(range(min = 1))]
    patience: u64,
    /// A metric without a value is an error; otherwise the epoch is ignored. Default true.
    strict: bool,
    /// Stop as soon as the value is NaN or infinite. Default true.
    check_finite: bool,
    /// Stop as soon as the value is better than this. Default: none.
    stopping_threshold: Option<f64>,
    /// Stop as soon as the value is worse than this. Default: none.
    divergence_threshold: Option<f64>,
    /// Improvements reset the patience only once they are better than this. Default: none.
    baseline: Option<f64>,
    /// Number of epochs at the start of the run that are ignored. Default 0.
    start_from: u64,
    /// Keep the parameters of the best epoch in a checkpoint under this entry's name, and load them
    /// when training ends, for whatever reason. Default false.
    restore_best: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            monitor: Monitor::from("loss"),
            rule: None,
            min_delta: 0.0,
            patience: 3,
            strict: true,
            check_finite: true,
            stopping_threshold: None,
            divergence_threshold: None,
            baseline: None,
            start_from: 0,
            restore_best: false,
        }
    }
}

/// See the [module](self).
pub(crate) struct EarlyStopping {
    name: String,
    config: Config,
    rule: Rule,
    state: State,
    /// Whether the metric has had a value since the run began or was resumed.
    has_value: bool,
    /// Whether the state was loaded, and no epoch has been judged since.
    is_loaded: bool,
}

/// Message that the metric has no value, and which phase has one.
fn no_value(monitor: &Monitor, task: &TaskView<'_>) -> String {
    let name = monitor.name();
    let text = format!("the metric `{monitor}` has no value");
    let has = |phase: &Phase| task.metric_of(*phase, name).is_some();
    match [Phase::Train, Phase::Val].iter().find(|phase| has(phase)) {
        Some(phase) => format!(
            "{text}; it has one in `{0}`: watch `{0}/{name}`",
            phase.name()
        ),
        None => text,
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    best: Option<f64>,
    #[serde(deserialize_with = "state::count")]
    best_epoch: u64,
    /// Epochs since the last improvement.
    #[serde(deserialize_with = "state::count")]
    waited: u64,
    /// Whether this epoch has been validated.
    validated: bool,
    /// With `restore_best`: the checkpoint of the best epoch, once it is saved.
    #[serde(default)]
    kept: Option<CheckpointRef>,
    /// Why this hook has stopped the run, and whether patience was the reason.
    #[serde(default)]
    stopped: Option<(String, bool)>,
}

/// Result of judging a value.
#[derive(Debug, PartialEq)]
enum Verdict {
    Better,
    NoBetter,
    Stop(String),
}

impl State {
    /// Judges an epoch's value.
    fn judge(&mut self, config: &Config, rule: Rule, epoch: u64, value: f64) -> Verdict {
        let monitor = &config.monitor;
        if config.check_finite && !value.is_finite() {
            return Verdict::Stop(format!("{monitor} is {value}"));
        }
        let passes = |limit: &f64| rule.is_better(value, *limit);
        if let Some(limit) = config.stopping_threshold.filter(passes) {
            self.improve(epoch, value, rule);
            return Verdict::Stop(format!("{monitor} is {value}, better than {limit}"));
        }
        let fails = |limit: &f64| rule.is_better(*limit, value);
        if let Some(limit) = config.divergence_threshold.filter(fails) {
            return Verdict::Stop(format!("{monitor} is {value}, worse than {limit}"));
        }
        let is_better = match self.best {
            Some(best) => rule.gain(value, best) > config.min_delta,
            None => value.is_finite(),
        };
        if is_better {
            (self.best, self.best_epoch) = (Some(value), epoch);
        }
        if is_better
            && config
                .baseline
                .is_none_or(|limit| rule.is_better(value, limit))
        {
            self.waited = 0;
            return Verdict::Better;
        }
        self.waited += 1;
        if self.waited < config.patience {
            return if is_better {
                Verdict::Better
            } else {
                Verdict::NoBetter
            };
        }
        let best = self.best.map_or_else(String::new, |best| {
            format!("; the best was {best} after epoch {}", self.best_epoch)
        });
        Verdict::Stop(format!(
            "{monitor} has not got better for {} epochs{best}",
            self.waited
        ))
    }

    /// Forgets which epoch was the best, as its parameters are gone.
    fn forget_best(&mut self) {
        (self.best, self.best_epoch, self.kept) = (None, 0, None);
    }

    fn improve(&mut self, epoch: u64, value: f64, rule: Rule) {
        if self.best.is_none_or(|best| rule.is_better(value, best)) {
            (self.best, self.best_epoch) = (Some(value), epoch);
        }
    }
}

/// Warns if the run is too short for the patience.
fn warn_of_too_few(config: &Config, setup: &Setup<'_>) -> Result<()> {
    let phase = config.monitor.phase().unwrap_or(Phase::Val);
    let plan = setup.plan()?;
    let Some(passes) = plan
        .as_ref()
        .and_then(|plan| plan.phase(phase))
        .map(|plan| plan.passes)
    else {
        return Ok(());
    };
    let has_other_reasons = config.stopping_threshold.is_some()
        || config.divergence_threshold.is_some()
        || config.restore_best;
    if passes > 0 && passes <= config.patience && setup.is_given("patience") && !has_other_reasons {
        setup.warn(format_args!(
            "it can't stop the run: `patience` is {}, and `{}` has {passes} values in it, the first of which is \
             always the best so far",
            config.patience, config.monitor
        ));
    }
    Ok(())
}

#[hook(
    name = "early-stopping",
    about = "Stops the run when a metric has stopped getting better.",
    priority = LOWEST,
    state = state
)]
impl Hook for EarlyStopping {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let rule = Rule::or_of_metric(config.rule, &config.monitor)?;
        config.monitor.check(setup, Phase::Val)?;
        warn_of_too_few(&config, setup)?;
        if !config.restore_best {
            setup.leave_out(Point::AfterSaveCheckpoint);
            setup.asks(&["stop"])?;
        }
        Ok(EarlyStopping {
            name: setup.name().to_owned(),
            config,
            rule,
            state: State::default(),
            has_value: false,
            is_loaded: false,
        })
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.state.validated |= task.phase() == Phase::Val && !task.is_initial_validation();
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        let is_fresh = std::mem::take(&mut self.state.validated)
            || self.config.monitor.phase() == Some(Phase::Train);
        if !is_fresh || !task.is_whole() || task.epoch() <= self.config.start_from {
            return Ok(());
        }
        let Some(value) = self.config.monitor.value(task, Phase::Val) else {
            if self.config.strict {
                bail!("{}", no_value(&self.config.monitor, task));
            }
            return Ok(());
        };
        self.has_value = true;
        let is_loaded = std::mem::take(&mut self.is_loaded);
        let is_kept = self.state.kept.is_some() || !self.config.restore_best;
        if is_loaded && !is_kept && self.state.best.is_some() {
            task.warn(format_args!(
                "no checkpoint has the parameters of the best epoch, {}: it is forgotten",
                self.state.best_epoch
            ));
            self.state.forget_best();
        }
        self.state.stopped = None;
        let before = self.state.best_epoch;
        let verdict = self
            .state
            .judge(&self.config, self.rule, task.epoch(), value);
        if self.config.restore_best && self.state.best_epoch != before {
            task.checkpoint(&self.name).parameters_only().save()?;
        }
        match verdict {
            Verdict::Stop(reason) => {
                task.stop(&reason)?;
                let is_patience = self.state.waited >= self.config.patience;
                self.state.stopped = Some((reason, is_patience));
                Ok(())
            }
            Verdict::Better | Verdict::NoBetter => Ok(()),
        }
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        let is_late = task.phase() == Phase::Train && task.epoch() > self.config.start_from;
        if is_late
            && self.config.strict
            && !self.has_value
            && self.state.best.is_none()
            && task.is_whole()
        {
            bail!("{}", no_value(&self.config.monitor, task));
        }
        if !self.config.restore_best || task.phase() != Phase::Train || self.state.best.is_none() {
            return Ok(());
        }
        let best = self.state.best_epoch;
        let Some(kept) = &self.state.kept else {
            bail!(
                "the parameters of the best epoch, {best}, can't be restored: they were not saved"
            );
        };
        if kept.epoch() != best {
            task.warn(format_args!(
                "the parameters of the best epoch, {best}, were not saved: those of epoch {} are restored",
                kept.epoch()
            ));
        }
        task.checkpoint(kept.tag()).load_parameters()
    }

    fn after_save_checkpoint(
        &mut self,
        _task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        if checkpoint.asked_by == self.name
            && let Some(reference) = checkpoint.reference()
        {
            self.state.kept = Some(reference);
        }
        Ok(())
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.is_loaded = true;
        let is_gone = |kept: &CheckpointRef| checkpoint.is_missing(kept);
        if self.state.kept.as_ref().is_some_and(is_gone) {
            task.warn("the checkpoint of the best epoch is gone: it is forgotten");
            self.state.forget_best();
        }
        // A stop is not part of a checkpoint. With more patience than before, it is none any more.
        match &self.state.stopped {
            Some((reason, is_patience))
                if !is_patience || self.state.waited >= self.config.patience =>
            {
                task.stop(reason)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// After which of these values, one per epoch, the run stops, and why.
    fn stops(config: &Config, rule: Rule, values: &[f64]) -> Option<(u64, String)> {
        let mut state = State::default();
        (1..).zip(values).find_map(|(epoch, value)| {
            match state.judge(config, rule, epoch, *value) {
                Verdict::Stop(reason) => Some((epoch, reason)),
                _ => None,
            }
        })
    }

    #[test]
    fn each_option_decides_when_it_stops() {
        let config = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config
        };
        let falling = [5.0, 4.0, 3.0, 2.0, 1.0];
        let stuck = [5.0, 4.0, 4.0, 4.5, 4.0, 3.0];
        let slow = [5.0, 4.9, 4.8, 4.7, 4.6];
        let broken = [5.0, f64::NAN, 4.0, f64::INFINITY, f64::NAN];
        for (config, values, expected) in [
            (config(|_| ()), &falling[..], None),
            (
                config(|_| ()),
                &stuck,
                Some((5, "for 3 epochs; the best was 4 after epoch 2")),
            ),
            (
                config(|c| c.patience = 2),
                &stuck,
                Some((4, "for 2 epochs")),
            ),
            (config(|c| c.patience = 4), &stuck, None),
            (config(|c| c.min_delta = 0.15), &slow, None),
            (
                config(|c| c.min_delta = 0.5),
                &slow,
                Some((4, "the best was 5 after epoch 1")),
            ),
            (config(|_| ()), &broken, Some((2, "loss is NaN"))),
            (
                config(|c| (c.check_finite, c.patience) = (false, 2)),
                &broken,
                Some((5, "the best was 4 after epoch 3")),
            ),
            (
                config(|c| c.stopping_threshold = Some(2.5)),
                &falling,
                Some((4, "loss is 2, better than 2.5")),
            ),
            (
                config(|c| c.divergence_threshold = Some(4.2)),
                &stuck,
                Some((1, "loss is 5, worse than 4.2")),
            ),
            (
                config(|c| c.baseline = Some(2.5)),
                &falling,
                Some((3, "for 3 epochs")),
            ),
            (config(|c| c.baseline = Some(4.5)), &falling, None),
        ] {
            let found = stops(&config, Rule::Less, values);
            assert_eq!(
                found.as_ref().map(|(epoch, _)| *epoch),
                expected.map(|(epoch, _)| epoch)
            );
            if let (Some((_, found)), Some((_, words))) = (found, expected) {
                assert!(found.contains(words), "{found}");
            }
        }
        // The two rules are opposites.
        let rising = config(|_| ());
        assert_eq!(
            stops(&rising, Rule::Greater, &falling).map(|(epoch, _)| epoch),
            Some(4)
        );
    }

    /// One iteration per epoch, which takes 1 from the parameter `w`.
    fn run(losses: &'static [f64]) -> ScriptedRun {
        ScriptedRun::new()
            .epochs(losses.len() as u64)
            .iterations(1)
            .learning_rate(1.0)
            .empty_model()
            .parameter("w", &[1], &[0.0])
            .gradient("w", |_iteration| vec![1.0])
            .metric(Phase::Val, "loss", |epoch| losses[epoch as usize - 1])
    }

    #[test]
    fn training_stops_after_patience_validations_without_improvement_and_the_best_comes_back()
    -> std::result::Result<(), Failed> {
        let seen = run(&[1.0, 0.5, 0.75, 0.5, 0.25, 0.125])
            .drive::<EarlyStopping>(json!({"patience": 2, "restore_best": true}))?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.epoch, asked.request, asked.text.as_str()))
            .collect();
        let reason = "loss has not got better for 2 epochs; the best was 0.5 after epoch 2";
        assert_eq!(
            asked,
            [
                (1, Request::SaveCheckpoint, "early-stopping"),
                (2, Request::SaveCheckpoint, "early-stopping"),
                (4, Request::Stop, reason),
                (4, Request::LoadParameters, "early-stopping"),
            ]
        );
        assert_eq!(seen.stop_reason(), Some(reason));
        assert_eq!(seen.parameter("w"), [-2.0]);
        Ok(())
    }

    #[test]
    fn epochs_without_validation_and_those_before_the_start_do_not_count()
    -> std::result::Result<(), Failed> {
        let run = run(&[0.1, 0.5, 0.1, 0.6, 0.1, 0.7, 0.1, 0.8]).validate_every(2);
        for (config, epoch) in [
            (json!({"patience": 2}), 6),
            (json!({"patience": 2, "start_from": 2}), 8),
        ] {
            let seen = run.drive::<EarlyStopping>(config)?;
            assert_eq!(seen.stopped_at().map(|at| at.epoch), Some(epoch));
        }
        run.check_resume::<EarlyStopping>(json!({"patience": 2}))
    }

    #[test]
    fn a_metric_that_never_has_a_value_is_an_error_where_that_is_strict()
    -> std::result::Result<(), Failed> {
        let run = run(&[1.0, 1.0]).metric(Phase::Train, "accuracy", |_epoch| 0.5);
        let failed = run.drive::<EarlyStopping>(json!({"monitor": "accuracy"}));
        assert_eq!(
            failed.unwrap_err().message,
            "the metric `accuracy` has no value; it has one in `train`: watch `train/accuracy`"
        );
        let lenient = json!({"monitor": "accuracy", "strict": false});
        assert_eq!(run.drive::<EarlyStopping>(lenient)?.asked(), []);
        let failed = run.drive::<EarlyStopping>(json!({"monitor": "bleurt"}));
        assert_eq!(
            failed.unwrap_err().message,
            "say by `rule` whether a `less` or a `greater` value of `bleurt` is better"
        );
        Ok(())
    }
}
