//! The `ema` hook: an exponential moving average of the parameters.
//!
//! After every update `average += (1 - decay) · (parameter - average)`, as in PyTorch's
//! `torch.optim.swa_utils.get_ema_multi_avg_fn`, here in one pass over both, in place. Validations and
//! tests use the average; training continues with the parameters.
//!
//! **Warm-up.** An average that begins at the initial parameters would remember them for about
//! `1 / (1 - decay)` updates. So the decay of averaging number `n` (from 0) is smaller at first:
//! `min(decay, (1 + n) / (10 + n))`, as in TensorFlow's `tf.train.ExponentialMovingAverage` with
//! `num_updates`; or, with `exponential`, `decay · (1 - exp(-(1 + n) / warm_up_updates))`, as in
//! MMEngine's `ExpMomentumEMA` and YOLO's `ModelEMA`.

use sconce_plugin_api::moment::ChangesParameters;
use sconce_plugin_api::prelude::*;

use crate::averages::{Averages, Buffers, Evaluated, set_name};

/// How fast the average follows the parameters, when it is updated and which phases use it.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Fraction of the average kept at each averaging, from 0 to 1. Default 0.9999.
    #[schemars(range(min = 0.0, max = 1.0))]
    decay: f64,
    /// How the decay grows to its final value. Default `ratio`.
    warm_up: WarmUp,
    /// Time constant of an `exponential` warm-up: the number of averagings after which the decay has
    /// reached 63 % of its final value; above 0. Default 2000.
    #[schemars(extend("exclusiveMinimum" = 0))]
    warm_up_updates: f64,
    /// Unit of `every` and `begin`, after which averagings happen. Default `update`.
    by: Unit,
    /// Updates (or epochs) per averaging, at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Number of completed updates (or epochs) after which the average begins, as a copy of the parameters.
    /// Until then evaluations use the parameters. Default 0: it begins with the run.
    begin: u64,
    /// How buffers, such as the means and variances of a batch norm, are treated. Default `copy`.
    buffers: Buffers,
    /// Phases that use the average instead of the parameters. Default `val` and `test`.
    evaluate: Vec<Evaluated>,
    /// Whether the average permanently replaces the parameters at the end of training. This affects the
    /// test and checkpoints saved from then on; `weights.safetensors` holds what the last evaluation used
    /// in either case. Default false.
    replace_at_end: bool,
    /// Name of the set: the average is published as `SET/PARAMETER`, also in every checkpoint. Default: the
    /// hook entry's name.
    set: Option<String>,
}

/// How the decay grows to its final value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum WarmUp {
    /// `min(decay, (1 + n) / (10 + n))` at averaging number n, from 0.
    Ratio,
    /// `decay · (1 - exp(-(1 + n) / warm_up_updates))`.
    Exponential,
    /// No warm-up: `decay` from the first averaging on.
    None,
}

/// Unit in which averagings are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    /// Updates of the parameters.
    Update,
    /// Training epochs.
    Epoch,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            decay: 0.9999,
            warm_up: WarmUp::Ratio,
            warm_up_updates: 2000.0,
            by: Unit::Update,
            every: 1,
            begin: 0,
            buffers: Buffers::Copy,
            evaluate: vec![Evaluated::Val, Evaluated::Test],
            replace_at_end: false,
            set: None,
        }
    }
}

impl Config {
    /// Returns the decay of averaging number `n`, from 0.
    fn decay(&self, n: u64) -> f64 {
        let n = n as f64;
        match self.warm_up {
            WarmUp::Ratio => self.decay.min((1.0 + n) / (10.0 + n)),
            WarmUp::Exponential => self.decay * (1.0 - (-(1.0 + n) / self.warm_up_updates).exp()),
            WarmUp::None => self.decay,
        }
    }
}

/// See the [module](self).
pub(crate) struct Ema {
    config: Config,
    set: String,
    /// `None` before the average begins.
    averages: Option<Averages>,
    /// Number of averagings so far.
    count: u64,
    /// Whether the current pass uses the average.
    is_swapped: bool,
}

impl Ema {
    /// Begins or updates the average if that is due after `done` updates (or epochs).
    fn step(&mut self, task: &mut At<'_, impl ChangesParameters>, done: u64) -> Result<()> {
        let Config {
            begin,
            every,
            buffers,
            ..
        } = self.config;
        let Some(since) = done.checked_sub(begin) else {
            return Ok(());
        };
        let Some(averages) = &mut self.averages else {
            self.averages = Some(Averages::begin(task, &self.set, buffers)?);
            self.count = 0;
            return Ok(());
        };
        if since > 0 && since.is_multiple_of(every) {
            averages.update(task, 1.0 - self.config.decay(self.count))?;
            self.count += 1;
        }
        Ok(())
    }

    fn done(&self, task: &TaskView<'_>) -> u64 {
        match self.config.by {
            Unit::Update => task.update(),
            Unit::Epoch => task.epoch(),
        }
    }
}

#[hook(
    name = "ema",
    about = "Keeps an exponential moving average of the parameters and evaluates it.",
    priority = HIGHER,
    requires = ["sconce.tensors/1", "sconce.values/1", "sconce.requests/1", "sconce.vectors/1"],
    ranks = "all",
    state = count,
    asks = swap_parameters,
    reads = parameters
)]
impl Hook for Ema {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if let Some(plan) = setup.plan()? {
            let (total, steps) = match config.by {
                Unit::Update => (plan.updates(), "updates"),
                Unit::Epoch => (plan.epochs, "epochs"),
            };
            if config.begin >= total && total > 0 {
                setup.warn(format_args!(
                    "nothing will be averaged: `begin` is {}, the run has {total} {steps}",
                    config.begin
                ));
            }
        }
        if config.warm_up != WarmUp::Exponential {
            setup.warn_of_unused(&["warm_up_updates"], "unless `warm_up` is `exponential`");
        }
        Averages::claim(setup, &config.evaluate, config.replace_at_end)?;
        if config.evaluate.is_empty() {
            setup.asks(&[])?;
        }
        Ok(Ema {
            set: set_name(config.set.clone(), setup)?,
            config,
            averages: None,
            count: 0,
            is_swapped: false,
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        if self.averages.is_none() {
            self.averages = Averages::found(task, &self.set, self.config.buffers)?;
        }
        if self.averages.is_some() {
            return Ok(());
        }
        let done = self.done(task);
        self.step(task, done)
    }

    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        if let Some(averages) = &self.averages {
            self.is_swapped = averages.swap_in(task, &self.config.evaluate)?;
        }
        Ok(())
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        if self.config.by == Unit::Update {
            return self.step(task, task.update());
        }
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if self.config.by == Unit::Epoch && task.phase() == Phase::Train && task.is_whole() {
            return self.step(task, task.epoch());
        }
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        let replaces = self.config.replace_at_end;
        Averages::after_loop(self.averages.as_ref(), &mut self.is_swapped, replaces, task)
    }

    /// Picks up the averages that the host restored, if the checkpoint had them.
    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.is_swapped = false;
        self.averages = Averages::found(task, &self.set, self.config.buffers)?;
        if self.averages.is_none() {
            let done = self.done(task);
            return self.step(task, done);
        }
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        state::check_count("count", self.count)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_parameter_is_averaged_side_by_side_as_one_after_the_other()
    -> std::result::Result<(), Failed> {
        let steps: Vec<f32> = (0..40_000).map(|place| (place % 17) as f32 - 8.0).collect();
        let gradient = steps.clone();
        let run = ScriptedRun::new()
            .epochs(1)
            .iterations(2)
            .learning_rate(1.0)
            .empty_model()
            .parameter("w", &[steps.len()], &vec![0.0; steps.len()])
            .gradient("w", move |_iteration| gradient.clone());
        let seen = run.drive::<Ema>(json!({"decay": 0.5, "warm_up": "none"}))?;
        // The parameter goes from 0 to -g and -2 g; its average moves half of the way each time.
        for (change, share) in seen.changes().iter().zip([-0.5, -1.25]) {
            let expected: Vec<f32> = steps.iter().map(|step| share * step).collect();
            assert_eq!(change.after, expected);
        }
        assert_eq!(seen.changes().len(), 2);
        Ok(())
    }

    #[test]
    fn evaluations_use_the_average_from_its_beginning_on() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .epochs(3)
            .iterations(1)
            .learning_rate(1.0)
            .test(1)
            .empty_model()
            .parameter("w", &[1], &[0.0])
            .gradient("w", |_iteration| vec![1.0]);
        let config = json!({
            "decay": 0.5, "warm_up": "none", "by": "epoch", "begin": 2, "replace_at_end": true,
        });
        let seen = run.drive::<Ema>(config.clone())?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.epoch, asked.at.phase, asked.request))
            .collect();
        let (swap, back) = (Request::SwapParameters, Request::SwapBack);
        assert_eq!(
            asked,
            [
                (2, Phase::Val, swap),
                (2, Phase::Val, back),
                (3, Phase::Val, swap),
                (3, Phase::Val, back),
                (3, Phase::Test, swap),
                (3, Phase::Test, back),
            ]
        );
        // Half of the way from -2 to -3.
        assert_eq!(seen.parameter("w"), [-2.5]);
        run.check_resume::<Ema>(config)
    }
}
