//! Rolling back to a checkpoint a limited number of times, with lower learning rates: shared by
//! `stop-on-nan` and `loss-spike`.

use sconce_plugin_api::ext::{Collection, check_tag};
use sconce_plugin_api::moment::{BetweenIterations, ChangesSettings, RollsBack};
use sconce_plugin_api::prelude::*;

use crate::finite::Search;

/// How a run rolls back.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The tag of the checkpoint to roll back to. Default: one of this hook's own, under its
    /// entry's name, saved at the start of an epoch.
    to: Option<String>,
    /// Save the hook's own checkpoint before every this many epochs, starting with the first; at
    /// least 1. One with NaN or infinite parameters is never saved. Default 1.
    #[schemars(range(min = 1))]
    save_every: Option<u64>,
    /// Maximum number of rollbacks in the whole run; one more is an error. Default 3.
    times: Option<u64>,
    /// All learning rates are multiplied by this at each rollback, from 0 to 1. A rate that an
    /// `lr-schedule` sets afterwards overrides this. Default 0.5 in `stop-on-nan`, 1 in
    /// `loss-spike`.
    #[schemars(range(min = 0.0, max = 1.0))]
    learning_rate_factor: Option<f64>,
}

/// Rolls the run back, and counts how often.
pub(crate) struct RollBack {
    hook: String,
    /// Tag of the checkpoint to roll back to.
    tag: String,
    /// The checkpoint is saved before every this many epochs; `None` if it is not this hook's own.
    save_every: Option<u64>,
    times: u64,
    factor: f64,
    done: u64,
    /// Number of rollbacks for which the current learning rates have already been lowered.
    lowered: u64,
    /// Whether this process has trained: a state loaded after that comes from a rollback.
    has_begun: bool,
    /// The checkpoint to roll back to, if it was saved in this run.
    kept: Option<CheckpointRef>,
    /// The one that it is replacing.
    replaced: Option<CheckpointRef>,
    /// The epoch that began last, and whether it is in progress.
    epoch: (u64, bool),
}

/// What a hook's state has of its rollbacks.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedRollBack {
    #[serde(deserialize_with = "state::count")]
    rolled_back: u64,
    #[serde(default)]
    kept: Option<CheckpointRef>,
}

impl RollBack {
    pub(crate) fn new(config: &Config, setup: &Setup<'_>, factor: f64) -> Result<RollBack> {
        let save_every = config.save_every.unwrap_or(1);
        let tag = config.to.clone().unwrap_or_else(|| setup.name().to_owned());
        check_tag(&tag).map_err(|reason| HookError::new(format_args!("`to`: {reason}")))?;
        Ok(RollBack {
            hook: setup.name().to_owned(),
            tag,
            save_every: config.to.is_none().then_some(save_every),
            times: config.times.unwrap_or(3),
            factor: config.learning_rate_factor.unwrap_or(factor),
            done: 0,
            lowered: 0,
            has_begun: false,
            kept: None,
            replaced: None,
            epoch: (0, false),
        })
    }

    /// What it asks for.
    pub(crate) fn asks(&self) -> impl Iterator<Item = &'static str> {
        let saves = self.save_every.map(|_| "save_checkpoint");
        let lowers = self.lowers().then_some("set_learning_rate");
        ["roll_back"].into_iter().chain(saves).chain(lowers)
    }

    /// What of the loop it reads.
    pub(crate) fn reads(&self) -> impl Iterator<Item = &'static str> {
        let searched = self.save_every.map(|_| "parameters");
        let lowered = self.lowers().then_some("groups");
        searched.into_iter().chain(lowered)
    }

    /// Whether a rollback lowers the learning rates.
    fn lowers(&self) -> bool {
        (self.factor - 1.0).abs() >= f64::EPSILON
    }

    /// Called at `before_epoch`: saves the checkpoint to roll back to.
    pub(crate) fn keep(&mut self, task: &mut At<'_, impl BetweenIterations>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        self.has_begun = true;
        self.epoch = (task.epoch(), true);
        if !self.is_due(task.epoch()) || task.batch() > 0 {
            return Ok(());
        }
        let mut parameters = Search::through_all(Collection::Parameters, true);
        if parameters.first(task)?.is_some() {
            return Ok(());
        }
        // What it is saved over has no place in its own state; if the save fails, it is still the one to go back to.
        self.replaced = self.kept.take();
        task.checkpoint(&self.tag).save()
    }

    /// Whether the hook's own checkpoint is saved before this epoch.
    fn is_due(&self, epoch: u64) -> bool {
        self.save_every
            .is_some_and(|every| epoch.is_multiple_of(every))
    }

    /// Called at `after_epoch`.
    pub(crate) fn end_epoch(&mut self, task: &TaskView<'_>) {
        if task.phase() == Phase::Train {
            self.epoch.1 = false;
        }
    }

    /// Called at `after_save_checkpoint`.
    pub(crate) fn saved(&mut self, checkpoint: &Checkpoint<'_>) {
        if checkpoint.tag == self.tag {
            let replaced = self.replaced.take();
            self.kept = checkpoint.reference().or(replaced);
        }
    }

    /// Requests a rollback because of `what`; called where that is legal.
    pub(crate) fn ask(&mut self, task: &mut At<'_, impl RollsBack>, what: &str) -> Result<()> {
        if self.done >= self.times {
            bail!("{what}, after {} roll backs", self.done);
        }
        self.done += 1;
        let tag = &self.tag;
        task.warn(format_args!(
            "{what}; going back to `{tag}`, {} of at most {} times",
            self.done, self.times
        ));
        task.checkpoint(tag).roll_back()
    }

    /// Called at `after_load_checkpoint`: lowers the learning rates after this hook's own rollback.
    pub(crate) fn loaded(
        &mut self,
        task: &mut At<'_, impl ChangesSettings>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let loaded = checkpoint.reference();
        if loaded
            .as_ref()
            .is_some_and(|loaded| loaded.tag() == self.tag)
        {
            self.kept = loaded;
        }
        if self
            .kept
            .as_ref()
            .is_some_and(|kept| checkpoint.is_missing(kept))
        {
            // One of this hook's own is saved before the next epoch.
            task.warn(format_args!(
                "the checkpoint `{}` to roll back to is gone",
                self.tag
            ));
            self.kept = None;
        }
        let is_ours = checkpoint.asked_by == self.hook && self.has_begun;
        let steps = self.done.saturating_sub(self.lowered);
        if !is_ours || steps == 0 || !self.lowers() {
            return Ok(());
        }
        let factor = self.factor.powi(i32::try_from(steps).unwrap_or(i32::MAX));
        let rates: Vec<(String, f64)> = task
            .groups()
            .map(|group| (group.name.to_owned(), group.learning_rate * factor))
            .collect();
        for (group, rate) in rates {
            task.set_learning_rate(&group, rate)?;
        }
        self.lowered = self.done;
        Ok(())
    }

    /// For the hook's state.
    pub(crate) fn save(&self) -> SavedRollBack {
        let (epoch, is_in_progress) = self.epoch;
        // Replaced before the next epoch: nothing would ever roll back to it.
        let is_replaced = !is_in_progress && self.has_begun && self.is_due(epoch + 1);
        SavedRollBack {
            rolled_back: self.done,
            kept: self.kept.clone().filter(|_| !is_replaced),
        }
    }

    /// Whether a state loaded now comes from a rollback, not from resuming a run.
    pub(crate) fn is_under_way(&self) -> bool {
        self.has_begun
    }

    /// Restores a state; a rollback does not undo later counts.
    pub(crate) fn load(&mut self, saved: SavedRollBack) {
        let SavedRollBack {
            rolled_back: done,
            kept,
        } = saved;
        self.kept = kept;
        self.lowered = done;
        self.done = if self.has_begun {
            self.done.max(done)
        } else {
            done
        };
    }
}

impl state::StateField for RollBack {
    type Saved = SavedRollBack;

    fn save(&mut self) -> Result<impl Serialize> {
        Ok(RollBack::save(self))
    }

    fn restore(&mut self, saved: SavedRollBack) -> Result<()> {
        self.load(saved);
        Ok(())
    }
}
