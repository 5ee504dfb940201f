//! The `freeze` hook: parameters that are not trained, temporarily or permanently.
//!
//! `{"hook": "freeze", "config": {"parameters": ["features.*"], "until_epoch": 3}}`
//!
//! What is frozen follows from the counters alone; the host stores the current state in its checkpoints.

use sconce_plugin_api::moment::BetweenIterations;
use sconce_plugin_api::prelude::*;

use crate::names;

/// What is frozen, and until when.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Parameters (and buffers) frozen from the start: name patterns such as `features.*`. A leading `!`
    /// excludes names, as in `!fc.*`, which alone means all others.
    #[schemars(length(min = 1))]
    parameters: Vec<String>,
    /// Number of completed epochs after which all of them are trained. Default: none, they stay frozen
    /// except for `stages`.
    until_epoch: Option<u64>,
    /// Number of completed iterations after which all of them are trained. Default: none.
    until_iteration: Option<u64>,
    /// Gradual unfreezing: each stage unfreezes some of the parameters.
    stages: Vec<Stage>,
    /// Multiplier of their group's learning rate for parameters once they are unfrozen, above 0. Default 1.
    #[schemars(extend("exclusiveMinimum" = 0))]
    learning_rate_ratio: f64,
    /// How batch norms among the frozen parameters are treated. Default `freeze`.
    batch_norm: BatchNorm,
}

/// Parameters unfrozen together at one point of the run.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stage {
    /// Number of completed epochs after which they are unfrozen; either this or `iteration` is needed.
    #[serde(default)]
    epoch: Option<u64>,
    /// Number of completed iterations after which they are unfrozen.
    #[serde(default)]
    iteration: Option<u64>,
    /// The parameters: name patterns; a leading `!` excludes names.
    #[schemars(length(min = 1))]
    parameters: Vec<String>,
    /// Multiplier of their group's learning rate for these parameters, above 0.
    /// Default: `learning_rate_ratio`.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0))]
    learning_rate_ratio: Option<f64>,
}

/// How batch norms among the frozen parameters are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum BatchNorm {
    /// Frozen entirely: they normalise with their running statistics, which stay constant.
    Freeze,
    /// Scales and shifts are frozen; running statistics are still updated.
    Track,
    /// Trained as usual.
    Train,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            parameters: Vec::new(),
            until_epoch: None,
            until_iteration: None,
            stages: Vec::new(),
            learning_rate_ratio: 1.0,
            batch_norm: BatchNorm::Freeze,
        }
    }
}

/// When parameters are unfrozen, in completed epochs or iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Epoch(u64),
    Iteration(u64),
}

impl When {
    fn of(epoch: Option<u64>, iteration: Option<u64>) -> Result<Option<When>> {
        Ok(match (epoch, iteration) {
            (Some(_), Some(_)) => bail!("say either the epoch or the iteration, not both"),
            (Some(epoch), None) => Some(When::Epoch(epoch)),
            (None, Some(iteration)) => Some(When::Iteration(iteration)),
            (None, None) => None,
        })
    }

    fn has_come(self, task: &TaskView<'_>) -> bool {
        match self {
            When::Epoch(epoch) => task.epoch() >= epoch,
            When::Iteration(iteration) => task.iteration() >= iteration,
        }
    }
}

/// Names unfrozen at one point of the run.
struct Thaw {
    when: When,
    names: Vec<String>,
    share: f64,
    is_done: bool,
}

/// See the [module](self).
pub(crate) struct Freeze {
    config: Config,
    /// Names frozen from the start.
    frozen: Vec<String>,
    is_frozen: bool,
    thaws: Vec<Thaw>,
}

impl Freeze {
    /// Resolves the patterns into the frozen names and the points at which they are unfrozen.
    fn plan(&mut self, task: &TaskView<'_>) -> Result<()> {
        let is_left_out = |name: &str| {
            let layer = name.rsplit_once('.').map_or("", |(layer, _)| layer);
            let is_norm = task.parameter(&format!("{layer}.running_mean")).is_ok();
            match self.config.batch_norm {
                BatchNorm::Freeze => false,
                BatchNorm::Track => task.parameter(name).is_ok_and(|tensor| tensor.is_buffer()),
                BatchNorm::Train => is_norm,
            }
        };
        let mut frozen = names::chosen(task, "parameters", &self.config.parameters)?;
        frozen.retain(|name| !is_left_out(name));
        let mut thaws = Vec::new();
        for stage in &self.config.stages {
            let Some(when) = When::of(stage.epoch, stage.iteration)? else {
                bail!("a stage needs an `epoch` or an `iteration`");
            };
            let mut names = names::chosen(task, "stages", &stage.parameters)?;
            names.retain(|name| frozen.contains(name));
            if names.is_empty() {
                bail!(
                    "a stage lets {:?} go, of which nothing is frozen",
                    stage.parameters
                );
            }
            thaws.push(Thaw {
                when,
                names,
                share: stage
                    .learning_rate_ratio
                    .unwrap_or(self.config.learning_rate_ratio),
                is_done: false,
            });
        }
        if let Some(when) = When::of(self.config.until_epoch, self.config.until_iteration)? {
            // Names unfrozen by a stage keep that stage's learning rate.
            let is_staged = |name: &String| thaws.iter().any(|thaw| thaw.names.contains(name));
            thaws.push(Thaw {
                when,
                names: frozen
                    .iter()
                    .filter(|name| !is_staged(name))
                    .cloned()
                    .collect(),
                share: self.config.learning_rate_ratio,
                is_done: false,
            });
        }
        let mut parameters = task.parameters().filter(|tensor| !tensor.is_buffer());
        if parameters.all(|tensor| frozen.iter().any(|name| name == tensor.name())) {
            task.warn("every parameter is frozen: nothing will be trained until one is not");
        }
        (self.frozen, self.thaws) = (frozen, thaws);
        Ok(())
    }

    /// Freezes and unfreezes what is due.
    fn follow(&mut self, task: &mut At<'_, impl BetweenIterations>) -> Result<()> {
        if !self.is_frozen {
            self.is_frozen = true;
            for name in &self.frozen {
                task.freeze(name)?;
            }
        }
        for thaw in &mut self.thaws {
            if thaw.is_done || !thaw.when.has_come(task) {
                continue;
            }
            thaw.is_done = true;
            for name in &thaw.names {
                let is_buffer = task.parameter(name)?.is_buffer();
                task.unfreeze(name, if is_buffer { 1.0 } else { thaw.share })?;
            }
            if let [first, rest @ ..] = thaw.names.as_slice() {
                let count = rest.len();
                task.info(format_args!(
                    "`{first}` and {count} more are trained from here on"
                ));
            }
        }
        Ok(())
    }
}

/// Warns of epochs and iterations that the run does not reach.
fn warn_of_late(config: &Config, setup: &Setup<'_>) -> Result<()> {
    let Some(plan) = setup.plan()? else {
        return Ok(());
    };
    let until = (
        "`until_epoch`",
        config.until_epoch,
        "`until_iteration`",
        config.until_iteration,
    );
    let stages = config.stages.iter();
    let stages = stages.map(|stage| {
        (
            "a stage's `epoch`",
            stage.epoch,
            "a stage's `iteration`",
            stage.iteration,
        )
    });
    for (by_epoch, epoch, by_iteration, iteration) in std::iter::once(until).chain(stages) {
        if let Some(epoch) = epoch.filter(|epoch| *epoch >= plan.epochs) {
            setup.warn(format_args!(
                "{by_epoch} is {epoch}, the run has {} epochs: what is frozen stays frozen",
                plan.epochs
            ));
        }
        if let Some(iteration) = iteration.filter(|iteration| *iteration >= plan.iterations()) {
            setup.warn(format_args!(
                "{by_iteration} is {iteration}, the run has {} iterations: what is frozen stays frozen",
                plan.iterations()
            ));
        }
    }
    Ok(())
}

#[hook(
    name = "freeze",
    about = "Leaves parameters untrained, until an epoch or iteration or for ever.",
    priority = HIGHEST,
    requires = ["sconce.tensors/1", "sconce.requests/1"],
    ranks = "all",
    asks = freeze,
    reads = parameters
)]
impl Hook for Freeze {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        names::check(setup, "parameters", &config.parameters)?;
        When::of(config.until_epoch, config.until_iteration)
            .context("`until_epoch` and `until_iteration`")?;
        for stage in &config.stages {
            names::check(setup, "stages", &stage.parameters)?;
            if When::of(stage.epoch, stage.iteration)
                .context("a stage")?
                .is_none()
            {
                bail!("a stage needs an `epoch` or an `iteration`");
            }
        }
        warn_of_late(&config, setup)?;
        Ok(Freeze {
            config,
            frozen: Vec::new(),
            is_frozen: false,
            thaws: Vec::new(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        self.plan(task)?;
        self.follow(task)
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        match task.phase() {
            Phase::Train => self.follow(task),
            _ => Ok(()),
        }
    }

    fn before_iter(&mut self, task: &mut BeforeIter<'_>) -> Result<()> {
        let by_iteration = |thaw: &Thaw| !thaw.is_done && matches!(thaw.when, When::Iteration(_));
        if task.phase() == Phase::Train && self.thaws.iter().any(by_iteration) {
            return self.follow(task);
        }
        Ok(())
    }

    /// Resets the flags, so that everything due at the restored counters is requested again.
    fn after_load_checkpoint(
        &mut self,
        _task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        self.is_frozen = false;
        for thaw in &mut self.thaws {
            thaw.is_done = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    fn asked(seen: &Seen) -> Vec<(u64, &str, f64)> {
        let asked = seen.asked_for(Request::Freeze).into_iter();
        asked
            .map(|asked| (asked.at.iteration, asked.text.as_str(), asked.number))
            .collect()
    }

    #[test]
    fn stages_let_parameters_go_before_the_others() -> std::result::Result<(), Failed> {
        let mut run = ScriptedRun::new()
            .epochs(2)
            .learning_rate(1.0)
            .empty_model();
        for name in ["fc1.weight", "fc1.bias", "fc2.weight"] {
            let one = |_iteration| vec![1.0];
            run = run.parameter(name, &[1], &[0.0]).gradient(name, one);
        }
        let config = json!({
            "parameters": ["fc1.*"],
            "until_epoch": 1,
            "stages": [{"iteration": 2, "parameters": ["*.bias"], "learning_rate_ratio": 0.5}],
        });
        let seen = run.drive::<Freeze>(config.clone())?;
        assert_eq!(
            asked(&seen),
            [
                (0, "fc1.weight", 0.0),
                (0, "fc1.bias", 0.0),
                (2, "fc1.bias", 0.5),
                (4, "fc1.weight", 1.0),
            ]
        );
        // Trained for four of eight iterations, for six at half the rate, and for all; so they are where
        // the run is resumed, though more is asked for then.
        for seen in [seen, run.interrupt_after(3).drive::<Freeze>(config)?] {
            assert_eq!(seen.parameter("fc1.weight"), [-4.0]);
            assert_eq!(seen.parameter("fc1.bias"), [-3.0]);
            assert_eq!(seen.parameter("fc2.weight"), [-8.0]);
        }
        Ok(())
    }

    #[test]
    fn batch_norms_are_frozen_tracked_or_trained_as_asked() -> std::result::Result<(), Failed> {
        let run = ScriptedRun::new()
            .epochs(1)
            .empty_model()
            .parameter("bn.weight", &[1], &[1.0])
            .buffer("bn.running_mean", &[1], &[0.0])
            .parameter("fc.weight", &[1], &[1.0]);
        let drive = |batch_norm: &str| {
            run.drive::<Freeze>(json!({"parameters": ["*"], "batch_norm": batch_norm}))
        };
        let all = [
            (0, "bn.weight", 0.0),
            (0, "bn.running_mean", 0.0),
            (0, "fc.weight", 0.0),
        ];
        let frozen = drive("freeze")?;
        assert_eq!(asked(&frozen), all);
        let warning = "every parameter is frozen: nothing will be trained until one is not";
        assert_eq!(frozen.warnings(), [warning]);
        assert_eq!(asked(&drive("track")?), [all[0], all[2]]);
        let trained = drive("train")?;
        assert_eq!(asked(&trained), [all[2]]);
        assert_eq!(trained.warnings(), [""; 0]);
        let both = json!({"parameters": ["*"], "until_epoch": 1, "until_iteration": 2});
        let failed = run.drive::<Freeze>(both).unwrap_err();
        assert!(failed.message.contains("not both"), "{failed}");
        Ok(())
    }
}
