//! Hooks that save files and checkpoints: `save-file` copies files into the run directory; `checkpoint`
//! saves checkpoints, keeps a selection, and loads and publishes the best.
//!
//! `{"hook": "checkpoint", "config": {"epochs": 1, "keep_last": 3, "best": [{"monitor": "accuracy"}]}}`
//!
//! At each point one checkpoint is written; its other tags (the best, `last`) refer to the same files.
//! Older ones are deleted once the newer one is on disk. The record of saved checkpoints is part of this
//! hook's state, so a resumed run continues to keep the right ones.
//!
//! With `background`, training continues while a checkpoint is written. What follows a completed write
//! happens when the host reports it: at the next save or at the end of training.
//!
//! If an error or a signal ends the run, the host itself saves a checkpoint, as `failed` or `interrupted`.

#![forbid(unsafe_code)]

mod config;
mod ledger;
mod pending;
mod save_file;
mod tags;
mod template;

use std::collections::VecDeque;

use sconce_plugin_api::BEST_CHECKPOINT;
use sconce_plugin_api::moment::{BetweenIterations, ManagesCheckpoints};
use sconce_plugin_api::prelude::*;

use config::{Config, OnFailure, Published};
use ledger::Ledger;
use pending::{Pending, Step};
use save_file::SaveFile;
use tags::Tags;
use template::Values;

struct Checkpoints {
    name: String,
    config: Config,
    tags: Tags,
    state: State,
    /// Checkpoints requested from the host and not yet reported, oldest first.
    pending: VecDeque<Pending>,
    /// Whether a metric of `best` had no value at the end of its phase.
    missed: bool,
    has_warned: bool,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    ledger: Ledger,
    /// Time of the last save by minutes, in seconds of the run.
    saved: f64,
    /// Whether this epoch has been validated.
    validated: bool,
}

/// The best checkpoint, in the format of [`BEST_CHECKPOINT`].
#[derive(Serialize, Deserialize)]
struct Note {
    tag: String,
    metric: String,
    value: f64,
    /// Once it is saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<CheckpointRef>,
    /// Until then: the tag under which it is saved first.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_as: Option<String>,
}

impl State {
    /// Rejects states that no run saves, as their tags are directories that will be deleted.
    fn check(&self) -> Result<()> {
        self.ledger.check()?;
        if !(0.0..1e15).contains(&self.saved) {
            bail!("the state has a time of {} seconds", self.saved);
        }
        Ok(())
    }
}

/// What triggered a save, which determines the tag and number.
#[derive(Clone, Copy)]
enum By {
    Epoch,
    Iteration,
}

impl Checkpoints {
    fn has_begun(&self, task: &TaskView<'_>) -> bool {
        task.epoch() >= self.config.begin_epoch && task.iteration() >= self.config.begin_iteration
    }

    /// Creates a request for a checkpoint.
    fn pending(&self) -> Pending {
        Pending::new(self.state.clone())
    }

    /// Applies a step to the ledger; tags no longer wanted are deleted once the checkpoint is saved.
    fn take(&mut self, step: Step, pending: &mut Pending) {
        pending
            .doomed
            .extend(step.apply(&mut self.state.ledger, &self.config));
        pending.steps.push(step);
    }

    /// Adds a checkpoint of the current state under the tag of its kind.
    fn add(&mut self, task: &TaskView<'_>, by: By, pending: &mut Pending) -> Result<()> {
        let (number, template) = match by {
            By::Epoch => (task.epoch(), &self.tags.epoch),
            By::Iteration => (task.iteration(), &self.tags.iteration),
        };
        let mut tag = template.tag(&values(task, None))?;
        if matches!(by, By::Epoch) && !task.is_whole() && self.state.ledger.newest() == Some(&tag) {
            // An interrupted epoch must not reuse the tag of the epoch before it.
            tag = self.tags.broken_off.tag(&values(task, None))?;
        }
        let step = Step::Add {
            tag: tag.clone(),
            number,
            iteration: task.iteration(),
        };
        self.take(step, pending);
        pending.tags.push(tag);
        if let Some(last) = &self.tags.last {
            pending.tags.push(last.tag(&values(task, None))?);
        }
        Ok(())
    }

    /// Adds the tags that the current state gets by metrics.
    fn add_best(&mut self, task: &TaskView<'_>, pending: &mut Pending) -> Result<()> {
        for index in 0..self.config.best.len() {
            let (Some(best), Some(template)) =
                (self.config.best.get(index), self.tags.best.get(index))
            else {
                continue;
            };
            let is_fresh = self.state.validated || best.monitor.phase() == Some(Phase::Train);
            let value = best.monitor.value(task, Phase::Val);
            let Some(value) = value.filter(|_| is_fresh) else {
                self.missed |= is_fresh;
                continue;
            };
            let (rule, keep) = (best.rule(), best.keep);
            let passes = best
                .threshold
                .is_none_or(|threshold| rule.is_better(value, threshold));
            if passes && self.state.ledger.is_among_best(index, value, rule, keep) {
                let name = best.monitor.to_string();
                let tag = template.tag(&values(task, Some((&name, value))))?;
                let step = Step::Rank {
                    metric: index,
                    tag: tag.clone(),
                    value,
                };
                self.take(step, pending);
                pending.tags.push(tag);
            }
        }
        Ok(())
    }

    /// Warns once of metrics that have no value when expected, so that no checkpoint is kept for them.
    fn warn_of_missed(&mut self, task: &TaskView<'_>) {
        if !self.missed || std::mem::replace(&mut self.has_warned, true) {
            return;
        }
        let best = self.config.best.iter();
        let missed = best.filter(|best| best.monitor.value(task, Phase::Val).is_none());
        for best in missed {
            let name = best.monitor.name();
            let known = task
                .metric_of(Phase::Train, name)
                .filter(|_| best.monitor.phase().is_none());
            let hint = known.map_or_else(String::new, |_| {
                format!("; it has one in `train`: watch `train/{name}`")
            });
            task.warn(format_args!(
                "no checkpoint is kept for `{}`, which has no value{hint}",
                best.monitor
            ));
        }
    }

    /// Publishes the best checkpoint by the first metric, for `sconce eval` and `predict`. Every checkpoint
    /// stores this value.
    fn note_best(&self, task: &mut TaskView<'_>) -> Result<()> {
        let Some(first) = self.config.best.first() else {
            return Ok(());
        };
        let name = format!("{BEST_CHECKPOINT}/{}", self.name);
        match self.state.ledger.best_with_value(0) {
            Some((tag, value, reference)) => {
                let phase = first.monitor.phase().unwrap_or(Phase::Val);
                let is_of_tag = |pending: &&Pending| pending.tags.iter().any(|one| one == tag);
                let pending = self.pending.iter().rev().find(is_of_tag);
                let note = Note {
                    tag: tag.to_owned(),
                    metric: format!("{phase}/{}", first.monitor.name()),
                    value,
                    reference: reference.cloned(),
                    saved_as: pending.and_then(|pending| pending.tags.first().cloned()),
                };
                task.publish(&name, &note, Keep::Run)
            }
            None if task.published::<Note>(&name)?.is_some() => task.retract(&name),
            None => Ok(()),
        }
    }

    /// Requests the pending checkpoint, if it has any tags.
    fn ask(&mut self, task: &mut At<'_, impl BetweenIterations>, pending: Pending) -> Result<()> {
        let Some(tag) = pending.tags.first() else {
            return Ok(());
        };
        match (self.config.parameters_only, self.config.background) {
            (false, false) => task.checkpoint(tag).save()?,
            (false, true) => task.checkpoint(tag).in_background().save()?,
            (true, false) => task.checkpoint(tag).parameters_only().save()?,
            (true, true) => task
                .checkpoint(tag)
                .parameters_only()
                .in_background()
                .save()?,
        }
        self.pending.push_back(pending);
        Ok(())
    }

    /// Requests the copies and deletions that follow once the checkpoint is on disk.
    fn go_on(&self, task: &mut At<'_, impl ManagesCheckpoints>, pending: &Pending) -> Result<()> {
        let Some((saved, copies)) = pending.tags.split_first() else {
            return Ok(());
        };
        for copy in copies.iter().filter(|copy| *copy != saved) {
            task.checkpoint(saved).copy_to(copy)?;
        }
        for doomed in &pending.doomed {
            if !self.state.ledger.is_wanted(doomed) && !pending.tags.contains(doomed) {
                task.checkpoint(doomed).delete()?;
            }
        }
        Ok(())
    }

    /// Records that a checkpoint is on disk. A later one that is not yet may have some of its tags already.
    fn settle(&mut self, saved: &Pending, reference: &CheckpointRef) -> Result<()> {
        let mut tags = saved.tags.clone();
        for later in &mut self.pending {
            if let Some(before) = &mut later.before {
                before.ledger.saved(&tags, reference)?;
            }
            tags.retain(|tag| !later.tags.contains(tag));
        }
        self.state.ledger.saved(&tags, reference)
    }

    /// Restores the state from before a failed save, and reapplies the later ones.
    fn forget(&mut self, failed: Pending) {
        let State {
            saved, validated, ..
        } = self.state;
        match failed.before {
            Some(before) => self.state = before,
            None => drop((self.state.ledger).forget(|tag, _| failed.tags.iter().any(|t| t == tag))),
        }
        self.state.validated = validated;
        if !self.pending.is_empty() {
            self.state.saved = saved;
        }
        for mut later in std::mem::take(&mut self.pending) {
            later.before = Some(self.state.clone());
            later.doomed.clear();
            for step in std::mem::take(&mut later.steps) {
                self.take(step, &mut later);
            }
            self.pending.push_back(later);
        }
    }

    /// Publishes and loads checkpoints at the end of training.
    fn conclude(&self, task: &mut At<'_, impl BetweenIterations>) -> Result<()> {
        let ledger = &self.state.ledger;
        let set = self.config.set.as_deref();
        let mut tags: Vec<&str> = Vec::new();
        for published in &self.config.publish {
            match published {
                Published::Last => tags.extend(ledger.newest()),
                Published::Best => {
                    let metrics = 0..self.config.best.len();
                    tags.extend(metrics.filter_map(|metric| ledger.best(metric)));
                }
            }
        }
        for tag in tags {
            task.checkpoint(tag).with_set(set).publish(tag)?;
        }
        if !self.config.load_best {
            return Ok(());
        }
        if let Some(tag) = ledger.best(0) {
            return task.checkpoint(tag).with_set(set).load_parameters();
        }
        task.warn("there is no best checkpoint to load: its metric has had no value");
        Ok(())
    }
}

fn values<'a>(task: &TaskView<'_>, metric: Option<(&'a str, f64)>) -> Values<'a> {
    Values {
        epoch: task.epoch(),
        iteration: task.iteration(),
        update: task.update(),
        metric,
    }
}

#[hook(
    name = "checkpoint",
    about = "Saves checkpoints by epochs, iterations, minutes and metrics, and keeps the ones wanted.",
    priority = LOWER,
    requires = ["sconce.requests/1", "sconce.values/1"],
    state = [state, pending],
    asks = [save_checkpoint, save_in_background, copy_checkpoint, delete_checkpoint, publish_weights, load_parameters]
)]
impl Hook for Checkpoints {
    type Config = Config;

    fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
        let config = config.checked()?;
        config.check_run(setup)?;
        setup.asks(&config.asks())?;
        Ok(Checkpoints {
            name: setup.name().to_owned(),
            tags: tags::assign(&config, setup)?,
            config,
            state: State::default(),
            pending: VecDeque::new(),
            missed: false,
            has_warned: false,
        })
    }

    fn after_iter(&mut self, task: &mut AfterIter<'_>) -> Result<()> {
        if task.phase() != Phase::Train || !self.has_begun(task) {
            return Ok(());
        }
        let by_count = |every: u64| task.iteration().is_multiple_of(every);
        let now = task.elapsed().as_secs_f64();
        let is_time = |minutes: f64| now - self.state.saved >= minutes * 60.0;
        let by_time = self.config.minutes.is_some_and(is_time);
        if !by_time && !self.config.iterations.is_some_and(by_count) {
            return Ok(());
        }
        let mut pending = self.pending();
        if by_time {
            self.state.saved = now;
        }
        self.add(task, By::Iteration, &mut pending)?;
        self.ask(task, pending)
    }

    fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
        self.state.validated |= task.phase() == Phase::Val && !task.is_initial_validation();
        Ok(())
    }

    fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
        let mut pending = self.pending();
        if self.has_begun(task) && task.is_whole() {
            let epochs = self.config.epochs;
            if epochs.is_some_and(|every| task.epoch().is_multiple_of(every)) {
                self.add(task, By::Epoch, &mut pending)?;
            }
            self.add_best(task, &mut pending)?;
            self.warn_of_missed(task);
        }
        self.state.validated = false;
        if let Some(before) = &mut pending.before {
            before.validated = false;
        }
        self.ask(task, pending)?;
        // Requests are served later: the checkpoint contains the note.
        self.note_best(task)
    }

    fn after_loop(&mut self, task: &mut AfterLoop<'_>) -> Result<()> {
        if task.phase() != Phase::Train {
            return Ok(());
        }
        let is_wanted = self.config.save_last.0 && task.iteration() > 0;
        if is_wanted && !self.state.ledger.has(task.iteration()) {
            let by = if self.config.epochs.is_some() {
                By::Epoch
            } else {
                By::Iteration
            };
            let mut pending = self.pending();
            self.add(task, by, &mut pending)?;
            self.ask(task, pending)?;
        }
        self.conclude(task)
    }

    fn after_save_checkpoint(
        &mut self,
        task: &mut AfterSaveCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let is_ours = |pending: &Pending| {
            let tag = pending.tags.first();
            checkpoint.asked_by == self.name && tag.is_some_and(|tag| tag == checkpoint.tag)
        };
        let Some(place) = self.pending.iter().position(is_ours) else {
            return Ok(());
        };
        // Saves are reported in the order of the requests: of the ones before it no report will come.
        for _ in 0..place {
            if let Some(unreported) = self.pending.pop_front() {
                self.forget(unreported);
            }
        }
        let Some(pending) = self.pending.pop_front() else {
            return Ok(());
        };
        let Some(error) = checkpoint.error else {
            if let Some(reference) = checkpoint.reference() {
                self.settle(&pending, &reference)?;
            }
            self.note_best(task)?;
            return self.go_on(task, &pending);
        };
        self.forget(pending);
        self.note_best(task)?;
        match self.config.on_failure {
            OnFailure::Warn => Ok(()),
            OnFailure::Error => bail!("the checkpoint `{}` is not saved: {error}", checkpoint.tag),
        }
    }

    /// Forgets what is gone, and does what had to follow the save of the loaded checkpoint.
    fn after_load_checkpoint(
        &mut self,
        task: &mut AfterLoadCheckpoint<'_>,
        checkpoint: &Checkpoint<'_>,
    ) -> Result<()> {
        let is_gone = |_: &str, reference: Option<&CheckpointRef>| {
            reference.is_some_and(|reference| checkpoint.is_missing(reference))
        };
        let forgotten = self.state.ledger.forget(is_gone);
        for tag in &forgotten {
            task.warn(format_args!(
                "the checkpoint `{tag}` is gone: it is no longer one of the best"
            ));
        }
        let loaded = checkpoint.reference();
        let is_loaded = |pending: &Pending| {
            let saved_as = loaded.as_ref().map(CheckpointRef::tag);
            saved_as.is_some() && pending.tags.first().map(String::as_str) == saved_as
        };
        let place = self.pending.iter().position(is_loaded);
        let pending = place.and_then(|place| self.pending.remove(place));
        if let (Some(reference), Some(pending)) = (loaded, pending) {
            self.settle(&pending, &reference)?;
            self.go_on(task, &pending)?;
        }
        self.note_best(task)
    }

    fn state_restored(&mut self) -> Result<()> {
        self.state.check()?;
        self.pending.iter().try_for_each(Pending::check)
    }
}

export_plugin!(Checkpoints, SaveFile);

#[cfg(test)]
mod tests {
    use sconce_plugin_testing::{Failed, Request, ScriptedRun, Seen};
    use serde_json::json;

    use super::*;

    /// Epochs of one iteration, each of which takes 1 from the parameter `w`.
    fn run(epochs: u64) -> ScriptedRun {
        ScriptedRun::new()
            .epochs(epochs)
            .iterations(1)
            .learning_rate(1.0)
            .empty_model()
            .parameter("w", &[1], &[0.0])
            .gradient("w", |_iteration| vec![1.0])
    }

    fn asked(seen: &Seen) -> Vec<(Request, &str)> {
        let asked = seen.asked().iter();
        asked
            .map(|asked| (asked.request, asked.text.as_str()))
            .collect()
    }

    #[test]
    fn the_last_and_every_so_many_are_kept_and_others_go_once_a_newer_one_is_saved()
    -> std::result::Result<(), Failed> {
        let config = json!({"keep_last": 2, "keep_every": 2});
        let seen = run(5).drive::<Checkpoints>(config.clone())?;
        assert_eq!(
            asked(&seen),
            [
                (Request::SaveCheckpoint, "epoch-1"),
                (Request::SaveCheckpoint, "epoch-2"),
                (Request::SaveCheckpoint, "epoch-3"),
                (Request::DeleteCheckpoint, "epoch-1"),
                (Request::SaveCheckpoint, "epoch-4"),
                (Request::SaveCheckpoint, "epoch-5"),
                (Request::DeleteCheckpoint, "epoch-3"),
            ]
        );
        assert_eq!(seen.checkpoints(), ["epoch-2", "epoch-4", "epoch-5"]);
        run(5).check_resume::<Checkpoints>(config)
    }

    #[test]
    fn the_best_is_kept_noted_published_and_loaded_at_the_end() -> std::result::Result<(), Failed> {
        let accuracies = [0.5, 0.75, 0.625];
        let run = run(3).metric(Phase::Val, "accuracy", move |epoch| {
            accuracies[epoch as usize - 1]
        });
        let config = json!({
            "keep_last": 1, "last": "last", "best": [{"monitor": "accuracy", "tag": "best-{epoch}"}],
            "load_best": true, "publish": ["best"],
        });
        let seen = run.drive::<Checkpoints>(config)?;
        assert_eq!(
            asked(&seen),
            [
                (Request::SaveCheckpoint, "epoch-1"),
                (Request::CopyCheckpoint, "epoch-1/last"),
                (Request::CopyCheckpoint, "epoch-1/best-1"),
                (Request::SaveCheckpoint, "epoch-2"),
                (Request::CopyCheckpoint, "epoch-2/last"),
                (Request::CopyCheckpoint, "epoch-2/best-2"),
                (Request::DeleteCheckpoint, "epoch-1"),
                (Request::DeleteCheckpoint, "best-1"),
                (Request::SaveCheckpoint, "epoch-3"),
                (Request::CopyCheckpoint, "epoch-3/last"),
                (Request::DeleteCheckpoint, "epoch-2"),
                (Request::PublishWeights, "best-2/best-2"),
                (Request::LoadParameters, "best-2"),
            ]
        );
        assert_eq!(seen.checkpoints(), ["best-2", "epoch-3", "last"]);
        let note = seen.value("best_checkpoint/checkpoint").expect("a note");
        assert_eq!(
            [&note["tag"], &note["metric"], &note["value"]],
            [&json!("best-2"), &json!("val/accuracy"), &json!(0.75)]
        );
        let reference: CheckpointRef =
            serde_json::from_value(note["reference"].clone()).expect("a reference");
        assert_eq!((reference.tag(), reference.epoch()), ("best-2", 2));
        assert_eq!(seen.parameter("w"), [-2.0]);
        Ok(())
    }

    #[test]
    fn checkpoints_are_saved_by_iterations_or_minutes_and_at_the_end()
    -> std::result::Result<(), Failed> {
        // Two epochs of four iterations, 25 s each.
        let run = ScriptedRun::new().epochs(2).seconds_per_iteration(25.0);
        for (config, saved) in [
            (
                json!({"iterations": 3}),
                &["iteration-3", "iteration-6", "iteration-8"][..],
            ),
            (
                json!({"iterations": 3, "save_last": false}),
                &["iteration-3", "iteration-6"],
            ),
            (
                json!({"iterations": 2, "begin_iteration": 5}),
                &["iteration-6", "iteration-8"],
            ),
            (
                json!({"minutes": 1, "save_last": false}),
                &["iteration-3", "iteration-6"],
            ),
            (json!({"epochs": 2, "tag": "e{epoch:3}"}), &["e002"]),
        ] {
            assert_eq!(run.drive::<Checkpoints>(config)?.saved(), saved);
        }
        Ok(())
    }

    /// The hook with a request of which no report will come: the run that made it has failed.
    struct Waiting(Checkpoints);

    #[hook(
        name = "waiting",
        about = "Waits for a save.",
        priority = LOWER,
        asks = [save_checkpoint, save_in_background, copy_checkpoint, delete_checkpoint, publish_weights, load_parameters]
    )]
    impl Hook for Waiting {
        type Config = Config;

        fn new(config: Config, setup: &Setup<'_>) -> Result<Self> {
            let mut hook = Checkpoints::new(config, setup)?;
            let mut pending = hook.pending();
            let tag = "lost".to_owned();
            let (metric, value) = (0, 0.0);
            pending.tags.push(tag.clone());
            hook.take(Step::Rank { metric, tag, value }, &mut pending);
            hook.pending.push_back(pending);
            Ok(Waiting(hook))
        }

        fn after_epoch(&mut self, task: &mut AfterEpoch<'_>) -> Result<()> {
            self.0.after_epoch(task)
        }

        fn after_cycle(&mut self, task: &mut AfterCycle<'_>) -> Result<()> {
            self.0.after_cycle(task)
        }

        fn after_save_checkpoint(
            &mut self,
            task: &mut AfterSaveCheckpoint<'_>,
            checkpoint: &Checkpoint<'_>,
        ) -> Result<()> {
            self.0.after_save_checkpoint(task, checkpoint)
        }
    }

    #[test]
    fn a_save_of_which_no_report_comes_is_forgotten() -> std::result::Result<(), Failed> {
        let run = run(2).metric(Phase::Val, "loss", |epoch| epoch as f64);
        let config = json!({"keep_last": 1, "best": [{"monitor": "loss", "tag": "best"}]});
        let seen = run.drive::<Waiting>(config)?;
        assert_eq!(
            asked(&seen),
            [
                (Request::SaveCheckpoint, "epoch-1"),
                (Request::SaveCheckpoint, "epoch-2"),
                (Request::CopyCheckpoint, "epoch-2/best"),
                (Request::DeleteCheckpoint, "epoch-1"),
            ]
        );
        Ok(())
    }

    #[test]
    fn nothing_is_deleted_and_no_best_noted_where_saves_fail() -> std::result::Result<(), Failed> {
        let run = run(3).saves_fail("the disk is full");
        let config = json!({"keep_last": 1, "best": [{"monitor": "loss"}]});
        let seen = run.drive::<Checkpoints>(config)?;
        assert_eq!(seen.saved(), ["epoch-1", "epoch-2", "epoch-3", "epoch-3"]);
        assert_eq!(seen.asked_for(Request::DeleteCheckpoint), [] as [&_; 0]);
        assert_eq!(seen.asked_for(Request::CopyCheckpoint), [] as [&_; 0]);
        let failed = run.drive::<Checkpoints>(json!({"on_failure": "error"}));
        assert_eq!(
            failed.unwrap_err().message,
            "the checkpoint `epoch-1` is not saved: the disk is full"
        );
        Ok(())
    }
}
