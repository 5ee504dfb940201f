//! The `lr-range-test` hook: tries rates from tiny to huge over a few updates and suggests the one at which
//! the loss falls fastest (Smith 2017, arXiv:1506.01186).
//!
//! `{"hook": "lr-range-test", "config": {"steps": 100}}`
//!
//! It saves a checkpoint before the first update and rolls back to it after the last, so that the updates
//! in between leave no trace in parameters, counters, data order or any hook's state.

mod curve;
mod plot;

use std::path::PathBuf;

use sconce_plugin_api::moment::ChangesSettings;
use sconce_plugin_api::prelude::*;

use curve::{Curve, Suggestion, Way};

/// Which rates are tried, and how the result is used.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The smallest rate, above 0. Default 0.0000001.
    #[schemars(extend("exclusiveMinimum" = 0))]
    min: f64,
    /// The largest rate, above `min`. Default 1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max: f64,
    /// Number of updates, each at its own rate, at least 2. Default 100.
    #[schemars(range(min = 2))]
    steps: u64,
    /// How the rate rises from the smallest to the largest. Default `exponential`.
    way: Way,
    /// Fraction of the exponential average of the losses kept at each step, from 0 to below 1.
    /// Default 0.98.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1))]
    smoothing: f64,
    /// Multiple of the best smoothed loss above which the test ends; 0: never. Default 4.
    #[schemars(range(min = 0.0))]
    stop_factor: f64,
    /// Criterion for the suggested rate. Default `steepest`.
    suggestion: Suggestion,
    /// Number of initial rates that are never suggested. Default 10.
    skip_begin: usize,
    /// Number of final rates that are never suggested. Default 1.
    skip_end: usize,
    /// Whether the optimizer's rate is set to the suggestion; a `lr-schedule` still starts from the
    /// manifest's rate. Default false.
    apply: bool,
    /// Whether the run stops after the test instead of training. Default true.
    stop: bool,
    /// Metric name under which the suggestion is published; empty: not published.
    /// Default `suggested_learning_rate`.
    publish: String,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            min: 1e-7,
            max: 1.0,
            steps: 100,
            way: Way::Exponential,
            smoothing: 0.98,
            stop_factor: 4.0,
            suggestion: Suggestion::Steepest,
            skip_begin: 10,
            skip_end: 1,
            apply: false,
            stop: true,
            publish: "suggested_learning_rate".to_owned(),
        }
    }
}

/// Progress of the test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Not started.
    #[default]
    Before,
    /// Rates are being tried.
    During,
    /// All rates have been tried; the roll back is due.
    Found,
    /// Rolled back.
    Over,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct State {
    stage: Stage,
    curve: Curve,
    /// Sum and number of the losses of the current update.
    losses: (f64, u64),
    /// Losses of this rank's batches in the current update, as bits, where batches are divided among ranks.
    #[serde(default)]
    own_losses: Vec<u64>,
    suggestion: Option<f64>,
    /// During the test: the checkpoint that it ends with.
    #[serde(default)]
    kept: Option<CheckpointRef>,
}

impl State {
    /// Adds the loss of a batch of the current update.
    fn add(&mut self, loss: f64) {
        let (sum, count) = &mut self.losses;
        *sum += loss;
        *count += 1;
    }

    /// Rejects states that no test saves.
    fn check(&self) -> Result<()> {
        let tried = &self.curve.tried;
        state::check_count("losses", self.losses.1)?;
        let rates = tried.iter().map(|tried| tried.rate).chain(self.suggestion);
        match rates.into_iter().find(|rate| *rate < 0.0) {
            Some(rate) => bail!("the state has the learning rate {rate}, which is negative"),
            None => Ok(()),
        }
    }
}

/// See the [module](self).
pub(crate) struct LrRangeTest {
    config: Config,
    /// Name of the hook entry, made safe for its files and its checkpoint.
    name: String,
    directory: PathBuf,
    state: State,
}

impl LrRangeTest {
    /// Computes the suggestion from the rates tried, reports it and writes the plot.
    fn conclude(&mut self, task: &TaskView<'_>) -> Result<()> {
        let Config {
            suggestion,
            skip_begin,
            skip_end,
            ..
        } = self.config;
        self.state.stage = Stage::Found;
        self.state.suggestion = self.state.curve.suggest(suggestion, skip_begin, skip_end);
        let name = &self.name;
        let count = self.state.curve.tried.len();
        match self.state.suggestion {
            Some(rate) => task.info(format_args!(
                "{count} rates tried, suggested: {rate:.3e}; see {name}.svg"
            )),
            None => task.warn(format_args!(
                "{count} rates tried are too few to suggest one; see {name}.svg"
            )),
        }
        if task.ranks().rank() > 0 {
            return Ok(());
        }
        plot::write(
            &self.directory,
            name,
            &self.state.curve,
            self.state.suggestion,
        )
    }

    /// Publishes and applies the suggestion, as configured, after the roll back.
    fn use_it(&self, task: &mut At<'_, impl ChangesSettings>) -> Result<()> {
        let name = &self.config.publish;
        let Some(rate) = self.state.suggestion else {
            return Ok(());
        };
        if !name.is_empty() {
            task.publish_metric(name, rate)?;
        }
        if self.config.apply {
            task.set_learning_rate(Groups::All, rate)?;
        }
        Ok(())
    }
}

#[hook(
    name = "lr-range-test",
    about = "Tries learning rates from tiny to huge, suggests one, and puts everything back.",
    priority = LOWEST,
    publishes = ["suggested_learning_rate"],
    requires = ["sconce.requests/1"],
    ranks = "all"
)]
impl Hook for LrRangeTest {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if config.min >= config.max {
            bail!(
                "`min` must be below `max`, found {} and {}",
                config.min,
                config.max
            );
        }
        if let Some(updates) = setup.plan()?.map(|plan| plan.updates())
            && updates < config.steps
        {
            setup.warn(format_args!(
                "`steps` is {}, the run has {updates} updates: the largest rates are not tried",
                config.steps
            ));
        }
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        Ok(LrRangeTest {
            config,
            name: setup.name().chars().map(plain).collect(),
            directory: setup.run_directory().to_owned(),
            state: State::default(),
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        match self.state.stage {
            // Saved after all hooks of this mount point have run, and so with the current state.
            Stage::Before => task.checkpoint(&self.name).save(),
            Stage::Found => {
                (self.state.stage, self.state.kept) = (Stage::Over, None);
                task.checkpoint(&self.name).delete()
            }
            Stage::During | Stage::Over => Ok(()),
        }
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if task.phase() == Phase::Train && self.state.stage == Stage::Before {
            self.state.stage = Stage::During;
        }
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        if let (Phase::Train, Stage::During, Some(loss)) =
            (task.phase(), self.state.stage, task.loss())
        {
            if task.ranks().size() == 1 {
                self.state.add(loss);
            } else if !task.ranks().is_repeated() {
                self.state.own_losses.push(loss.to_bits());
            }
        }
        Ok(())
    }

    /// Runs after every schedule, so that this rate takes effect.
    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        if self.state.stage != Stage::During {
            return Ok(());
        }
        let Config {
            min,
            max,
            steps,
            way,
            smoothing,
            stop_factor,
            ..
        } = self.config;
        if task.ranks().size() > 1 {
            // In the order of ranks, these are in the order of batches: the sum has the bits of one process.
            let own = std::mem::take(&mut self.state.own_losses);
            for loss in task.ranks().gather_values(&own)?.into_iter().flatten() {
                self.state.add(f64::from_bits(loss));
            }
        }
        let rate = way.rate((min, max), self.state.curve.tried.len() as u64, steps);
        let (sum, count) = std::mem::take(&mut self.state.losses);
        let is_over = self
            .state
            .curve
            .add(rate, sum / count as f64, smoothing, stop_factor);
        if is_over || self.state.curve.tried.len() as u64 >= steps {
            return self.conclude(task);
        }
        task.set_learning_rate(Groups::All, rate)
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        match (task.in_training(), self.state.stage) {
            (Some(mut task), Stage::Found) => task.checkpoint(&self.name).roll_back(),
            _ => Ok(()),
        }
    }

    /// If training was too short for all rates, uses those that were tried and restores the parameters.
    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        match self.state.stage {
            Stage::During => {
                task.warn("the training is shorter than the test: it ends with fewer rates");
                self.conclude(task)?;
                (self.state.stage, self.state.kept) = (Stage::Over, None);
                task.checkpoint(&self.name).load_parameters()?;
                task.checkpoint(&self.name).delete()
            }
            Stage::Over if self.config.stop => task.checkpoint(&self.name).delete(),
            _ => Ok(()),
        }
    }

    fn after_save_checkpoint(
        &mut self,
        _task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        if checkpoint.tag == self.name && checkpoint.error.is_none() {
            self.state.kept = checkpoint.reference();
        }
        Ok(())
    }

    /// The result is used here and not in `before_epoch`: the checkpoint is of an epoch that had begun, in
    /// which that method sets nothing and requests no more than a deletion.
    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let loaded = checkpoint.reference();
        if loaded
            .as_ref()
            .is_some_and(|loaded| loaded.tag() == self.name)
        {
            self.state.kept = loaded;
        }
        let kept = self.state.kept.as_ref();
        if kept.is_some_and(|kept| checkpoint.is_missing(kept)) {
            bail!(
                "the test of rates in progress can't end: the checkpoint `{}` from before it is gone; resume from one \
                 that was saved before or after the test",
                self.name
            );
        }
        if self.state.stage != Stage::Found {
            return Ok(());
        }
        self.use_it(task)?;
        if self.config.stop {
            (self.state.stage, self.state.kept) = (Stage::Over, None);
            return task.stop("the learning rate range test is over");
        }
        Ok(())
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        state::to_bytes(&self.state)
    }

    /// Keeps a result when the run rolls back to before it.
    fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
        let loaded: State = state::from_bytes(bytes)?;
        loaded.check()?;
        if !matches!(self.state.stage, Stage::Found | Stage::Over) {
            self.state = loaded;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::{Value, json};

    use super::*;

    /// Four rates from 1 to 4, of which the loss falls fastest at 2.
    fn config(stop: bool) -> Value {
        json!({
            "min": 1.0, "max": 4.0, "steps": 4, "way": "linear", "smoothing": 0.0, "skip_begin": 0,
            "skip_end": 0, "apply": true, "stop": stop,
        })
    }

    fn run() -> ScriptedRun {
        ScriptedRun::new()
            .epochs(2)
            .iterations(6)
            .validation(0)
            .empty_model()
            .parameter("w", &[1], &[0.0])
            .gradient("w", |_iteration| vec![1.0])
            .loss(|at| [4.0, 3.0, 1.0, 2.0, 2.0, 2.0][at.batch as usize])
    }

    #[test]
    fn rates_are_tried_one_suggested_and_the_run_is_as_before() -> std::result::Result<(), Failed> {
        let seen = run().drive::<LrRangeTest>(config(true))?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.iteration, asked.request, asked.number))
            .collect();
        assert_eq!(
            asked,
            [
                (0, Request::SaveCheckpoint, 0.0),
                (0, Request::SetLearningRate, 1.0),
                (1, Request::SetLearningRate, 2.0),
                (2, Request::SetLearningRate, 3.0),
                (4, Request::RollBack, 0.0),
                (0, Request::SetLearningRate, 2.0),
                (0, Request::Stop, 0.0),
                (0, Request::DeleteCheckpoint, 0.0),
            ]
        );
        assert_eq!(seen.metric(Phase::Train, "suggested_learning_rate"), [2.0]);
        assert_eq!(
            seen.stop_reason(),
            Some("the learning rate range test is over")
        );
        assert_eq!(seen.parameter("w"), [0.0]);
        assert_eq!(seen.checkpoints(), [""; 0]);
        let text = seen.file("lr-range-test.json").unwrap();
        let losses = json!([4.0, 3.0, 1.0, 2.0]);
        assert_eq!(
            serde_json::from_str::<Value>(&text).expect("JSON"),
            json!({
                "suggestion": 2.0, "rates": [1.0, 2.0, 3.0, 4.0], "losses": losses, "smoothed": losses,
            })
        );
        Ok(())
    }

    #[test]
    fn training_goes_on_at_the_suggested_rate() -> std::result::Result<(), Failed> {
        let seen = run().drive::<LrRangeTest>(config(false))?;
        let mut rates = vec![1.0, 2.0, 3.0, 3.0];
        rates.extend([2.0; 12]);
        assert_eq!(seen.learning_rates(), rates);
        assert_eq!(seen.checkpoints(), [""; 0]);
        Ok(())
    }

    #[test]
    fn a_training_that_is_too_short_uses_the_rates_that_were_tried()
    -> std::result::Result<(), Failed> {
        let mut config = config(true);
        config["steps"] = json!(20);
        let seen = run().drive::<LrRangeTest>(config)?;
        assert_eq!(
            seen.warnings(),
            [
                "`steps` is 20, the run has 12 updates: the largest rates are not tried",
                "the training is shorter than the test: it ends with fewer rates",
            ]
        );
        assert_eq!(seen.parameter("w"), [0.0]);
        Ok(())
    }

    #[test]
    fn ranks_try_rates_with_the_losses_of_all_batches() -> std::result::Result<(), Failed> {
        let losses = [0.1, 0.7, 0.2, 0.3, 0.9, 0.4, 0.6, 0.5];
        let script = |batch: fn(u64, usize) -> usize, rank: usize| {
            let run = run().epochs(1);
            run.loss(move |at| losses[batch(at.batch, rank)])
        };
        let config = config(false);
        let alone = script(|at, _| at as usize, 0).iterations(8).accumulate(2);
        let alone = alone.drive::<LrRangeTest>(config.clone())?;
        let all = ScriptedRun::drive_ranks::<LrRangeTest>(&config, 2, |rank| {
            script(|at, rank| 2 * at as usize + rank, rank).iterations(4)
        })?;
        let expected = alone.file("lr-range-test.json").unwrap();
        assert_eq!(all[0].file("lr-range-test.json").unwrap(), expected);
        assert!(all[1].file("lr-range-test.json").is_err(), "one writes it");
        for seen in &all {
            assert_eq!(seen.learning_rates(), alone.learning_rates());
        }
        Ok(())
    }
}
