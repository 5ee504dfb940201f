//! Resumes a run that was stopped, killed or ended by an error.
//!
//! A resumed run begins like any other: `before_run`, `before_loop`. Changes and requests that hooks make
//! there took effect in the run's first segment: requests are not served, and changes are undone by restoring
//! the checkpoint, which comes next. From `after_load_checkpoint` on, the run continues the interrupted one.

use std::time::Instant;

use sconce_lifecycle::TrainingStage;
use sconce_plugin_api::metadata::HookRanks;

use super::resumption::Resume;
use crate::checkpoint::HookRecord;
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};

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
        self.update.is_audited = header.progress.iteration > 0;
        self.resumption.is_changed = resume.is_changed;
        self.shared.clock.count_in(header.seconds);
        self.restore_counters(&resume.checkpoint.header);
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
        let references = self.restore_references(&resume.checkpoint, &resume.path)?;
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
        self.serve_unserved(&resume.checkpoint)
    }
}
