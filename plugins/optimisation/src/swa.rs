//! The `swa` hook: stochastic weight averaging (Izmailov et al. 2018, arXiv:1803.05407).
//!
//! From `start` on, training continues at its own learning rate, constant or annealed to it, and after
//! every epoch (or every n-th) the parameters are added to a plain mean. Validations and tests use the
//! mean, and at the end it replaces the parameters.
//!
//! The means and variances of batch norms are averaged as well or, as in the paper, recomputed in a pass
//! over the training data.

use std::f64::consts::PI;

use sconce_plugin_api::moment::RenewsStatistics;
use sconce_plugin_api::prelude::*;

use crate::averages::{Averages, Buffers, Evaluated, set_name};

/// Which epochs are averaged, and how they are trained.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Fraction of all epochs that are trained as usual before averaging begins, from 0 to 1; rounded down
    /// to complete epochs. Default 0.75.
    #[schemars(range(min = 0.0, max = 1.0))]
    start: f64,
    /// Number of epochs before averaging begins, instead of `start`. Default: none.
    start_epoch: Option<u64>,
    /// Number of epochs per averaging, at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Learning rate of the averaged epochs; not negative. Default: none, the rate stays as it is.
    #[schemars(range(min = 0.0))]
    learning_rate: Option<f64>,
    /// Number of epochs over which the rate moves from its previous value to `learning_rate`; 0: at once.
    /// Default 10.
    anneal_epochs: u64,
    /// Shape of that transition. Default `cosine`.
    anneal: Anneal,
    /// How buffers, such as the means and variances of a batch norm, are treated. Default `average`.
    buffers: Buffers,
    /// Whether the means and variances of batch norms are recomputed with the mean. This takes
    /// `statistics_samples` training samples, before each evaluation of the mean and when it replaces the
    /// parameters. Default false: they are treated according to `buffers`.
    recompute_statistics: bool,
    /// Number of training samples to use; 0: all. For `recompute_statistics`. Default 0.
    statistics_samples: u64,
    /// Phases that use the mean instead of the parameters. Default `val` and `test`.
    evaluate: Vec<Evaluated>,
    /// Whether the mean permanently replaces the parameters at the end of training. This affects the test
    /// and checkpoints saved from then on; `weights.safetensors` holds what the last evaluation used in
    /// either case. Default true.
    replace_at_end: bool,
    /// Name of the set: the mean is published as `SET/PARAMETER`, also in every checkpoint. Default: the
    /// hook entry's name.
    set: Option<String>,
}

/// Shape of the transition from one learning rate to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Anneal {
    /// Half a cosine.
    Cosine,
    /// A straight line.
    Linear,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            start: 0.75,
            start_epoch: None,
            every: 1,
            learning_rate: None,
            anneal_epochs: 10,
            anneal: Anneal::Cosine,
            buffers: Buffers::Average,
            recompute_statistics: false,
            statistics_samples: 0,
            evaluate: vec![Evaluated::Val, Evaluated::Test],
            replace_at_end: true,
            set: None,
        }
    }
}

impl Config {
    /// Returns how many of `epochs` are trained as usual.
    fn start(&self, epochs: u64) -> u64 {
        let share = (self.start * epochs as f64).floor() as u64;
        self.start_epoch.unwrap_or(share)
    }

    /// Returns the learning rate `since` epochs after the start (0 in the first one), beginning at `from`.
    fn rate(&self, since: u64, from: f64, to: f64) -> f64 {
        let way = match self.anneal_epochs {
            0 => 1.0,
            epochs => (since as f64 / epochs as f64).min(1.0),
        };
        let left = match self.anneal {
            Anneal::Cosine => f64::midpoint(1.0, (PI * way).cos()),
            Anneal::Linear => 1.0 - way,
        };
        to + (from - to) * left
    }
}

impl Config {
    /// Declares what this configuration asks for and reads.
    fn declare(&self, setup: &Setup<'_>) -> Result<()> {
        let has_rate = self.learning_rate.is_some();
        // Without a plan there may be batch norms.
        let has_norms = (setup.plan()?).is_none_or(|plan| {
            let mut parameters = plan.parameters.iter();
            parameters.any(|parameter| is_statistic(&parameter.name))
        });
        let asks = [
            (!self.evaluate.is_empty(), "swap_parameters"),
            (has_rate, "set_learning_rate"),
            (self.recompute_statistics && has_norms, "renew_statistics"),
        ];
        let asks = asks.into_iter().filter(|(is_asked, _)| *is_asked);
        setup.asks(&asks.map(|(_, name)| name).collect::<Vec<_>>())?;
        if has_rate {
            return Ok(());
        }
        setup.reads(&["parameters"])
    }
}

/// Whether a buffer of this name is a batch norm's.
fn is_statistic(name: &str) -> bool {
    name.ends_with("running_mean")
}

/// See the [module](self).
pub(crate) struct Swa {
    config: Config,
    set: String,
    averages: Option<Averages>,
    state: State,
    is_swapped: bool,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct State {
    /// Number of epochs in the mean.
    count: u64,
    /// Learning rate before the first of them.
    rate: Option<f64>,
}

impl Swa {
    /// Recomputes the statistics of batch norms, if configured and if there are any.
    fn recompute(&self, task: &mut At<'_, impl RenewsStatistics>) -> Result<()> {
        let mut parameters = task.parameters();
        if self.config.recompute_statistics && parameters.any(|tensor| is_statistic(tensor.name()))
        {
            return task.renew_statistics(self.config.statistics_samples);
        }
        Ok(())
    }
}

#[hook(
    name = "swa",
    about = "Averages the parameters of the last epochs and trains these at a rate of their own.",
    priority = HIGHER,
    requires = ["sconce.tensors/1", "sconce.values/1", "sconce.requests/1", "sconce.vectors/1"],
    ranks = "all",
    state = state,
    asks = [swap_parameters, renew_statistics],
    reads = parameters
)]
impl Hook for Swa {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let epochs = setup.plan()?.map(|plan| plan.epochs);
        if let Some(epochs) = epochs.filter(|epochs| config.start(*epochs) >= *epochs) {
            setup.warn(format_args!(
                "nothing will be averaged: the mean begins after {} epochs, and there are {epochs}",
                config.start(epochs)
            ));
        }
        if config.start_epoch.is_some() {
            setup.warn_of_unused(&["start"], "beside `start_epoch`");
        }
        if config.learning_rate.is_none() {
            setup.warn_of_unused(&["anneal", "anneal_epochs"], "without `learning_rate`");
        }
        if !config.recompute_statistics {
            setup.warn_of_unused(&["statistics_samples"], "without `recompute_statistics`");
        }
        Averages::claim(setup, &config.evaluate, config.replace_at_end)?;
        config.declare(setup)?;
        Ok(Swa {
            set: set_name(config.set.clone(), setup)?,
            config,
            averages: None,
            state: State::default(),
            is_swapped: false,
        })
    }

    fn before_loop(&mut self, task: &mut BeforeLoop<'_>) -> Result<()> {
        if let Some(averages) = &self.averages {
            self.is_swapped = averages.swap_in(task, &self.config.evaluate)?;
            if self.is_swapped {
                // The host serves this request after the swap, and so updates the mean's statistics.
                return self.recompute(task);
            }
        }
        Ok(())
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        let start = self.config.start(task.epochs());
        let since = task.epoch().checked_sub(start);
        let (Phase::Train, Some(since), Some(to)) =
            (task.phase(), since, self.config.learning_rate)
        else {
            return Ok(());
        };
        let now = task.learning_rate();
        let from = *self.state.rate.get_or_insert(now);
        task.set_learning_rate(Groups::All, self.config.rate(since, from, to))
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if task.phase() != Phase::Train || !task.is_whole() {
            return Ok(());
        }
        // The first epoch after `start` is the first in the mean.
        let since = task
            .epoch()
            .checked_sub(self.config.start(task.epochs()).saturating_add(1));
        if !since.is_some_and(|since| since.is_multiple_of(self.config.every)) {
            return Ok(());
        }
        if let Some(averages) = &mut self.averages {
            averages.update(task, 1.0 / (self.state.count + 1) as f64)?;
        } else {
            let averages = Averages::begin(task, &self.set, self.config.buffers)?;
            self.averages = Some(averages);
            self.state.count = 0;
        }
        self.state.count += 1;
        Ok(())
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        let replaces = self.config.replace_at_end;
        let has_replaced = replaces && !self.is_swapped && task.phase() == Phase::Train;
        Averages::after_loop(self.averages.as_ref(), &mut self.is_swapped, replaces, task)?;
        match (&self.averages, has_replaced) {
            (Some(_), true) => self.recompute(task),
            _ => Ok(()),
        }
    }

    /// Picks up the mean that the host restored, if the checkpoint had it.
    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.is_swapped = false;
        self.averages = Averages::found(task, &self.set, self.config.buffers)?;
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        state::check_count("count", self.state.count)?;
        if let Some(rate) = self.state.rate.filter(|rate| *rate < 0.0) {
            bail!("the state's `rate` must not be negative, found {rate}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    /// Epochs of one iteration, each of which takes 1 from the parameter `w` at a rate of 1.
    fn run(epochs: u64) -> ScriptedRun {
        ScriptedRun::new()
            .epochs(epochs)
            .iterations(1)
            .learning_rate(1.0)
            .empty_model()
            .parameter("w", &[1], &[0.0])
            .gradient("w", |_iteration| vec![1.0])
    }

    fn asked(seen: &Seen) -> Vec<(u64, Phase, Request)> {
        let asked = seen.asked().iter();
        asked
            .map(|asked| (asked.at.epoch, asked.at.phase, asked.request))
            .collect()
    }

    #[test]
    fn the_epochs_behind_the_start_are_averaged_evaluated_and_take_over()
    -> std::result::Result<(), Failed> {
        let config = json!({"start_epoch": 1});
        let seen = run(3).drive::<Swa>(config.clone())?;
        let (swap, back) = (Request::SwapParameters, Request::SwapBack);
        assert_eq!(
            asked(&seen),
            [2, 3]
                .map(|epoch| [(epoch, Phase::Val, swap), (epoch, Phase::Val, back)])
                .concat()
        );
        // The mean of -2 and -3.
        assert_eq!(seen.parameter("w"), [-2.5]);
        run(3).check_resume::<Swa>(config)?;
        let seen =
            run(5).drive::<Swa>(json!({"start": 0.3, "every": 2, "replace_at_end": false}))?;
        let means = seen.changes().iter().map(|change| change.after.clone());
        // The mean of -2 and -4.
        assert_eq!(means.collect::<Vec<_>>(), [[-3.0]]);
        assert_eq!(seen.parameter("w"), [-5.0]);
        Ok(())
    }

    #[test]
    fn the_rate_goes_to_its_own_and_statistics_are_computed_for_the_mean()
    -> std::result::Result<(), Failed> {
        let config = json!({
            "start_epoch": 1, "learning_rate": 0.5, "anneal_epochs": 2, "anneal": "linear",
        });
        let seen = run(4).drive::<Swa>(config.clone())?;
        assert_eq!(seen.learning_rates(), [1.0, 1.0, 0.75, 0.5]);
        run(4).check_resume::<Swa>(config)?;
        let run = run(1).buffer("bn.running_mean", &[1], &[0.0]);
        let config =
            json!({"start_epoch": 0, "recompute_statistics": true, "statistics_samples": 6});
        let seen = run.drive::<Swa>(config)?;
        assert_eq!(
            asked(&seen),
            [
                (1, Phase::Val, Request::SwapParameters),
                (1, Phase::Val, Request::RenewStatistics),
                (1, Phase::Val, Request::SwapBack),
                (1, Phase::Train, Request::RenewStatistics),
            ]
        );
        let renewed = seen.asked_for(Request::RenewStatistics).into_iter();
        assert_eq!(
            renewed.map(|asked| asked.number).collect::<Vec<_>>(),
            [6.0, 6.0]
        );
        Ok(())
    }
}
