//! The `config` of the manifest entry.

use sconce_plugin_api::prelude::*;

use crate::template::Template;

/// When the `checkpoint` hook saves, which checkpoints it keeps, and how it uses the best.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// Number of training epochs, including their validations, between saves; 0: none by epochs.
    /// Default: 1, or 0 if `iterations` or `minutes` is given.
    pub(crate) epochs: Option<u64>,
    /// Number of training iterations between saves, also in the middle of an epoch; at least 1.
    /// Default: none.
    #[schemars(range(min = 1))]
    pub(crate) iterations: Option<u64>,
    /// Minutes between saves by time, each after the iteration in which they have passed; above 0,
    /// fractions allowed. Default: none.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) minutes: Option<f64>,
    /// Number of completed training epochs before which nothing is saved, including the best. Default 0.
    pub(crate) begin_epoch: u64,
    /// Number of completed training iterations before which nothing is saved, including the best.
    /// Default 0.
    pub(crate) begin_iteration: u64,
    /// Number of checkpoints saved by epochs, iterations and minutes to keep, the newest ones; at least 1.
    /// Default: all are kept.
    #[schemars(range(min = 1))]
    pub(crate) keep_last: Option<usize>,
    /// Interval of the epochs (or iterations, for those saved by iterations and minutes) whose checkpoints
    /// are never deleted; at least 1. Default: none.
    #[schemars(range(min = 1))]
    pub(crate) keep_every: Option<u64>,
    /// Whether to save at the end of training as well, if the last save was earlier. Default true.
    pub(crate) save_last: SaveLast,
    /// Tag of a checkpoint: text with `{epoch}`, `{iteration}` and `{update}`, the numbers completed so
    /// far; `{epoch:4}` pads with zeros to four digits. Default `epoch-{epoch}`, and
    /// `iteration-{iteration}` for those saved by iterations and minutes.
    pub(crate) tag: Option<Template>,
    /// A second tag that always refers to the newest checkpoint. Default: none.
    pub(crate) last: Option<Template>,
    /// Metrics whose best checkpoints are kept in addition to the others. Default: none.
    pub(crate) best: Vec<Best>,
    /// Whether only parameters and buffers are saved, and the averages if these were evaluated. Such
    /// checkpoints are small, but a run cannot resume from them or roll back to them. Default false.
    pub(crate) parameters_only: bool,
    /// Whether training continues while a checkpoint is written, waiting only for a copy in memory. A save
    /// waits until the previous one is on disk. After a power failure the newest checkpoint may be one
    /// older than otherwise. Default false.
    pub(crate) background: bool,
    /// Whether the best checkpoint by the first metric of `best` is loaded at the end of training. The test
    /// and `weights.safetensors` then use its parameters. Default false.
    pub(crate) load_best: bool,
    /// Checkpoints whose parameters are written to `published/TAG-HASH.safetensors` at the end of training:
    /// small files for distribution, named with the first eight digits of their SHA-256. Default: none.
    pub(crate) publish: Vec<Published>,
    /// Set of weights that `load_best` and `publish` take from a checkpoint: `parameters`, the trained
    /// ones, or averages by the `set` of `ema` or `swa`. Default: the set that was evaluated.
    pub(crate) set: Option<String>,
    /// How a failed save, for example on a full disk, is handled. Default `warn`.
    pub(crate) on_failure: OnFailure,
}

/// Whether to save at the end of training; a separate type for its default of true.
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
    /// Metric to watch, from validation unless it names another phase: `accuracy`, `train/loss`.
    pub(crate) monitor: Monitor,
    /// Whether smaller or larger values are better. Default: `less` for losses and errors, `greater` for
    /// accuracies and other scores; required for any other name.
    #[serde(default)]
    pub(crate) rule: Option<Rule>,
    /// Number of best checkpoints to keep; at least 1. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub(crate) keep: usize,
    /// Tag: text with `{metric}`, `{value}` (four decimal places), `{epoch}`, `{iteration}` and `{update}`.
    /// Default `best-{metric}`, or `best-{metric}-epoch-{epoch}` if several are kept.
    #[serde(default)]
    pub(crate) tag: Option<Template>,
    /// Threshold that a value must be better than to be considered. Default: none.
    #[serde(default)]
    pub(crate) threshold: Option<f64>,
}

fn one() -> usize {
    1
}

/// A checkpoint to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Published {
    /// The best one for each metric of `best`.
    Best,
    /// The newest one.
    Last,
}

/// How a failed save is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnFailure {
    /// A warning; the run continues.
    #[default]
    Warn,
    /// An error of this hook, handled according to the entry's `on_error`.
    Error,
}

impl Config {
    /// What the hook asks for with this configuration.
    pub(crate) fn asks(&self) -> Vec<&'static str> {
        let save = if self.background {
            "save_in_background"
        } else {
            "save_checkpoint"
        };
        let asks = [
            (true, save),
            (true, "copy_checkpoint"),
            (true, "delete_checkpoint"),
            (!self.publish.is_empty(), "publish_weights"),
            (self.load_best, "load_parameters"),
        ];
        let asks = asks.into_iter().filter(|(is_asked, _)| *is_asked);
        asks.map(|(_, name)| name).collect()
    }

    /// Rejects invalid values and fills in defaults that depend on other options.
    pub(crate) fn checked(mut self) -> Result<Config> {
        let default = u64::from(self.iterations.is_none() && self.minutes.is_none());
        self.epochs = Some(self.epochs.unwrap_or(default)).filter(|epochs| *epochs > 0);
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
    /// Checks metrics and starting points against the planned run.
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
        self.rule = Some(Rule::or_of_metric(self.rule, monitor)?);
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

    /// Returns which values are better.
    pub(crate) fn rule(&self) -> Rule {
        self.rule.unwrap_or(Rule::Less)
    }
}
