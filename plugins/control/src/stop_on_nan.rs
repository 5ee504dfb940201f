//! The `stop-on-nan` hook: stops the run, skips the update, or rolls back when a value is NaN or
//! infinite.
//!
//! `{"hook": "stop-on-nan", "config": {"watch": ["loss", "gradients"], "action": "skip-update"}}`

use std::path::PathBuf;

use sconce_plugin_api::Vectors;
use sconce_plugin_api::ext::Collection;
use sconce_plugin_api::moment::{SkipsUpdate, Stops};
use sconce_plugin_api::prelude::*;

use crate::dump;
use crate::finite::{Search, is_bad};
use crate::roll_back::{self, RollBack};

/// What is checked, and how the hook responds.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// What is checked. Default: only the loss, which costs nothing.
    watch: Vec<Watched>,
    /// Check every this many iterations (epochs, for metrics); at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Response to a bad value. Default `fail`.
    action: Action,
    /// Number of bad iterations in a row that are tolerated, with a warning at the first only. With
    /// `skip-update` their updates are skipped, and one more in a row is an error. Default 0; 10
    /// with `skip-update`.
    allowed: Option<u64>,
    /// Whether infinite values are bad too, not only NaN. Default true.
    infinite: bool,
    /// Which checkpoint `roll-back` returns to, and how often.
    roll_back: roll_back::Config,
    /// Write at most this many bad batches: inputs, targets, outputs and loss, and for a module its
    /// input and output, as `NAME/EPOCH-ITERATION.safetensors`. Default 1.
    dump: u64,
}

/// Values that can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Watched {
    /// The loss of each batch, in training and validation.
    Loss,
    /// The model's outputs, in training and validation.
    Outputs,
    /// The gradients of each update.
    Gradients,
    /// The parameters and buffers after each update.
    Parameters,
    /// All metrics at the end of each pass.
    Metrics,
    /// The output of each module, in training and validation: of all modules, or of those in the
    /// entry's `modules`. The message names the first bad one.
    Modules,
}

/// Response to a bad value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Action {
    /// Report an error of this hook, handled according to the entry's `on_error`: the run fails.
    Fail,
    /// Stop the run.
    Stop,
    /// Skip the update (bad losses and gradients in training); any other bad value fails.
    SkipUpdate,
    /// Roll back to a checkpoint, and continue from there with lower learning rates.
    RollBack,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            watch: vec![Watched::Loss],
            every: 1,
            action: Action::Fail,
            allowed: None,
            infinite: true,
            roll_back: roll_back::Config::default(),
            dump: 1,
        }
    }
}

impl Config {
    /// Declares what this configuration asks for and reads.
    fn declare(&self, setup: &Setup<'_>, roll_back: &RollBack) -> Result<()> {
        let watched = [
            (Watched::Loss, "loss"),
            (Watched::Outputs, "outputs"),
            (Watched::Gradients, "gradients"),
            (Watched::Parameters, "parameters"),
        ];
        let watched = watched.into_iter();
        let mut reads: Vec<&str> = watched
            .filter(|(watched, _)| self.watch.contains(watched))
            .map(|(_, name)| name)
            .collect();
        if self.dump > 0 {
            reads.push("batch");
        }
        match self.action {
            Action::Fail => setup.asks(&[])?,
            Action::Stop => setup.asks(&["stop"])?,
            Action::SkipUpdate => setup.asks(&["skip_update"])?,
            Action::RollBack => {
                setup.asks(&roll_back.asks().collect::<Vec<_>>())?;
                reads.extend(roll_back.reads());
            }
        }
        setup.reads(&reads)
    }
}

/// See the [module](self).
pub(crate) struct StopOnNan {
    config: Config,
    allowed: u64,
    /// Number of bad iterations in a row.
    row: u64,
    /// Whether this iteration is bad.
    is_bad: bool,
    /// Directory of the bad batches.
    directory: PathBuf,
    dumped: u64,
    /// The most that `dumped` has been: a rollback leaves these files.
    written: u64,
    roll_back: RollBack,
    outputs: Search,
    gradients: Search,
    parameters: Search,
    module: Search,
    /// Reason for a rollback, to be requested at the next point where it is legal.
    wanted: Option<String>,
}

impl StopOnNan {
    fn watches(&self, watched: Watched) -> bool {
        self.config.watch.contains(&watched)
    }

    fn is_due(&self, task: &TaskView<'_>, watched: Watched) -> bool {
        let is_known = matches!(task.phase(), Phase::Train | Phase::Val);
        // The current iteration is not counted yet.
        let now = task.iteration() + 1;
        self.watches(watched) && is_known && now.is_multiple_of(self.config.every)
    }

    /// Writes the current batch, the first time that it is found bad.
    fn dump(&mut self, task: &TaskView<'_>, module: Option<&Module<'_>>) -> Result<()> {
        if self.is_bad || self.dumped >= self.config.dump {
            return Ok(());
        }
        let mut tensors = Vec::new();
        for variable in task.tensors(Collection::Batch) {
            tensors.extend(dump::copy(variable.name(), &variable)?);
        }
        if let Some(module) = module {
            let name = module.name();
            tensors.extend(dump::copy(&format!("{name}.input"), &module.input()?)?);
            tensors.extend(dump::copy(&format!("{name}.output"), &module.output()?)?);
        }
        if tensors.is_empty() {
            return Ok(());
        }
        let (epoch, iteration) = (task.epoch(), task.iteration());
        let file = match task.phase() {
            Phase::Train => format!("{epoch}-{iteration}.safetensors"),
            phase => format!("{phase}-{epoch}-{}.safetensors", task.batch()),
        };
        let path = path_inside(&self.directory, file)?;
        dump::write(&path, &tensors)?;
        self.dumped += 1;
        self.written = self.dumped;
        task.warn(format_args!("the batch is in `{}`", path.display()));
        Ok(())
    }

    /// Responds to a bad value where the update can still be left out.
    fn meet_in_update(&mut self, task: &mut At<'_, impl SkipsUpdate>, what: &str) -> Result<()> {
        let skips = self.config.action == Action::SkipUpdate;
        if skips {
            task.skip_update()?;
        }
        self.respond(task, what, None, skips)
    }

    /// Responds to a bad value.
    fn meet(
        &mut self,
        task: &mut At<'_, impl Stops>,
        what: &str,
        module: Option<&Module<'_>>,
    ) -> Result<()> {
        self.respond(task, what, module, false)
    }

    fn respond(
        &mut self,
        task: &mut At<'_, impl Stops>,
        what: &str,
        module: Option<&Module<'_>>,
        skips: bool,
    ) -> Result<()> {
        self.dump(task, module)?;
        if !std::mem::replace(&mut self.is_bad, true) {
            self.row += 1;
        }
        if self.row <= self.allowed && (skips || self.config.action != Action::SkipUpdate) {
            if self.row == 1 {
                let then = if skips {
                    "; the update is left out"
                } else {
                    ""
                };
                task.warn(format_args!("{what}{then}"));
            }
            return Ok(());
        }
        let again = match self.row {
            0 | 1 => String::new(),
            row => format!(", and something was in each of {row} iterations in a row"),
        };
        match self.config.action {
            Action::Stop => task.stop(&format!("{what}{again}")),
            Action::RollBack => {
                self.wanted.get_or_insert(format!("{what}{again}"));
                Ok(())
            }
            Action::Fail | Action::SkipUpdate => bail!("{what}{again}"),
        }
    }
}

#[hook(
    name = "stop-on-nan",
    about = "Ends the run, leaves the update out, or goes back, where a value is infinite or NaN.",
    priority = HIGH,
    requires = ["sconce.tensors/1", "sconce.vectors/1"],
    ranks = "all",
    state = [row, dumped, roll_back],
    asks = [stop, skip_update, save_checkpoint, roll_back, set_learning_rate],
    reads = [batch, outputs, groups]
)]
impl Hook for StopOnNan {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        if config.watch.is_empty() {
            bail!("`watch` must name something to look at");
        }
        let default = if config.action == Action::SkipUpdate {
            10
        } else {
            0
        };
        for (watched, point) in [
            (Watched::Outputs, Point::AfterForward),
            (Watched::Gradients, Point::BeforeUpdate),
            (Watched::Parameters, Point::AfterUpdate),
            (Watched::Modules, Point::ModuleForward),
        ] {
            if !config.watch.contains(&watched) {
                setup.leave_out(point);
            }
        }
        let rolls_back = config.action == Action::RollBack;
        if !rolls_back && !config.watch.contains(&Watched::Metrics) {
            setup.leave_out(Point::AfterEpoch);
        }
        if !rolls_back {
            for point in [
                Point::BeforeEpoch,
                Point::AfterCycle,
                Point::AfterSaveCheckpoint,
                Point::AfterLoadCheckpoint,
            ] {
                setup.leave_out(point);
            }
        }
        let way_back = RollBack::new(&config.roll_back, setup, 0.5)?;
        config.declare(setup, &way_back)?;
        let infinite = config.infinite;
        let of_name =
            |collection, name| Search::through(Vectors::named(collection, [name]), infinite);
        Ok(StopOnNan {
            allowed: config.allowed.unwrap_or(default),
            row: 0,
            is_bad: false,
            directory: setup.path_below("name", setup.name())?,
            dumped: 0,
            written: 0,
            roll_back: way_back,
            outputs: of_name(Collection::Batch, "outputs"),
            gradients: Search::through_all(Collection::Gradients, infinite),
            parameters: Search::through_all(Collection::Parameters, infinite),
            module: of_name(Collection::Module, "output"),
            config,
            wanted: None,
        })
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        self.roll_back.keep(task)
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        if task.phase() == Phase::Train {
            self.is_bad = false;
        }
        Ok(())
    }

    fn after_forward(&mut self, task: &mut AfterForward<'_>) -> Result<()> {
        if self.is_due(task, Watched::Outputs) && self.outputs.first(task)?.is_some() {
            return self.meet(
                task,
                "the outputs have a value that is infinite or NaN",
                None,
            );
        }
        Ok(())
    }

    fn after_loss(&mut self, task: &mut AfterLoss<'_>) -> Result<()> {
        let is_due = self.is_due(task, Watched::Loss);
        let is_bad = |loss: &f64| is_due && is_bad(*loss, self.config.infinite);
        let Some(loss) = task.loss().filter(is_bad) else {
            return Ok(());
        };
        let what = format!("the loss is {loss}");
        match task.in_training() {
            Some(mut task) => self.meet_in_update(&mut task, &what),
            None => self.meet(task, &what, None),
        }
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        if !self.is_due(task, Watched::Gradients) {
            return Ok(());
        }
        let Some(place) = self.gradients.first(task)? else {
            return Ok(());
        };
        let bad = task.gradients().nth(place);
        let what = format!(
            "the gradient of `{}` has a value that is infinite or NaN",
            bad.map_or("?", |gradient| gradient.name())
        );
        self.meet_in_update(task, &what)
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        if !self.is_due(task, Watched::Parameters) {
            return Ok(());
        }
        let Some(place) = self.parameters.first(task)? else {
            return Ok(());
        };
        let bad = task.parameters().nth(place);
        let what = format!(
            "`{}` has a value that is infinite or NaN",
            bad.map_or("?", |parameter| parameter.name())
        );
        self.meet(task, &what, None)
    }

    fn module_forward(&mut self, task: &mut ModuleForward<'_>, module: &Module<'_>) -> Result<()> {
        if self.is_due(task, Watched::Modules) && !self.is_bad && self.module.first(task)?.is_some()
        {
            let what = format!(
                "the output of `{}` ({}) has a value that is infinite or NaN",
                module.name(),
                module.kind()
            );
            return self.meet(task, &what, Some(module));
        }
        Ok(())
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        let Some(mut task) = task.in_training() else {
            return Ok(());
        };
        if !self.is_bad {
            self.row = 0;
        }
        match self.wanted.take() {
            Some(what) => self.roll_back.ask(&mut task, &what),
            None => Ok(()),
        }
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        match self.wanted.take() {
            Some(what) => self.roll_back.ask(task, &what),
            None => Ok(()),
        }
    }

    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.roll_back.loaded(task, checkpoint)
    }

    fn after_save_checkpoint(
        &mut self,
        _task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.roll_back.saved(checkpoint);
        Ok(())
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.roll_back.end_epoch(task);
        if !self.watches(Watched::Metrics) || !task.epoch().is_multiple_of(self.config.every) {
            return Ok(());
        }
        let mut metrics = task.metrics_of(task.phase());
        if let Some((name, value)) = metrics.find(|(_, value)| is_bad(*value, self.config.infinite))
        {
            let what = format!("the metric `{name}` is {value}");
            return self.meet(task, &what, None);
        }
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        state::check_count("row", self.row)?;
        state::check_count("dumped", self.dumped)?;
        self.is_bad = false;
        self.wanted = None;
        self.written = self.written.max(self.dumped);
        self.dumped = self.written;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sconce_plugin_testing::{Failed, Request, ScriptedRun};
    use serde_json::json;

    use super::*;

    #[test]
    fn updates_of_bad_losses_are_skipped_until_there_are_too_many_in_a_row()
    -> std::result::Result<(), Failed> {
        let bad = |bad: &'static [u64]| {
            run_with_loss(move |iteration| {
                if bad.contains(&iteration) {
                    f64::NAN
                } else {
                    1.0
                }
            })
        };
        let config = json!({"action": "skip-update", "allowed": 2});
        let seen = bad(&[1, 2, 4]).drive::<StopOnNan>(config.clone())?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.iteration, asked.request))
            .collect();
        let skip = Request::SkipUpdate;
        assert_eq!(asked, [(1, skip), (2, skip), (4, skip)]);
        let warnings = seen.warnings();
        let file = seen.run_directory().join("stop-on-nan/0-1.safetensors");
        let (said, written) = (
            "the loss is NaN; the update is left out",
            format!("the batch is in `{}`", file.display()),
        );
        assert_eq!(warnings, [written.as_str(), said, said]);
        assert!(file.is_file(), "the bad batch is written");

        let failed = bad(&[1, 2, 3]).drive::<StopOnNan>(config).unwrap_err();
        assert_eq!(
            failed.message,
            "the loss is NaN, and something was in each of 3 iterations in a row"
        );
        assert_eq!(failed.at.map(|at| at.iteration), Some(3));
        Ok(())
    }

    /// Three epochs of four batches, with a training loss by iteration.
    fn run_with_loss(loss: impl Fn(u64) -> f64 + 'static) -> ScriptedRun {
        ScriptedRun::new().loss(move |at| match at.phase {
            Phase::Train => loss(at.iteration),
            _ => 1.0,
        })
    }

    #[test]
    fn the_run_goes_back_to_the_epochs_start_with_half_the_rate() -> std::result::Result<(), Failed>
    {
        let run = || {
            let is_first = Cell::new(true);
            ScriptedRun::new().loss(move |at| {
                let is_bad = at.phase == Phase::Train && at.iteration == 5 && is_first.take();
                if is_bad { f64::INFINITY } else { 1.0 }
            })
        };
        let seen = run().drive::<StopOnNan>(json!({"action": "roll-back", "dump": 0}))?;
        let asked = seen.asked().iter();
        let asked: Vec<_> = asked
            .map(|asked| (asked.at.iteration, asked.request, asked.text.as_str()))
            .collect();
        assert_eq!(
            asked,
            [
                (0, Request::SaveCheckpoint, "stop-on-nan"),
                (4, Request::SaveCheckpoint, "stop-on-nan"),
                (6, Request::RollBack, "stop-on-nan"),
                (4, Request::SetLearningRate, "default"),
                (8, Request::SaveCheckpoint, "stop-on-nan"),
            ]
        );
        let mut rates = vec![0.1; 6];
        rates.extend([0.05; 8]);
        assert_eq!(seen.learning_rates(), rates);
        assert_eq!(
            seen.warnings(),
            ["the loss is inf; going back to `stop-on-nan`, 1 of at most 3 times"]
        );
        let never = json!({"action": "roll-back", "dump": 0, "roll_back": {"times": 0}});
        let failed = run().drive::<StopOnNan>(never).unwrap_err();
        assert_eq!(failed.message, "the loss is inf, after 0 roll backs");
        Ok(())
    }

    #[test]
    fn each_watched_number_stops_the_run_where_it_goes_wrong() -> std::result::Result<(), Failed> {
        let run = || {
            ScriptedRun::new()
                .epochs(1)
                .empty_model()
                .parameter("w", &[2], &[0.0, 0.0])
        };
        let broken = |iteration, number| if iteration == 2 { number } else { 0.0 };
        let what = "has a value that is infinite or NaN";
        let outputs = run().outputs(move |batch| vec![1.0, broken(batch, f32::NAN)]);
        let gradients = run().gradient("w", move |number| vec![0.5, broken(number, f32::INFINITY)]);
        // The gradient is finite, what the update makes of it is not.
        let overflow = move |number| vec![0.5, broken(number, f32::MAX)];
        let parameters = run().learning_rate(1e9).gradient("w", overflow);
        let metrics = run().metric(Phase::Val, "accuracy", |_epoch| f64::NAN);
        for (watched, run, (point, iteration), reason) in [
            (
                "outputs",
                outputs,
                (Point::AfterForward, 2),
                format!("the outputs have {}", &what[4..]),
            ),
            (
                "gradients",
                gradients,
                (Point::BeforeUpdate, 2),
                format!("the gradient of `w` {what}"),
            ),
            (
                "parameters",
                parameters,
                (Point::AfterUpdate, 2),
                format!("`w` {what}"),
            ),
            (
                "metrics",
                metrics,
                (Point::AfterEpoch, 4),
                "the metric `accuracy` is NaN".to_owned(),
            ),
        ] {
            let config = json!({"watch": [watched], "action": "stop", "dump": 0});
            let seen = run.drive::<StopOnNan>(config)?;
            assert_eq!(seen.stop_reason(), Some(reason.as_str()));
            let stopped = seen.stopped_at().map(|at| (at.point, at.iteration));
            assert_eq!(stopped, Some((point, iteration)), "{watched}");
            // Nothing is looked at that is not watched.
            let seen = run.drive::<StopOnNan>(json!({"action": "stop"}))?;
            assert_eq!(seen.asked(), [], "{watched}");
        }
        Ok(())
    }
}
