//! The `lr-schedule` hook: learning rates and momenta that change by update, epoch or metric.
//!
//! `{"hook": "lr-schedule", "config": {"warm_up": {"steps": 100}, "schedule": {"kind": "cosine"}}}`
//!
//! Every parameter group's rate is scaled from its own value in the optimizer's configuration. Rates are
//! functions of the counters, not of the previous rate, so they are the same after a roll back or in a
//! resumed run.

mod curve;
mod momentum;
mod plateau;

use sconce_plugin_api::Plan;
use sconce_plugin_api::moment::ChangesSettings;
use sconce_plugin_api::prelude::*;

use curve::{Curve, Plateau};
use momentum::Momentum;
use plateau::Watch;

use crate::updates::UpdateCount;

/// How the learning rates change.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Unit of a step, and so when rates change. Default `update`.
    by: Unit,
    /// Warm-up before the schedule, whose steps are counted from the end of the warm-up. Default: none.
    warm_up: Option<WarmUp>,
    /// The schedule; either this or `chain` is needed.
    schedule: Option<Curve>,
    /// Consecutive schedules: each but the last with `steps`, and each counting its own steps.
    chain: Vec<Stage>,
    /// Names of the optimizer's parameter groups whose rates change; all others stay. Default: all.
    groups: Option<Vec<String>>,
    /// How the momentum changes (SGD's and RMSprop's, and the first beta of Adam, AdamW and Lion).
    /// Default: it stays constant.
    momentum: Option<Momentum>,
}

/// Unit of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    /// An update of the parameters; without accumulation the same as an iteration.
    Update,
    /// A training epoch.
    Epoch,
}

/// Transition to the schedule's initial rate.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WarmUp {
    /// Number of steps, at least 1.
    #[schemars(range(min = 1))]
    steps: u64,
    /// Initial factor, from 0 to 1. Default 0.01.
    #[serde(default = "hundredth")]
    #[schemars(range(min = 0.0, max = 1.0))]
    from: f64,
    /// Shape of the warm-up. Default `linear`.
    #[serde(default)]
    kind: WarmUpKind,
}

/// Shape of a warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum WarmUpKind {
    /// Linear from the factor to 1.
    #[default]
    Linear,
    /// The factor throughout.
    Constant,
    /// Multiplied by the same number in each step, up to 1.
    Exponential,
}

fn hundredth() -> f64 {
    0.01
}

/// A schedule in a chain.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stage {
    /// Number of steps; only the last schedule can omit it.
    #[serde(default)]
    steps: Option<u64>,
    /// The schedule.
    schedule: Curve,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            by: Unit::Update,
            warm_up: None,
            schedule: None,
            chain: Vec::new(),
            groups: None,
            momentum: None,
        }
    }
}

impl Config {
    /// Returns the stages, each but the last with its steps.
    fn stages(self) -> Result<Vec<Stage>> {
        let stages = match (self.schedule, self.chain) {
            (Some(schedule), chain) if chain.is_empty() => vec![Stage {
                steps: None,
                schedule,
            }],
            (None, chain) if !chain.is_empty() => chain,
            _ => bail!("exactly one of `schedule` and `chain` says how the rate goes"),
        };
        if let Some((_, inner)) = stages.split_last()
            && inner.iter().any(|stage| stage.length().is_none())
        {
            bail!("in a `chain` every schedule but the last one needs `steps`");
        }
        let plateaus = stages.iter().filter_map(Stage::plateau);
        for plateau in plateaus.clone() {
            rule(plateau)?;
        }
        if plateaus.count() > 1 {
            bail!("a `chain` can have one `plateau`");
        }
        Ok(stages)
    }
}

impl Config {
    /// Checks groups, metrics and step counts against the planned run.
    fn check_run(&self, setup: &Setup<'_>) -> Result<()> {
        let Some(plan) = setup.plan()? else {
            return Ok(());
        };
        for group in self.groups.iter().flatten() {
            if !plan.groups.is_empty() && !plan.groups.contains(group) {
                bail!(
                    "{}",
                    no_group(group, plan.groups.iter().map(String::as_str))
                );
            }
        }
        let chain = self.chain.iter().map(|stage| &stage.schedule);
        for curve in self.schedule.iter().chain(chain) {
            if let Curve::Plateau(plateau) = curve {
                plateau.monitor.check(setup, Phase::Val)?;
            }
        }
        self.warn_of_late(&plan, setup);
        Ok(())
    }

    /// Warns of steps that the run does not reach.
    fn warn_of_late(&self, plan: &Plan, setup: &Setup<'_>) {
        let (total, unit) = match self.by {
            Unit::Update => (plan.updates(), "updates"),
            Unit::Epoch => (plan.epochs, "epochs"),
        };
        let has = format!("the run has {total} {unit}");
        let mut begin = self.warm_up.as_ref().map_or(0, |warm_up| warm_up.steps);
        if total == 0 {
            return;
        }
        if begin >= total {
            setup.warn(format_args!(
                "`warm_up` has {begin} steps, {has}: the schedule after it does not begin"
            ));
            return;
        }
        if let Some(schedule) = &self.schedule
            && let Some(last) = schedule.last_step()
            && begin.saturating_add(last) > total
        {
            let after = if begin > 0 {
                format!(" after a warm-up of {begin}")
            } else {
                String::new()
            };
            setup.warn(format_args!(
                "`schedule` changes the rate until step {last}{after}, {has}: its end is not reached"
            ));
        }
        for (index, stage) in self.chain.iter().enumerate() {
            if begin >= total {
                setup.warn(format_args!(
                    "`chain[{index}]` begins at step {begin}, {has}: it is not reached"
                ));
                return;
            }
            begin = begin.saturating_add(stage.length().unwrap_or(0));
        }
    }
}

/// Message that the optimizer has no such parameter group.
fn no_group<'a>(group: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    format!(
        "the optimizer has no parameter group `{group}`; there are `{}`",
        known.join("`, `")
    )
}

impl Stage {
    fn length(&self) -> Option<u64> {
        self.steps.or_else(|| self.schedule.steps())
    }

    fn plateau(&self) -> Option<&Plateau> {
        match &self.schedule {
            Curve::Plateau(plateau) => Some(plateau),
            _ => None,
        }
    }
}

fn rule(plateau: &Plateau) -> Result<Rule> {
    Rule::or_of_metric(plateau.rule, &plateau.monitor)
}

impl WarmUp {
    fn factor(&self, step: u64) -> f64 {
        let way = step as f64 / self.steps.max(1) as f64;
        match self.kind {
            WarmUpKind::Linear => self.from + (1.0 - self.from) * way,
            WarmUpKind::Constant => self.from,
            WarmUpKind::Exponential => self.from.powf(1.0 - way),
        }
    }
}

/// Complete course of a rate: a warm-up and the stages after it.
struct ScheduleSegment {
    warm_up: Option<WarmUp>,
    stages: Vec<Stage>,
}

impl ScheduleSegment {
    /// Returns the rate after `step` completed steps of `total`.
    fn rate(&self, base: f64, step: u64, total: u64, watch: &Watch) -> f64 {
        let Some((stage, own_step, left)) = self.place(step, total) else {
            return base;
        };
        let rate = stage.schedule.rate(base, own_step, left);
        let rate = stage
            .plateau()
            .map_or(rate, |plateau| watch.rate(plateau, rate));
        let warm_up = self.warm_up.as_ref();
        let warm_up = warm_up.filter(|warm_up| step < warm_up.steps);
        warm_up.map_or(1.0, |warm_up| warm_up.factor(step)) * rate
    }

    /// Returns the stage in effect after `step` completed steps of `total`. Also returns how many of its
    /// own steps are completed, and how many it has.
    fn place(&self, step: u64, total: u64) -> Option<(&Stage, u64, u64)> {
        let warm_up = self.warm_up.as_ref().map_or(0, |warm_up| warm_up.steps);
        let (mut step, mut left) = (step.saturating_sub(warm_up), total.saturating_sub(warm_up));
        let last = self.stages.len().saturating_sub(1);
        for (index, stage) in self.stages.iter().enumerate() {
            let length = stage.length().filter(|_| index < last);
            if let Some(length) = length.filter(|length| step >= *length) {
                step -= length;
                left = left.saturating_sub(length);
                continue;
            }
            return Some((stage, step, length.unwrap_or(left).max(1)));
        }
        None
    }
}

/// See the [module](self).
pub(crate) struct LrSchedule {
    by: Unit,
    groups: Option<Vec<String>>,
    way: ScheduleSegment,
    momentum: Option<Momentum>,
    /// The optimizer's configured momentum.
    base_momentum: f64,
    updates: UpdateCount,
    /// Number of steps in the run.
    total: u64,
    validated: bool,
    state: State,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct State {
    /// Each group's configured rate.
    bases: Vec<(String, f64)>,
    watch: Watch,
}

impl LrSchedule {
    /// Sets the rates in effect after `step` completed steps.
    fn set(&self, task: &mut At<'_, impl ChangesSettings>, step: u64) -> Result<()> {
        for (group, base) in &self.state.bases {
            let rate = self.way.rate(*base, step, self.total, &self.state.watch);
            task.set_learning_rate(group, rate)?;
        }
        let Some(momentum) = &self.momentum else {
            return Ok(());
        };
        let momentum = momentum.value(&self.way, self.base_momentum, step, self.total);
        for (group, _) in &self.state.bases {
            task.set_momentum(group, momentum)?;
        }
        Ok(())
    }
}

/// The first rank's value: a metric of a hook that runs there alone is unknown to the others.
fn of_first_rank(task: &TaskView<'_>, value: Option<f64>) -> Result<Option<f64>> {
    if task.ranks().size() == 1 {
        return Ok(value);
    }
    let values = task.ranks().gather_values(&value.map(f64::to_bits))?;
    Ok(values.into_iter().next().flatten().map(f64::from_bits))
}

#[hook(
    name = "lr-schedule",
    about = "Changes learning rates and momenta with the updates, the epochs or a metric.",
    priority = HIGHER,
    requires = ["sconce.task/1", "sconce.requests/1"],
    ranks = "all",
    state = [state, validated],
    asks = [set_learning_rate, set_momentum],
    reads = ranks
)]
impl Hook for LrSchedule {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let manifest = setup.manifest()?;
        let momentum = config.momentum.clone();
        let base_momentum = momentum::of_optimizer(&manifest);
        if let (Some(_), None) = (&momentum, base_momentum) {
            bail!("`momentum`: the optimizer has none");
        }
        if let Some(momentum) = &momentum {
            momentum.check(&config)?;
        }
        config.check_run(setup)?;
        if momentum.is_none() {
            setup.asks(&["set_learning_rate"])?;
        }
        let (by, groups, warm_up) = (config.by, config.groups.clone(), config.warm_up.clone());
        let stages = config.stages()?;
        if !stages.iter().any(|stage| stage.plateau().is_some()) {
            setup.reads(&["groups"])?;
        }
        Ok(LrSchedule {
            momentum,
            base_momentum: base_momentum.unwrap_or(0.0),
            by,
            groups,
            updates: UpdateCount::new(setup)?,
            way: ScheduleSegment { warm_up, stages },
            total: 1,
            validated: false,
            state: State::default(),
        })
    }

    fn before_run(&mut self, task: &mut BeforeRun<'_>) -> Result<()> {
        let known: Vec<(String, f64)> = task
            .groups()
            .map(|group| (group.name.to_owned(), group.learning_rate))
            .collect();
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        for group in self.groups.iter().flatten() {
            if !names.contains(&group.as_str()) {
                bail!("{}", no_group(group, names.iter().copied()));
            }
        }
        if self.state.bases.is_empty() {
            let is_wanted = |name: &String| {
                let groups = self.groups.as_ref();
                groups.is_none_or(|groups| groups.contains(name))
            };
            self.state.bases = known
                .into_iter()
                .filter(|(name, _)| is_wanted(name))
                .collect();
        }
        Ok(())
    }

    fn before_epoch(&mut self, task: &mut BeforeEpoch<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        let (each, step) = match self.by {
            Unit::Update => (self.updates.in_epoch(task), task.update()),
            Unit::Epoch => (1, task.epoch()),
        };
        self.total = (each * task.epochs()).max(1);
        self.set(task, step)
    }

    fn before_update(&mut self, task: &mut BeforeUpdate<'_>) -> Result<()> {
        match self.by {
            Unit::Update => self.set(task, task.update()),
            Unit::Epoch => Ok(()),
        }
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.validated |= task.phase() == Phase::Val && !task.is_initial_validation();
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        let validated = std::mem::take(&mut self.validated);
        let Some(plateau) = self.way.stages.iter().find_map(Stage::plateau) else {
            return Ok(());
        };
        let is_fresh = validated || plateau.monitor.phase() == Some(Phase::Train);
        let value = plateau.monitor.value(task, Phase::Val);
        let value = value.filter(|_| is_fresh && task.is_whole());
        let Some(value) = of_first_rank(task, value)? else {
            return Ok(());
        };
        if self.state.watch.see(plateau, rule(plateau)?, value) {
            let monitor = &plateau.monitor;
            task.info(format_args!(
                "`{monitor}` has stopped getting better: the rate changes"
            ));
        }
        Ok(())
    }

    fn state_restored(&mut self) -> Result<()> {
        self.state.watch.check()?;
        for (group, rate) in &self.state.bases {
            if !(0.0..=f64::MAX).contains(rate) {
                bail!("the state has the learning rate {rate} for the group `{group}`");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
