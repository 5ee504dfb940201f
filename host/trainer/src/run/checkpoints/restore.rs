//! Restores a checkpoint, for a rollback or a resumed run.
//!
//! A resumed run begins like any other: `before_run`, `before_loop`. Changes and requests that hooks make
//! there took effect in the run's first segment: requests are not served, and changes are undone by restoring
//! the checkpoint, which comes next. From `after_load_checkpoint` on, the run continues the interrupted one.

use std::path::Path;
use std::time::Instant;

use candle_core::Tensor;
use sconce_lifecycle::{Consistency, RunDriver, TrainingStage, rounds_of};
use sconce_plugin_api::ext::Asked;
use sconce_plugin_api::metadata::HookRanks;
use sconce_plugin_api::{Keep, Point};

use super::rank_files::read_together;
use super::references::LoadedReferences;
use super::resumption::Resume;
use super::save_options::CheckpointResult;
use super::state::counters::{restore_counters, restore_pass};
use super::state::settings::{restore_learning_rates, restore_settings};
use super::state::tensors::restore_parameters;
use super::state::values::restore_values;
use crate::checkpoint::{Checkpoint, CheckpointHeader, HookRecord, Section};
use crate::run::failure::Leave;
use crate::run::ranks::state::UpdateStart;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// Rolls back to a checkpoint of this run, and leaves the loops in progress.
    pub(in crate::run) fn roll_back(&mut self, tag: &str, hook: &str) -> Result<(), Leave> {
        let Some(store) = self.saver.store.clone() else {
            return self.blame(hook, "can't roll back: the run has no output directory");
        };
        self.settle_writing()?;
        let start = Instant::now();
        let content = match read_together(&store, tag, self.ranks.as_ref())? {
            Ok(content) => content,
            Err(error) => return self.blame(hook, &format!("can't roll back to `{tag}`: {error}")),
        };
        let path = store.path_of(tag);
        let references = match (self.saver).restore_references(
            &content,
            &path,
            self.ranks.as_ref(),
        )? {
            Ok(references) if references.missing.is_empty() => references,
            Ok(references) => {
                let missing = references.missing.join(", ");
                let message = format!(
                    "can't roll back to `{tag}`: its states refer to checkpoints that don't exist: {missing}"
                );
                return self.blame(hook, &message);
            }
            Err(error) => return self.blame(hook, &format!("can't roll back to `{tag}`: {error}")),
        };
        self.sets.swap_back(&self.position)?;
        self.restore(&content)?;
        self.announce_load((&path, tag), hook, &references, start)?;
        // What had been requested and was not served before it; but not to roll back again, which might never end.
        let mut unserved = content.header.unserved;
        unserved.retain(|(asked, _)| !matches!(asked, Asked::RollBack(_)));
        self.serve_all(unserved)?;
        Err(Leave::RolledBack)
    }

    /// Calls `after_load_checkpoint`.
    pub(in crate::run) fn announce_load(
        &mut self,
        (path, tag): (&Path, &str),
        hook: &str,
        references: &LoadedReferences,
        start: Instant,
    ) -> Result<(), Leave> {
        let sizes = fs_err::read_dir(path).into_iter().flatten().flatten();
        let missing = references.missing.join(" ");
        let reported = CheckpointResult {
            reference: &references.own,
            missing: &missing,
            bytes: sizes
                .filter_map(|file| Some(file.metadata().ok()?.len()))
                .sum(),
            seconds: start.elapsed().as_secs_f64(),
            ..CheckpointResult::new(path, tag, hook)
        };
        let result = self.announce_checkpoint(Point::AfterLoadCheckpoint, &reported);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        result
    }

    /// Restores the state of the run from a checkpoint.
    pub(in crate::run) fn restore(&mut self, content: &Checkpoint) -> Result<(), RunError> {
        self.position.consistency = Consistency::Torn;
        let is_first = self.is_first();
        let restored = restore_parameters(self.task.parameters(), content)
            .and_then(|()| self.learning.update.restore(content, self.task, is_first));
        restored
            .map_err(|error| RunError::task("restoring a checkpoint", &self.position, error))?;
        self.restore_optimizer(content)?;
        let CheckpointHeader {
            progress,
            metrics,
            measured,
            pass,
            ..
        } = &content.header;
        self.sets.measured.clone_from(measured);
        self.sets.forget_loaded();
        if let Some(loss) = content.header.first_loss {
            self.learning.measures.losses.first = Some(loss.0);
        }
        self.shared.device.deferred.forget();
        self.shared.metrics.borrow_mut().restore(metrics);
        let rounds = self.rounds_of(&content.header);
        restore_counters(&mut self.position, &content.header, rounds);
        let parameters = self.task.parameters();
        let settings = &content.header.settings;
        restore_settings(settings, self.shared, parameters, &mut self.position);
        restore_pass(&mut self.position, pass.as_ref());
        self.shared.clock.advance(progress.iteration);
        restore_values(content, self.shared);
        let rank = self.ranks.as_ref().map_or(0, |ranks| ranks.team.rank());
        let states: Vec<(String, Vec<u8>)> = (content.hooks.iter())
            .filter_map(|hook| Some((hook.name.clone(), hook.state_of(rank)?.to_vec())))
            .collect();
        self.hooks.load_states(&states, self.shared)?;
        self.position.consistency = Consistency::Between;
        if let Some(ranks) = &mut self.ranks {
            ranks.agree_on_settings(self.shared, self.task);
            ranks.update_start = UpdateStart::of(&self.position);
            ranks.measured.clear();
            ranks.evaluation = None;
        }
        Ok(())
    }

    /// Rounds finished in a checkpoint's epoch: those of the run that saved it, or as many as this number of ranks would
    /// have needed.
    fn rounds_of(&self, header: &CheckpointHeader) -> u64 {
        let progress = &header.progress;
        let ranked = self.ranked();
        let saved = header.facts.ranks.map_or(1, |facts| facts.ranks);
        if saved == ranked.size {
            return progress.rounds.unwrap_or(progress.batch);
        }
        let (requested, planned) = self.accumulation();
        rounds_of(progress.batch, requested.unwrap_or(planned), ranked)
    }

    /// Restores the optimizer's state and the learning rates. The state of a different optimizer, which the
    /// user has allowed, is skipped with a warning.
    fn restore_optimizer(&mut self, content: &Checkpoint) -> Result<(), RunError> {
        let state: Vec<(String, Tensor)> = content
            .under(Section::Optimizer)
            .map(|(name, tensor)| (name.to_owned(), tensor.clone()))
            .collect();
        let loaded = self
            .learning
            .stepper
            .optimizer
            .load_state(self.task.parameters(), &state);
        if let Err(error) = loaded {
            if !self.resumption.is_changed {
                return Err(RunError::optimizer(&self.position, error));
            }
            let warning = format!(
                "the optimizer starts without state, because the saved one does not fit: {error}"
            );
            self.shared.warn(&warning);
        }
        self.learning
            .stepper
            .show(self.task.parameters(), self.shared);
        restore_learning_rates(&content.header, self.shared);
        Ok(())
    }
}

impl<'run> Trainer<'run> {
    /// Makes the run resume from a checkpoint.
    pub fn resuming(mut self, resume: Resume) -> Trainer<'run> {
        let is_here = |name: &str| {
            let mut hooks = self.hooks.hooks().iter();
            hooks.any(|hook| hook.spec.name == name)
        };
        let hooks = resume.checkpoint.hooks.iter();
        let absent = hooks.filter(|hook| !is_here(&hook.name));
        self.resumption.absent = absent
            .map(|hook| HookRecord {
                absent: true,
                ..hook.clone()
            })
            .collect();
        for hook in &self.resumption.absent {
            // The values that they published stay under their names, on all ranks: they are in the checkpoint.
            self.shared.register_on(&hook.name, HookRanks::All);
        }
        for hook in resume.checkpoint.hooks.iter().filter(|hook| hook.disabled) {
            if self.hooks.disable(&hook.name) {
                let name = &hook.name;
                self.shared
                    .warn(&format!("`{name}` stays off: a fault had switched it off"));
            }
        }
        let header = &resume.checkpoint.header;
        self.resumption.at = Some(header.progress.iteration);
        self.learning.update.is_audited = header.progress.iteration > 0;
        self.resumption.is_changed = resume.is_changed;
        self.shared.clock.count_in(header.seconds);
        let rounds = self.rounds_of(&resume.checkpoint.header);
        restore_counters(&mut self.position, &resume.checkpoint.header, rounds);
        if let Some(store) = &self.saver.store {
            let paths = store.tags().into_iter().map(|tag| store.path_of(&tag));
            self.saver.checkpoints = paths.collect();
        }
        self.saver.last_checkpoint = Some(resume.path.clone());
        self.saver
            .history
            .clone_from(&resume.checkpoint.header.history);
        self.resumption.from = Some(resume);
        self
    }

    /// Restores the checkpoint, after `before_loop`.
    pub(in crate::run) fn resume_from_checkpoint(&mut self, batches: u64) -> Result<(), Leave> {
        let Some(resume) = self.resumption.from.take() else {
            return Ok(());
        };
        let start = Instant::now();
        let references = (self.saver).restore_references(
            &resume.checkpoint,
            &resume.path,
            self.ranks.as_ref(),
        )?;
        let references = references.map_err(|error| {
            RunError::task("resuming", &self.position, candle_core::Error::msg(error))
        })?;
        self.restore(&resume.checkpoint)?;
        if self.resumption.is_changed
            && self.position.stage == TrainingStage::Epoch
            && self.position.trained >= batches
        {
            // The epoch has become shorter than the part of it that is done.
            self.position.trained = 0;
            self.position.rounds = 0;
            self.position.begun = None;
            self.position.pass.batch = 0;
            self.position.epoch += 1;
            self.position.stage = TrainingStage::Validation;
        }
        // So may the update in progress.
        self.position.update_batches.end = self.position.update_batches.end.min(batches);
        let is_over = self.position.epoch > 0 && self.position.epoch >= self.plan.epochs;
        if self.position.stage == TrainingStage::Epoch
            && self.position.trained == 0
            && self.position.begun.is_none()
            && is_over
        {
            // No further pass begins: hooks see the end of the last one.
            self.position.pass.batch = batches;
            self.position.pass.batches = batches;
        }
        let tag = resume.checkpoint.header.tag.clone();
        self.announce_load((&resume.path, &tag), "", &references, start)?;
        // What had been requested when it was saved, and was not served before it.
        self.serve_all(resume.checkpoint.header.unserved)
    }
}
