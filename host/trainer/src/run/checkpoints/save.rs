//! Collects a run's state into checkpoints and saves them.
//!
//! A checkpoint may be written in the background while training continues: the contents are copied at the time of the
//! request; a thread writes the copy to disk. At most one write is in progress: the next save waits for it, as do all other
//! operations on checkpoints, the end of training and the end of the run. Hooks learn the result only at these points, which
//! depend on the run alone and not on the speed of the disk, so that the run stays bit-identical.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use sconce_base::exact::Exact;
use sconce_lifecycle::Consistency;
use sconce_ops::device::copy_to_host;
use sconce_plugin_api::{Keep, Point};

use super::rank_files::on_first;
use super::save_options::{CheckpointExtent, CheckpointResult, SaveOptions, reference_text};
use super::state::counters::{pass_state, progress};
use super::state::settings::{changed_settings, learning_rates};
use super::state::tensors::parameter_tensors;
use super::state::values::{extra_entries, published};
use super::writing::{WriteResult, Writing};
use crate::checkpoint::{
    Checkpoint, CheckpointError, CheckpointHeader, FAILED, FORMAT, Facts, Files, HookRecord, Saved,
    Section, Store,
};
use crate::device_facts::device_name;
use crate::dispatch::{HookFault, Payload};
use crate::run::failure::Leave;
use crate::run::{RunError, Trainer};
use crate::task::DataFacts;
use crate::version::HOST_VERSION;

/// What writing a checkpoint has resulted in, and when collecting its contents began.
type Written = (Result<Saved, String>, Instant);

impl Trainer<'_> {
    /// Saves a checkpoint, after waiting for one still being written. Failure to write it does not end the
    /// run. However the save ends, hooks are told: the one that has asked for it may not count on it.
    pub(in crate::run) fn save(
        &mut self,
        tag: &str,
        hook: &str,
        options: SaveOptions,
    ) -> Result<(), Leave> {
        self.settle_measures()?;
        let Some(store) = self.saver.store.clone() else {
            return self.blame(
                hook,
                "can't save a checkpoint: the run has no output directory",
            );
        };
        let path = store.path_of(tag);
        let reported = CheckpointResult::new(&path, tag, hook);
        match self.write(store, reported, options) {
            Ok(Some((written, start))) => {
                self.report_saved(&written, reported, options.extent, start)
            }
            Ok(None) => Ok(()),
            Err(leave) => {
                if let Leave::Failed(error) = &leave {
                    self.report_broken_off(reported, error);
                }
                Err(leave)
            }
        }
    }

    /// Collects a checkpoint's contents and writes them. Returns the result and when it began; `None` if a thread does it.
    fn write(
        &mut self,
        store: Store,
        reported: CheckpointResult<'_>,
        options: SaveOptions,
    ) -> Result<Option<Written>, Leave> {
        let (tag, hook) = (reported.tag, reported.hook);
        self.settle_writing()?;
        self.expect_same_parameters()?;
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        self.announce_checkpoint(Point::BeforeSaveCheckpoint, &reported)?;
        let start = Instant::now();
        let states = (self.hooks.save_states(self.shared)).map_err(RunError::Hook)?;
        if self.ranks.is_some() {
            let written = self.write_together(&store, tag, states, true, options.extent)?;
            return Ok(Some((written, start)));
        }
        let files = self.files(tag, states, true, options.extent)?;
        if options.in_background {
            self.shared.checkpoint_entries.forget(Keep::Checkpoint);
            let at = self.reference_position();
            (self.saver).begin_writing(store, hook, (tag, options.extent), files, start, at);
            return Ok(None);
        }
        let written =
            (files.and_then(|files| store.write(&files))).map_err(|error| error.to_string());
        Ok(Some((written, start)))
    }

    /// Reports a save that an error has broken off, with which the run ends: hooks' states, which are saved next, may not name a
    /// checkpoint that was never written. Further errors add nothing to it.
    fn report_broken_off(&mut self, reported: CheckpointResult<'_>, error: &RunError) {
        let written = Err(error.to_string());
        let reported = reported.with(&written, "");
        drop(self.announce_checkpoint_to_all(Point::AfterSaveCheckpoint, &reported));
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
    }

    /// Records a save that began at `start`, and tells the hooks of it.
    fn report_saved(
        &mut self,
        written: &Result<Saved, String>,
        reported: CheckpointResult<'_>,
        extent: CheckpointExtent,
        start: Instant,
    ) -> Result<(), Leave> {
        self.note(written, reported.tag, reported.path, extent);
        let reference = reference_text(written, reported.tag, self.reference_position());
        let reported = CheckpointResult {
            seconds: start.elapsed().as_secs_f64(),
            ..reported.with(written, &reference)
        };
        let result = self.announce_checkpoint(Point::AfterSaveCheckpoint, &reported);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        result
    }

    /// Epochs and updates finished, as references have them.
    fn reference_position(&self) -> (u64, u64) {
        (self.position.epoch, self.position.update)
    }

    /// Saves the state after a failure without hiding anything. The faults of hooks that fail again are
    /// listed after the first error. `is_within_call`: some hooks of a mount point were called, others not, or what they had
    /// requested there was not done.
    pub(in crate::run) fn save_failed(&mut self, is_within_call: bool) -> Vec<HookFault> {
        // What can't be read is left out: the run has failed already.
        drop(self.settle_measures());
        let mut faults = Vec::new();
        if let Some(ranks) = &self.ranks {
            // What is saved is the state before the update in progress, which is the same on all ranks.
            let start = ranks.update_start;
            let is_torn = matches!(
                self.position.consistency,
                Consistency::Torn | Consistency::Stepped
            );
            if !ranks.all_agree(!is_torn) {
                return faults;
            }
            if self.position.consistency == Consistency::Batch {
                start.restore(&mut self.position);
                self.learning.update.reset();
            }
        }
        let is_new =
            self.resumption.at != Some(self.position.iteration) && self.position.iteration > 0;
        let Some(store) = self.saver.store.clone().filter(|_| is_new) else {
            return faults;
        };
        match self.position.consistency {
            Consistency::Torn => return faults,
            Consistency::Stepped => {
                self.position.count_iteration();
                self.shared.clock.advance(self.position.iteration);
            }
            Consistency::Between | Consistency::Batch => {}
        }
        if self.expect_same_parameters().is_err() {
            if self.is_first() {
                let warning = format!(
                    "the checkpoint `{FAILED}` is not saved: the ranks have different parameters"
                );
                self.shared.warn(&warning);
            }
            return faults;
        }
        let path = store.path_of(FAILED);
        let reported = CheckpointResult::new(&path, FAILED, "");
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        faults.extend(self.announce_checkpoint_to_all(Point::BeforeSaveCheckpoint, &reported));
        let start = Instant::now();
        let (states, failed) = self.hooks.save_states_of_all(self.shared);
        faults.extend(failed);
        let is_exact = self.position.consistency == Consistency::Between
            && !self.position.evaluation.is_under_way
            && !is_within_call
            && faults.is_empty();
        let whole = CheckpointExtent::Whole;
        let written = if self.ranks.is_some() {
            let written = self.write_together(&store, FAILED, states, is_exact, whole);
            written.ok()
        } else {
            let files = self.files(FAILED, states, is_exact, whole).ok();
            files.map(|files| {
                let written = files.and_then(|files| store.write(&files));
                written.map_err(|error| error.to_string())
            })
        };
        // The task's own failure is reported already; a second one while copying adds nothing.
        if let Some(written) = written {
            self.note(&written, FAILED, &path, CheckpointExtent::Whole);
            if written.is_ok() && !is_exact {
                self.saver.note_inexact(&store, &path);
            }
            let reference = reference_text(&written, FAILED, self.reference_position());
            let reported = CheckpointResult {
                seconds: start.elapsed().as_secs_f64(),
                ..reported.with(&written, &reference)
            };
            faults.extend(self.announce_checkpoint_to_all(Point::AfterSaveCheckpoint, &reported));
        }
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        faults
    }

    /// Writes a checkpoint with the states of all ranks' hooks. `states` are those of this rank's.
    fn write_together(
        &mut self,
        store: &Store,
        tag: &str,
        states: Vec<Option<Vec<u8>>>,
        is_exact: bool,
        extent: CheckpointExtent,
    ) -> Result<Result<Saved, String>, RunError> {
        if let Some(ranks) = &mut self.ranks {
            ranks.gather_states(&states, &self.hooks, self.position.update)?;
        }
        on_first(self.ranks.as_ref(), || {
            let files =
                (self.files(tag, states, is_exact, extent)).map_err(|error| error.to_string())?;
            let written = files.and_then(|files| store.write(&files));
            written.map_err(|error| error.to_string())
        })
    }

    /// The checkpoint's files in memory, as copies.
    fn files(
        &self,
        tag: &str,
        states: Vec<Option<Vec<u8>>>,
        exact: bool,
        extent: CheckpointExtent,
    ) -> Result<Result<Files, CheckpointError>, RunError> {
        let content = (self.content(tag, states, exact))
            .map_err(|error| RunError::task("taking a checkpoint", &self.position, error))?;
        let files = Files::of(&content).map(|files| files.after(self.saver.last_tag()));
        Ok(files.map(|files| match extent {
            CheckpointExtent::Whole => files,
            CheckpointExtent::Parameters => files.parameters_alone(),
        }))
    }

    /// Records what has been written. The first rank says what has not.
    fn note(
        &mut self,
        written: &Result<Saved, String>,
        tag: &str,
        path: &Path,
        extent: CheckpointExtent,
    ) {
        if written.is_ok() || self.is_first() {
            self.saver.note(written, tag, path, extent, self.shared);
        }
    }

    /// Calls a mount point with a checkpoint's payload.
    pub(in crate::run) fn announce_checkpoint(
        &mut self,
        point: Point,
        reported: &CheckpointResult<'_>,
    ) -> Result<(), Leave> {
        let path = reported.path.to_string_lossy();
        let payload = reported.payload(&path);
        self.call_with(point, Payload::Checkpoint(&payload))
    }

    /// Calls a checkpoint's mount point for every hook, even if others fail.
    fn announce_checkpoint_to_all(
        &mut self,
        point: Point,
        reported: &CheckpointResult<'_>,
    ) -> Vec<HookFault> {
        let path = reported.path.to_string_lossy();
        let payload = reported.payload(&path);
        let payload = Payload::Checkpoint(&payload);
        (self.hooks).call_every_with(point, payload, &self.position, self.shared)
    }

    /// Waits for the checkpoint being written, if any, and reports the result to hooks.
    pub(in crate::run) fn settle_writing(&mut self) -> Result<(), Leave> {
        self.settle_by(|trainer, reported| {
            trainer.announce_checkpoint(Point::AfterSaveCheckpoint, reported)
        })
        .unwrap_or(Ok(()))
    }

    /// Like [`settle_writing`](Self::settle_writing), but after a failure: every hook is reported, even if others fail.
    pub(in crate::run) fn settle_after_failure(&mut self) -> Vec<HookFault> {
        self.settle_by(|trainer, reported| {
            trainer.announce_checkpoint_to_all(Point::AfterSaveCheckpoint, reported)
        })
        .unwrap_or_default()
    }

    fn settle_by<T>(
        &mut self,
        report: impl FnOnce(&mut Self, &CheckpointResult<'_>) -> T,
    ) -> Option<T> {
        let writing = self.saver.writing.take()?;
        let hook = writing.hook.clone();
        // Waiting for the disk is time of the hook that has asked.
        Some(self.serving(&hook, |trainer| trainer.end_writing(writing, report)))
    }

    fn end_writing<T>(
        &mut self,
        writing: Writing,
        report: impl FnOnce(&mut Self, &CheckpointResult<'_>) -> T,
    ) -> T {
        let Writing {
            tag,
            hook,
            path,
            extent,
            at,
            work,
        } = writing;
        let WriteResult { result, seconds } = work.end(&tag);
        let result = result.map_err(|error| error.to_string());
        self.note(&result, &tag, &path, extent);
        let reference = reference_text(&result, &tag, at);
        let reported = CheckpointResult {
            seconds,
            ..CheckpointResult::new(&path, &tag, &hook).with(&result, &reference)
        };
        report(self, &reported)
    }

    fn content(
        &self,
        tag: &str,
        states: Vec<Option<Vec<u8>>>,
        exact: bool,
    ) -> candle_core::Result<Checkpoint> {
        let (parameters, swapped) = (self.task.parameters(), self.sets.swapped.as_ref());
        let mut tensors = parameter_tensors(parameters, swapped);
        let optimizer = self.learning.stepper.optimizer.state(parameters);
        let optimizer = optimizer.map_err(candle_core::Error::wrap)?.into_iter();
        tensors.extend(optimizer.map(|(name, t)| (Section::Optimizer.full_name(&name), t)));
        self.learning.update.add_tensors(parameters, &mut tensors)?;
        let (values, publishers) = published(self.shared, swapped, &mut tensors)?;
        let extra = extra_entries(self.shared, &mut tensors)?;
        // A device that fails says so here, with an error.
        let tensors = (tensors.into_iter())
            .map(|(name, tensor)| Ok((name, copy_to_host(&tensor)?)))
            .collect::<candle_core::Result<Vec<_>>>()?;
        let nodes = self.learning.update.accumulated.nodes();
        let validates_within = self.plan.validate_every.iterations().is_some();
        let header = CheckpointHeader {
            format: FORMAT,
            accumulated: (nodes.iter())
                .map(|(node, _)| (node.level(), node.index()))
                .collect(),
            accumulated_weight: self.learning.update.weight.for_checkpoint(),
            host: HOST_VERSION.to_owned(),
            tag: tag.to_owned(),
            run: self.saver.name.clone(),
            exact,
            progress: progress(&self.position, validates_within),
            seconds: self.shared.clock.elapsed_seconds(),
            measured: self.sets.measured_set(parameters, self.shared),
            first_loss: self.learning.measures.losses.first.map(Exact),
            pass: pass_state(self.position.training_pass(), self.position.begun),
            facts: self.data_facts(),
            learning_rates: learning_rates(self.shared),
            settings: changed_settings(self.shared, parameters, &self.position),
            metrics: self.shared.read_metrics().save(),
            values,
            publishers,
            extra,
            history: self.saver.history.clone(),
            unserved: self.saver.unserved(),
        };
        Ok(Checkpoint {
            header,
            hooks: self.hook_records(states),
            manifest: self.saver.manifest.clone(),
            preprocessing: Arc::clone(&self.saver.preprocessing),
            tensors,
        })
    }

    /// The hooks with their states, followed by those of earlier segments of the run.
    fn hook_records(&self, states: Vec<Option<Vec<u8>>>) -> Vec<HookRecord> {
        let hooks = self.hooks.hooks().iter().zip(states);
        let records = hooks.map(|(hook, state)| HookRecord {
            disabled: hook.is_disabled(),
            state,
            of_ranks: (self.ranks.as_ref())
                .map(|ranks| ranks.states_of(&hook.spec.name))
                .unwrap_or_default(),
            ..hook.spec.record()
        });
        records
            .chain(self.resumption.absent.iter().cloned())
            .collect()
    }

    /// Properties of the data and the batches.
    fn data_facts(&self) -> Facts {
        Facts {
            seed: self.plan.seed,
            batch_size: self.plan.batch_size,
            accumulate: self.plan.accumulate,
            data: DataFacts::of(self.task),
            files: self.saver.files.clone(),
            ranks: (self.ranks.as_ref()).map(|ranks| ranks.facts(self.plan.accumulate)),
            device: device_name(self.task.parameters().device()),
            products: (self
                .plan
                .precision
                .products(self.task.parameters().device()))
            .map(str::to_owned),
            base: (self.task.parameters().adapters())
                .and_then(|adapters| Some(adapters.base()?.to_owned())),
        }
    }
}
