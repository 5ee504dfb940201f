//! What stands under `config` in the manifest entry.

use sconce_plugin_api::Rule;
use sconce_plugin_api::prelude::*;

use crate::template::Template;

/// When the `checkpoint` hook saves, what it keeps, and what it does with the best.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Save after every so many training epochs and their validations; 0: not by epochs. Default: 1, or 0
    /// where `iterations` or `minutes` is given.
    pub(crate) epochs: Option<u64>,
    /// Save after every so many training iterations, in mid-epoch too; at least 1. Default: none.
    #[schemars(range(min = 1))]
    pub(crate) iterations: Option<u64>,
    /// Save after the iteration in which so many minutes have passed since the last such save; above 0,
    /// fractions allowed. Default: none.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) minutes: Option<f64>,
    /// Save nothing before so many training epochs are finished, the best neither. Default 0.
    pub(crate) begin_epoch: u64,
    /// Save nothing before so many training iterations are finished, the best neither. Default 0.
    pub(crate) begin_iteration: u64,
    /// Keep only so many of the checkpoints saved by epochs, iterations and minutes, the newest ones;
    /// at least 1. Default: all are kept.
    #[schemars(range(min = 1))]
    pub(crate) keep_last: Option<usize>,
    /// Never delete the checkpoints whose epoch is a multiple of this (whose iteration, of those saved by
    /// iterations and minutes); at least 1. Default: none is spared.
    #[schemars(range(min = 1))]
    pub(crate) keep_every: Option<u64>,
    /// Save at the training's end too, where the last save was earlier. Default true.
    pub(crate) save_last: SaveLast,
    /// The tag of a checkpoint: text with `{epoch}`, `{iteration}` and `{update}`, the numbers of what is
    /// finished; `{epoch:4}` with zeros to four digits. Default `epoch-{epoch}`, and
    /// `iteration-{iteration}` of those saved by iterations and minutes.
    pub(crate) tag: Option<Template>,
    /// A second tag, under which the newest checkpoint is always there. Default: none.
    pub(crate) last: Option<Template>,
    /// The metrics whose best checkpoints are kept beside the others. Default: none.
    pub(crate) best: Vec<Best>,
    /// Save the parameters and buffers alone, and the averages where these were measured. Such checkpoints are small, and nobody can resume from
    /// them or go back to them. Default false.
    pub(crate) parameters_only: bool,
    /// Let the training go on while a checkpoint is written: it waits for a copy in memory alone. A save
    /// that comes before the one before is on the disk waits for it. What a power failure leaves is then
    /// one checkpoint older. Default false.
    pub(crate) background: bool,
    /// At the training's end, load the parameters of the best checkpoint by the first metric of `best`:
    /// the test and `weights.safetensors` are then of them. Default false.
    pub(crate) load_best: bool,
    /// At the training's end, write the parameters of these checkpoints to
    /// `published/TAG-HASH.safetensors`: small files to give away, each with the first eight digits of
    /// its SHA-256 in its name. Default: none.
    pub(crate) publish: Vec<Published>,
    /// The set of weights that `load_best` and `publish` take from a checkpoint: `parameters`, the training's
    /// own, or averages by the `set` of `ema` or `swa`. Default: what was measured.
    pub(crate) set: Option<String>,
    /// What a save that fails is, as on a full disk. Default `warn`.
    pub(crate) on_failure: OnFailure,
}

/// Whether to save at the training's end; a type of its own for its default.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct SaveLast(pub(crate) bool);

impl Default for SaveLast {
    fn default() -> Self {
        SaveLast(true)
    }
}

/// A metric whose best checkpoints are kept.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Best {
    /// The metric, of the validation unless it says otherwise: `accuracy`, `train/loss`.
    pub(crate) monitor: Monitor,
    /// Which value is better. Default: `less` for losses and errors, `greater` for accuracies and other
    /// scores; of any other name it must be said.
    #[serde(default)]
    pub(crate) rule: Option<Rule>,
    /// How many are kept, the best ones; at least 1. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub(crate) keep: usize,
    /// The tag: text with `{metric}`, `{value}` (four decimal places), `{epoch}`, `{iteration}` and
    /// `{update}`. Default `best-{metric}`, and `best-{metric}-epoch-{epoch}` where several are kept.
    #[serde(default)]
    pub(crate) tag: Option<Template>,
    /// Values that are no better than this are passed over. Default: none.
    #[serde(default)]
    pub(crate) threshold: Option<f64>,
}

fn one() -> usize {
    1
}

/// A checkpoint to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Published {
    /// The best one by each metric of `best`.
    Best,
    /// The newest one.
    Last,
}

/// What a save that fails is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnFailure {
    /// A warning; the run goes on.
    #[default]
    Warn,
    /// An error of this hook, judged by the entry's `on_error`.
    Error,
}

impl Config {
    /// Refuses what no run can do, and fills in what follows from the rest.
    pub(crate) fn checked(mut self) -> Result<Config> {
        let default = u64::from(self.iterations.is_none() && self.minutes.is_none());
        self.epochs = Some(self.epochs.unwrap_or(default)).filter(|epochs| *epochs > 0);
        let counts = [
            ("iterations", self.iterations),
            ("keep_every", self.keep_every),
            ("keep_last", self.keep_last.map(|count| count as u64)),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == Some(0)) {
            bail!("`{name}` must be at least 1, found 0");
        }
        if let Some(minutes) = self
            .minutes
            .filter(|minutes| minutes.is_nan() || *minutes <= 0.0)
        {
            bail!("`minutes` must be above 0, found {minutes}");
        }
        for template in self.tag.iter().chain(&self.last) {
            template.expect(&["epoch", "iteration", "update"])?;
        }
        for best in &mut self.best {
            best.check()?;
        }
        let needs_best = self.load_best || self.publish.contains(&Published::Best);
        if needs_best && self.best.is_empty() {
            bail!(
                "`load_best` and `publish` need to know what is best: give a metric under `best`"
            );
        }
        Ok(self)
    }
}

impl Config {
    /// Checks what is wanted against what the run will be.
    pub(crate) fn check_run(&self, setup: &Setup<'_>) -> Result<()> {
        for best in &self.best {
            best.monitor.check(setup, Phase::Val).context("`best`")?;
        }
        let Some(plan) = setup.plan()? else {
            return Ok(());
        };
        for (key, begin, total) in [
            ("begin_epoch", self.begin_epoch, plan.epochs),
            ("begin_iteration", self.begin_iteration, plan.iterations()),
        ] {
            if begin > total {
                setup.warn(format_args!(
                    "`{key}` is {begin}, the run ends after {total}: nothing is saved before its end"
                ));
            }
        }
        Ok(())
    }
}

impl Best {
    fn check(&mut self) -> Result<()> {
        let monitor = &self.monitor;
        self.rule = self.rule.or_else(|| Rule::of_metric(monitor.name()));
        if self.rule.is_none() {
            bail!("say by `rule` whether a `less` or a `greater` value of `{monitor}` is better");
        }
        if self.keep == 0 {
            bail!("`keep` must be at least 1, found 0");
        }
        if let Some(tag) = &self.tag {
            tag.expect(&["metric", "value", "epoch", "iteration", "update"])?;
            if self.keep > 1 && !tag.varies() {
                bail!(
                    "{} checkpoints by `{monitor}` need tags that differ: `{tag}` needs `{{epoch}}`, \
                     `{{iteration}}` or `{{update}}`",
                    self.keep
                );
            }
        }
        Ok(())
    }

    /// Which value is better.
    pub(crate) fn rule(&self) -> Rule {
        self.rule.unwrap_or(Rule::Less)
    }
}
