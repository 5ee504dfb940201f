//! Collects a run's state into checkpoints and saves them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use candle_core::Tensor;
use sconce_lifecycle::{Consistency, EpochStart, PassCounters};
use sconce_ops::device::copy_to_host;
use sconce_plugin_api::abi::{CheckpointAbi, TextAbi};
use sconce_plugin_api::{Keep, Point};
use serde_json::value::RawValue;

use super::save_options::{CheckpointExtent, CheckpointResult, SaveOptions, reference_text};
use crate::bridge::ValueContent;
use crate::checkpoint::{
    Accumulation, ChangedSettings, Checkpoint, CheckpointError, CheckpointHeader, FAILED, FORMAT,
    Facts, Files, HookRecord, Lifetime, PassState, Progress, PublishedValue, Publisher, Saved,
    Section, accumulated_name,
};
use crate::device_facts::device_name;
use crate::dispatch::{HookFault, Payload};
use crate::optim::ParameterGroup;
use crate::run::failure::Leave;
use crate::run::tensor_result::TensorResult;
use crate::run::{RunError, Trainer};
use crate::task::DataFacts;
use crate::version::HOST_VERSION;
use sconce_base::exact::Exact;

impl Trainer<'_> {
    /// Saves a checkpoint, after waiting for one still being written. Failure to write it does not end the
    /// run.
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
        self.settle_writing()?;
        self.expect_same_parameters()?;
        let path = store.path_of(tag);
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        let reported = CheckpointResult::new(&path, tag, hook);
        self.announce_checkpoint(Point::BeforeSaveCheckpoint, &reported)?;
        let start = Instant::now();
        let states = (self.hooks.save_states(self.shared)).map_err(RunError::Hook)?;
        if self.ranks.is_some() {
            let written = self.write_together(&store, tag, states, true, options.extent)?;
            return self.report_saved(&written, reported, options.extent, start);
        }
        let files = self.files(tag, states, true, options.extent)?;
        if options.in_background {
            self.shared.checkpoint_entries.forget(Keep::Checkpoint);
            self.begin_writing(store, hook, (tag, options.extent), files, start);
            return Ok(());
        }
        let written = files.and_then(|files| store.write(&files));
        let written = written.map_err(|error| error.to_string());
        self.report_saved(&written, reported, options.extent, start)
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
    pub(in crate::run) fn reference_position(&self) -> (u64, u64) {
        (self.position.epoch, self.position.update)
    }

    /// Saves the state after a failure without hiding anything. The faults of hooks that fail again are
    /// listed after the first error.
    pub(in crate::run) fn save_failed(&mut self) -> Vec<HookFault> {
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
            if !self.all_agree(!is_torn) {
                return faults;
            }
            if self.position.consistency == Consistency::Batch {
                start.restore(&mut self.position);
                self.update.reset();
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
        let is_exact = self.position.consistency == Consistency::Between
            && !self.position.evaluation.is_under_way;
        let path = store.path_of(FAILED);
        let reported = CheckpointResult::new(&path, FAILED, "");
        self.shared.checkpoint_entries.forget(Keep::Checkpoint);
        faults.extend(self.announce_checkpoint_to_all(Point::BeforeSaveCheckpoint, &reported));
        let start = Instant::now();
        let (states, failed) = self.hooks.save_states_of_all(self.shared);
        faults.extend(failed);
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

    /// The checkpoint's files in memory, as copies.
    pub(in crate::run) fn files(
        &mut self,
        tag: &str,
        states: Vec<Option<Vec<u8>>>,
        exact: bool,
        extent: CheckpointExtent,
    ) -> Result<Result<Files, CheckpointError>, RunError> {
        let content = self.content(tag, states, exact);
        let content = content
            .map_err(|error| RunError::task("taking a checkpoint", &self.position, error))?;
        let files = Files::of(&content);
        Ok(files.map(|files| match extent {
            CheckpointExtent::Whole => files,
            CheckpointExtent::Parameters => files.parameters_alone(),
        }))
    }

    /// Records what has been written, or warns the user that writing failed.
    pub(in crate::run) fn note(
        &mut self,
        written: &Result<Saved, String>,
        tag: &str,
        path: &Path,
        extent: CheckpointExtent,
    ) {
        match written {
            Ok(_) => self.saved(path, extent),
            // The first rank says so.
            Err(_) if !self.is_first() => {}
            Err(error) => {
                let warning = format!("the checkpoint `{tag}` is not saved: {error}");
                self.shared.warn(&warning);
            }
        }
    }

    fn saved(&mut self, path: &Path, extent: CheckpointExtent) {
        if extent == CheckpointExtent::Whole {
            self.saver.last_checkpoint = Some(path.to_owned());
            self.shared.trail.set_checkpoint(&path.to_string_lossy());
        }
        if !self.saver.checkpoints.iter().any(|known| known == path) {
            self.saver.checkpoints.push(path.to_owned());
        }
    }

    /// Calls a mount point with a checkpoint's payload.
    pub(in crate::run) fn announce_checkpoint(
        &mut self,
        point: Point,
        reported: &CheckpointResult<'_>,
    ) -> Result<(), Leave> {
        let path = reported.path.to_string_lossy();
        let payload = payload(&path, reported);
        self.call_with(point, Payload::Checkpoint(&payload))
    }

    /// Calls a checkpoint's mount point for every hook, even if others fail.
    pub(in crate::run) fn announce_checkpoint_to_all(
        &mut self,
        point: Point,
        reported: &CheckpointResult<'_>,
    ) -> Vec<HookFault> {
        let path = reported.path.to_string_lossy();
        let payload = payload(&path, reported);
        let payload = Payload::Checkpoint(&payload);
        (self.hooks).call_every_with(point, payload, &self.position, self.shared)
    }

    fn content(
        &self,
        tag: &str,
        states: Vec<Option<Vec<u8>>>,
        exact: bool,
    ) -> TensorResult<Checkpoint> {
        let mut tensors = self.own_tensors()?;
        let (values, publishers) = self.published(&mut tensors)?;
        let mut extra = Vec::new();
        for (name, _, value) in self.shared.checkpoint_entries.of_kind(Keep::Checkpoint) {
            match value {
                ValueContent::Json(text) => extra.push((name.into_string(), raw(&text)?)),
                ValueContent::Tensor(tensor) => {
                    tensors.push((Section::Extra.full_name(&name), tensor));
                }
            }
        }
        // A device that fails says so here, with an error.
        let tensors = (tensors.into_iter())
            .map(|(name, tensor)| Ok((name, copy_to_host(&tensor)?)))
            .collect::<TensorResult<Vec<_>>>()?;
        let groups = self.shared.groups.borrow();
        let measured = self.measured_set();
        let nodes = self.update.accumulated.nodes();
        let header = CheckpointHeader {
            format: FORMAT,
            accumulated: (nodes.iter())
                .map(|(node, _)| (node.level(), node.index()))
                .collect(),
            accumulated_weight: self.update.weight.for_checkpoint(),
            host: HOST_VERSION.to_owned(),
            tag: tag.to_owned(),
            run: self.saver.name.clone(),
            exact,
            progress: self.progress(),
            seconds: self.shared.clock.elapsed_seconds(),
            measured,
            first_loss: self.losses.first.map(Exact),
            pass: pass_state(self.position.training_pass(), self.position.begun),
            facts: self.data_facts(),
            learning_rates: groups
                .iter()
                .map(|group| (group.name.to_string(), Exact(group.learning_rate)))
                .collect(),
            settings: self.settings(),
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

    /// Parameters, optimizer state, and the gradients of an unfinished update.
    fn own_tensors(&self) -> TensorResult<Vec<(String, Tensor)>> {
        let parameters = self.task.parameters();
        let mut tensors = Vec::new();
        for parameter in parameters.iter() {
            let real = self
                .sets
                .swapped
                .as_ref()
                .and_then(|s| s.real(parameter.name()));
            let tensor = real.unwrap_or_else(|| parameter.tensor()).clone();
            tensors.push((Section::Parameters.full_name(parameter.name()), tensor));
        }
        let optimizer = self.optimizer.state(parameters);
        let optimizer = optimizer.map_err(candle_core::Error::wrap)?;
        tensors.extend(
            optimizer
                .into_iter()
                .map(|(name, t)| (Section::Optimizer.full_name(&name), t)),
        );
        for (index, (_, gradients)) in self.update.accumulated.nodes().iter().enumerate() {
            for (place, parameter) in parameters.iter().enumerate() {
                if let Some(gradient) = gradients.at(place) {
                    let name = accumulated_name(index, parameter.name());
                    let gradient = gradient.contiguous()?;
                    tensors.push((Section::Accumulated.full_name(&name), gradient));
                }
            }
        }
        Ok(tensors)
    }

    /// The hooks with their states, followed by those of earlier segments of the run.
    fn hook_records(&self, states: Vec<Option<Vec<u8>>>) -> Vec<HookRecord> {
        let hooks = self.hooks.hooks().iter().zip(states);
        let records = hooks.map(|(hook, state)| HookRecord {
            disabled: hook.is_disabled(),
            state,
            of_ranks: self.states_of_ranks(&hook.spec.name),
            ..hook.spec.record()
        });
        records
            .chain(self.resumption.absent.iter().cloned())
            .collect()
    }

    /// The values that hooks keep for the run and the epoch, and the publishers of tensors. The tensors
    /// themselves are added to `tensors`.
    fn published(
        &self,
        tensors: &mut Vec<(String, Tensor)>,
    ) -> TensorResult<(Vec<PublishedValue>, Vec<Publisher>)> {
        let mut values = Vec::new();
        let mut publishers = Vec::new();
        for keep in Lifetime::ALL {
            for (name, owner, value) in self.shared.values.of_kind(keep.keep()) {
                let hook = self.shared.name_of(owner);
                match value {
                    ValueContent::Json(text) => values.push(PublishedValue {
                        value: raw(&text)?,
                        name: name.into_string(),
                        hook,
                        keep,
                    }),
                    ValueContent::Tensor(tensor) => {
                        let real = self.sets.swapped.as_ref().and_then(|s| s.published(&name));
                        let tensor = real.cloned().unwrap_or(tensor);
                        tensors.push((Section::Published.full_name(&name), tensor));
                        publishers.push(Publisher {
                            name: name.into_string(),
                            hook,
                            keep,
                        });
                    }
                }
            }
        }
        Ok((values, publishers))
    }

    pub(in crate::run) fn progress(&self) -> Progress {
        Progress {
            epoch: self.position.epoch,
            iteration: self.position.iteration,
            update: self.position.update,
            samples: self.position.samples,
            batch: self.position.trained,
            ordinal: self.position.ordinal + u64::from(self.position.evaluation.is_uncounted),
            stage: self.position.stage,
            number: (self.position.number != self.position.iteration)
                .then_some(self.position.number),
            validated: (self.plan.validate_every.iterations()).map(|_| self.position.validated),
            rounds: (self.position.rounds != self.position.trained).then_some(self.position.rounds),
        }
    }

    /// The training settings that hooks have changed.
    fn settings(&self) -> ChangedSettings {
        let groups = self.shared.groups.borrow();
        let momentum =
            |group: &ParameterGroup| Some((group.name.to_string(), Exact(group.momentum?)));
        let parameters = self.task.parameters().iter();
        let shares = parameters.map(|entry| (entry.name().to_owned(), Exact(entry.share())));
        let accumulation = |batches| Accumulation {
            batches,
            update: (
                self.position.update_batches.start,
                self.position.update_batches.end,
            ),
        };
        ChangedSettings {
            momenta: groups.iter().filter_map(momentum).collect(),
            shares: shares
                .filter(|(_, share)| (share.0 - 1.0).abs() > 0.0)
                .collect(),
            accumulation: self.shared.accumulation.get().map(accumulation),
        }
    }

    /// Properties of the data and the batches.
    pub(in crate::run) fn data_facts(&self) -> Facts {
        Facts {
            seed: self.plan.seed,
            batch_size: self.plan.batch_size,
            accumulate: self.plan.accumulate,
            data: DataFacts::of(self.task),
            files: self.saver.files.clone(),
            ranks: self.rank_facts(),
            device: device_name(self.task.parameters().device()),
        }
    }
}

/// What a checkpoint stores of a training pass, beside its counters; `None` as at its beginning.
fn pass_state(pass: PassCounters, begun: Option<EpochStart>) -> Option<PassState> {
    let state = PassState {
        loss: pass.loss.map(Exact),
        batch_size: pass.batch_size,
        updates: pass.updates,
        begun,
    };
    (state != PassState::default()).then_some(state)
}

fn payload(path: &str, reported: &CheckpointResult<'_>) -> CheckpointAbi {
    CheckpointAbi {
        path: TextAbi::new(path),
        tag: TextAbi::new(reported.tag),
        hook: TextAbi::new(reported.hook),
        error: TextAbi::new(reported.error),
        bytes: reported.bytes,
        seconds: reported.seconds,
        reference: TextAbi::new(reported.reference),
        missing: TextAbi::new(reported.missing),
    }
}

/// Wraps a string that is known to be JSON.
fn raw(text: &str) -> TensorResult<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).map_err(candle_core::Error::wrap)
}
