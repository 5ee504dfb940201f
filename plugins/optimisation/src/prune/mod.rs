//! The `prune` hook: sets the smallest elements of parameters to zero and keeps them there.
//!
//! `{"hook": "prune", "config": {"amount": 0.8, "begin": 100, "end": 1000, "every": 50}}`
//!
//! Each pruning removes the elements of smallest magnitude among those left until the required fraction of
//! all is pruned, as `torch.nn.utils.prune.l1_unstructured` (one parameter at a time),
//! `global_unstructured` (all together) and `ln_structured` (entire rows) do. After each update the pruned
//! elements are set to zero again.

mod masks;
mod schedule;

use sconce_plugin_api::moment::ChangesParameters;
use sconce_plugin_api::prelude::*;

use crate::names;
use crate::updates::UpdateCount;
use masks::Masks;
use schedule::Schedule;

/// What is pruned, when, and how much of it.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The parameters: name patterns. Default `*.weight`.
    #[schemars(length(min = 1))]
    parameters: Vec<String>,
    /// Final fraction of their elements that is pruned, from 0 to 1. Default 0.5.
    #[schemars(range(min = 0.0, max = 1.0))]
    amount: f64,
    /// Fraction pruned at the first pruning, from 0 to `amount`. For `linear` and `cubic`. Default 0.
    #[schemars(range(min = 0.0, max = 1.0))]
    initial: f64,
    /// How the fraction grows from the first pruning to the last. Default `cubic`.
    schedule: Schedule,
    /// Unit of `begin`, `end` and `every`, after which prunings happen. Default `update`.
    by: Unit,
    /// Number of completed updates (or epochs) at the first pruning, at least 1. Default 1.
    #[schemars(range(min = 1))]
    begin: u64,
    /// Number of completed updates (or epochs) at the last pruning, which reaches `amount`. Default: the
    /// end of training.
    end: Option<u64>,
    /// Updates (or epochs) per pruning, at least 1. Default 1.
    #[schemars(range(min = 1))]
    every: u64,
    /// Whether elements are compared across all parameters rather than within each. Default false.
    global: bool,
    /// Unit that is pruned. Default `element`.
    structure: Structure,
    /// Metric name under which the pruned fraction is published; empty: not published. Default `sparsity`.
    publish: String,
}

/// Unit in which prunings are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    /// Updates.
    Update,
    /// Epochs; prunings happen at their end.
    Epoch,
}

/// Unit that is pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Structure {
    /// Single elements, by magnitude.
    Element,
    /// Rows, or filters of a convolution: all inputs of one unit, by the mean magnitude of their elements.
    Row,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            parameters: vec!["*.weight".to_owned()],
            amount: 0.5,
            initial: 0.0,
            schedule: Schedule::Cubic,
            by: Unit::Update,
            begin: 1,
            end: None,
            every: 1,
            global: false,
            structure: Structure::Element,
            publish: "sparsity".to_owned(),
        }
    }
}

/// See the [module](self).
pub(crate) struct Prune {
    config: Config,
    name: String,
    updates: UpdateCount,
    masks: Masks,
}

impl Prune {
    /// Prunes if that is due after `done` updates or epochs of `total`.
    fn prune(
        &mut self,
        task: &mut At<'_, impl ChangesParameters>,
        done: u64,
        total: u64,
    ) -> Result<()> {
        let Config { begin, every, .. } = self.config;
        let end = self.config.end.unwrap_or(total).max(begin);
        let is_due =
            (begin..=end).contains(&done) && ((done - begin).is_multiple_of(every) || done == end);
        if !is_due {
            return Ok(());
        }
        let share = self.config.schedule.share(
            (self.config.initial, self.config.amount),
            (begin, end),
            done,
        );
        self.masks
            .prune(task, share, self.config.global, self.config.structure)
    }

    /// Sets the pruned elements to zero and publishes the sparsity.
    fn apply(&mut self, task: &mut TaskView<'_>) -> Result<()> {
        self.masks.apply(task, &self.name)?;
        if self.config.publish.is_empty() {
            return Ok(());
        }
        task.publish_metric(&self.config.publish, self.masks.sparsity())
    }
}

#[hook(
    name = "prune",
    about = "Sets the smallest numbers of parameters to zero, more and more of them, and keeps them there.",
    priority = HIGH,
    publishes = ["sparsity"],
    requires = ["sconce.tensors/1", "sconce.values/1", "sconce.vectors/1"],
    ranks = "all",
    reads = parameters
)]
impl Hook for Prune {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        names::check(setup, "parameters", &config.parameters)?;
        if config.initial > config.amount {
            bail!(
                "`initial` must be from 0 to `amount`, {}, found {}",
                config.amount,
                config.initial
            );
        }
        if let Some(end) = config.end.filter(|end| *end < config.begin) {
            bail!(
                "`end` must not be before `begin`, {}, found {end}",
                config.begin
            );
        }
        if let Some(plan) = setup.plan()? {
            let (total, steps) = match config.by {
                Unit::Update => (plan.updates(), "updates"),
                Unit::Epoch => (plan.epochs, "epochs"),
            };
            for (key, step) in [("begin", Some(config.begin)), ("end", config.end)] {
                if let Some(step) = step.filter(|step| *step > total) {
                    setup.warn(format_args!(
                        "`{key}` is {step}, the run has {total} {steps}"
                    ));
                }
            }
        }
        Ok(Prune {
            config,
            name: setup.name().to_owned(),
            updates: UpdateCount::new(setup)?,
            masks: Masks::default(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let chosen = names::chosen_parameters(task, "parameters", &self.config.parameters)?;
        self.masks.begin(task, &chosen)
    }

    fn after_update(&mut self, task: &mut AfterUpdate<'_>) -> Result<()> {
        if self.config.by == Unit::Update {
            let total = self.updates.in_epoch(task) * task.epochs();
            self.prune(task, task.update(), total)?;
        }
        self.apply(task)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        if task.phase() != Phase::Train || !task.is_whole() || self.config.by != Unit::Epoch {
            return Ok(());
        }
        self.prune(task, task.epoch(), task.epochs())?;
        self.apply(task)
    }

    fn save_state(&mut self) -> Result<Vec<u8>> {
        self.masks.to_bytes()
    }

    fn load_state(&mut self, bytes: &[u8]) -> Result<()> {
        self.masks = Masks::from_bytes(bytes)?;
        Ok(())
    }

    /// Applies the masks to the loaded parameters.
    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        _checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let chosen = names::chosen_parameters(task, "parameters", &self.config.parameters)?;
        self.masks.begin(task, &chosen)?;
        self.masks.apply(task, &self.name)
    }
}

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, ScriptedRun};
    use serde_json::json;

    use super::*;

    /// The first number grows by 1/16 in each of four updates, the others stay.
    fn run() -> ScriptedRun {
        ScriptedRun::new()
            .epochs(1)
            .learning_rate(0.0625)
            .empty_model()
            .parameter("fc.weight", &[4], &[0.125, -0.5, 0.375, -0.25])
            .gradient("fc.weight", |_iteration| vec![-1.0, 0.0, 0.0, 0.0])
    }

    #[test]
    fn the_smallest_numbers_go_by_and_by_and_stay_away() -> std::result::Result<(), Failed> {
        let config = json!({"amount": 0.5, "initial": 0.25, "schedule": "linear", "end": 2});
        let seen = run().drive::<Prune>(config.clone())?;
        assert_eq!(seen.metric(Phase::Train, "sparsity"), [0.25, 0.5, 0.5, 0.5]);
        let changed = seen.changes().iter();
        let changed: Vec<_> = changed
            .map(|change| (change.at.update, change.after.as_slice()))
            .collect();
        let both: &[f32] = &[0.0, -0.5, 0.375, 0.0];
        assert_eq!(
            changed,
            [
                (1, &[0.0, -0.5, 0.375, -0.25][..]),
                (2, both),
                (3, both),
                (4, both),
            ]
        );
        assert_eq!(seen.parameter("fc.weight"), both);
        run().check_resume::<Prune>(config)
    }

    #[test]
    fn prunings_of_epochs_come_at_their_end() -> std::result::Result<(), Failed> {
        let config =
            json!({"by": "epoch", "amount": 0.5, "schedule": "constant", "publish": "pruned"});
        let seen = run()
            .epochs(2)
            .learning_rate(0.125)
            .drive::<Prune>(config)?;
        // Published behind each update and each epoch.
        let pruned = seen.metric(Phase::Train, "pruned");
        assert_eq!(pruned, [0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
        // The first number has outgrown the two that are zeros now.
        assert_eq!(seen.parameter("fc.weight"), [1.125, -0.5, 0.0, 0.0]);
        let failed = run().drive::<Prune>(json!({"amount": 0.25, "initial": 0.5}));
        let message = "`initial` must be from 0 to `amount`, 0.25, found 0.5";
        assert_eq!(failed.unwrap_err().message, message);
        Ok(())
    }
}
