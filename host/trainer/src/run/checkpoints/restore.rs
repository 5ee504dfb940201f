//! Restores a checkpoint, for a rollback or a resumed run.

use std::path::Path;
use std::time::Instant;

use candle_core::Tensor;
use sconce_lifecycle::{Consistency, RunDriver, rounds_of};
use sconce_plugin_api::{Keep, Point};

use super::references::LoadedReferences;
use super::save_options::CheckpointResult;
use crate::bridge::ValueContent;
use crate::checkpoint::{
    ChangedSettings, Checkpoint, CheckpointHeader, PassState, PublishedValue, Publisher, Section,
    accumulated_name,
};
use crate::gradients::{GradientTree, Gradients};
use crate::parameters::Parameters;
use crate::run::failure::Leave;
use crate::run::iteration::update::LossWeight;
use crate::run::ranks::state::UpdateStart;
use crate::run::tensor_result::TensorResult;
use crate::run::{RunError, Trainer};

impl Trainer<'_> {
    /// Rolls back to a checkpoint of this run, and leaves the loops in progress.
    pub(in crate::run) fn roll_back(&mut self, tag: &str, hook: &str) -> Result<(), Leave> {
        let Some(store) = self.saver.store.clone() else {
            return self.blame(hook, "can't roll back: the run has no output directory");
        };
        self.settle_writing()?;
        let start = Instant::now();
        let content = match self.read_together(&store, tag)? {
            Ok(content) => content,
            Err(error) => return self.blame(hook, &format!("can't roll back to `{tag}`: {error}")),
        };
        let path = store.path_of(tag);
        let references = match self.restore_references(&content, &path)? {
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
        self.restore_swapped()?;
        self.restore(&content)?;
        self.announce_load((&path, tag), hook, &references, start)?;
        self.serve_unserved_but_roll_backs(&content)?;
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
        let restored = self.restore_tensors(content);
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
        self.losses.first =
            (content.header.first_loss).map_or(self.losses.first, |loss| Some(loss.0));
        self.shared.deferred.forget();
        self.shared.metrics.borrow_mut().restore(metrics);
        self.restore_counters(&content.header);
        self.restore_settings(&content.header.settings);
        self.restore_pass(pass.as_ref());
        self.shared.clock.advance(progress.iteration);
        self.restore_values(content);
        let rank = self.ranks.as_ref().map_or(0, |ranks| ranks.team.rank());
        let states: Vec<(String, Vec<u8>)> = (content.hooks.iter())
            .filter_map(|hook| Some((hook.name.clone(), hook.state_of(rank)?.to_vec())))
            .collect();
        self.hooks.load_states(&states, self.shared)?;
        self.position.consistency = Consistency::Between;
        self.agree_on_settings();
        if let Some(ranks) = &mut self.ranks {
            ranks.update_start = UpdateStart::of(&self.position);
            ranks.measured.clear();
            ranks.evaluation = None;
        }
        Ok(())
    }

    /// Restores the counters and the stage.
    pub(in crate::run) fn restore_counters(&mut self, header: &CheckpointHeader) {
        let progress = &header.progress;
        self.position.epoch = progress.epoch;
        self.position.iteration = progress.iteration;
        self.position.update = progress.update;
        self.position.samples = progress.samples;
        self.position.ordinal = progress.ordinal;
        self.position.trained = progress.batch;
        self.position.validated = progress.validated.unwrap_or(progress.iteration);
        self.position.rounds = self.rounds_of(header);
        self.position.pass.batch = self.position.rounds;
        self.position.number = progress.number.unwrap_or(progress.iteration);
        self.position.round.number = self.position.number;
        self.position.stage = progress.stage;
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

    /// Restores what hooks see of the training pass in progress.
    fn restore_pass(&mut self, state: Option<&PassState>) {
        let state = state.cloned().unwrap_or_default();
        self.position.pass.loss = state.loss.map(|loss| loss.0);
        self.position.pass.loss_waits = false;
        self.position.pass.updates = state.updates;
        self.position.pass.batch_size = state.batch_size;
        self.position.begun = state.begun;
    }

    /// Restores the training settings that hooks have changed; all others follow the manifest.
    fn restore_settings(&mut self, settings: &ChangedSettings) {
        let mut groups = self.shared.groups.borrow_mut();
        groups.set_momentum(None);
        for (name, momentum) in &settings.momenta {
            // Groups that no longer exist are skipped.
            drop(groups.set_momentum_of(name, momentum.0));
        }
        for entry in self.task.parameters().iter() {
            let mut shares = settings.shares.iter();
            let known = shares.find(|(name, _)| name == entry.name());
            entry.set_learning_rate_scale(known.map_or(1.0, |(_, share)| share.0));
        }
        let accumulation = settings.accumulation.as_ref();
        self.shared
            .accumulation
            .set(accumulation.map(|accumulation| accumulation.batches));
        let (begin, end) = accumulation.map_or((0, 0), |accumulation| accumulation.update);
        self.position.update_batches = begin..end;
    }

    /// Restores the optimizer's state and the learning rates. The state of a different optimizer, which the
    /// user has allowed, is skipped with a warning.
    fn restore_optimizer(&mut self, content: &Checkpoint) -> Result<(), RunError> {
        let state: Vec<(String, Tensor)> = content
            .under(Section::Optimizer)
            .map(|(name, tensor)| (name.to_owned(), tensor.clone()))
            .collect();
        let loaded = self.optimizer.load_state(self.task.parameters(), &state);
        if let Err(error) = loaded {
            if !self.resumption.is_changed {
                return Err(RunError::optimizer(&self.position, error));
            }
            let warning = format!(
                "the optimizer starts without state, because the saved one does not fit: {error}"
            );
            self.shared.warn(&warning);
        }
        self.show_optimizer();
        let mut groups = self.shared.groups.borrow_mut();
        for (name, rate) in &content.header.learning_rates {
            // Groups that no longer exist are skipped.
            drop(groups.set_learning_rate_of(name, rate.0));
        }
        let learning_rate = groups.default().learning_rate;
        drop(groups);
        self.shared.learning_rate.set(learning_rate);
        Ok(())
    }

    /// Restores parameters and accumulated gradients; if a parameter does not fit, nothing is changed.
    fn restore_tensors(&mut self, content: &Checkpoint) -> TensorResult<()> {
        let parameters = self.task.parameters();
        let mut found = Vec::with_capacity(parameters.len());
        for parameter in parameters.iter() {
            let name = Section::Parameters.full_name(parameter.name());
            let Some(tensor) = content.tensor(&name) else {
                candle_core::bail!("the checkpoint lacks `{name}`");
            };
            if tensor.dims() != parameter.tensor().dims() {
                candle_core::bail!(
                    "`{name}` has the shape {:?}, the model's parameter {:?}",
                    tensor.dims(),
                    parameter.tensor().dims()
                );
            }
            found.push(tensor.to_dtype(parameter.tensor().dtype())?);
        }
        for (parameter, tensor) in parameters.iter().zip(&found) {
            parameter.assign(tensor)?;
        }
        self.update.accumulated = if self.is_first() {
            accumulated(parameters, content)?
        } else {
            // The first rank has it; each batch counts once.
            GradientTree::default()
        };
        self.update.weight = LossWeight::of_checkpoint(&content.header);
        if self.task.has_varying_weight()
            && content.header.accumulated_weight.is_none()
            && content.under(Section::Accumulated).next().is_some()
        {
            candle_core::bail!(
                "an earlier version of Sconce saved it in the middle of an update, whose batches it weighted by their number \
                 of samples, not by what this loss counts: resume from a checkpoint between two updates"
            );
        }
        Ok(())
    }

    /// Restores the values that hooks keep for the run and the epoch, and the extra entries. Values of hooks
    /// unknown to the checkpoint are left as they are.
    fn restore_values(&self, content: &Checkpoint) {
        let values = &self.shared.values;
        for keep in [Keep::Batch, Keep::Epoch, Keep::Run] {
            for (name, owner, _) in values.of_kind(keep) {
                let hook = self.shared.name_of(owner);
                if content.hook(&hook).is_some() {
                    values.remove(&name);
                }
            }
        }
        let owner = |hook: &str| self.shared.hook_called(hook);
        let json = |value: &serde_json::value::RawValue| ValueContent::Json(value.get().into());
        for value in &content.header.values {
            let PublishedValue {
                name, hook, keep, ..
            } = value;
            values.set(name, keep.keep(), owner(hook), json(&value.value));
        }
        for Publisher { name, hook, keep } in &content.header.publishers {
            if let Some(tensor) = content.tensor(&Section::Published.full_name(name)) {
                let tensor = ValueContent::Tensor(tensor.clone());
                values.set(name, keep.keep(), owner(hook), tensor);
            }
        }
        let entries = &self.shared.checkpoint_entries;
        entries.forget(Keep::Checkpoint);
        for (name, value) in &content.header.extra {
            entries.set(name, Keep::Checkpoint, None, json(value));
        }
        for (name, tensor) in content.under(Section::Extra) {
            let tensor = ValueContent::Tensor(tensor.clone());
            entries.set(name, Keep::Checkpoint, None, tensor);
        }
    }
}

/// The gradients of an update in progress.
fn accumulated(parameters: &Parameters, content: &Checkpoint) -> TensorResult<GradientTree> {
    let mut tree = GradientTree::default();
    for (index, node) in content.header.accumulated_nodes().into_iter().enumerate() {
        let mut gradients = Gradients::none(parameters);
        let mut any = false;
        for (place, parameter) in parameters.iter().enumerate() {
            let name = Section::Accumulated.full_name(&accumulated_name(index, parameter.name()));
            if let Some(gradient) = content.tensor(&name) {
                if gradient.dims() != parameter.tensor().dims() {
                    candle_core::bail!(
                        "`{name}` has the shape {:?}, the model's parameter {:?}",
                        gradient.dims(),
                        parameter.tensor().dims()
                    );
                }
                gradients.set(place, gradient.to_device(parameters.device())?);
                any = true;
            }
        }
        if any {
            tree.put(node, gradients);
        }
    }
    Ok(tree)
}

/// The existing tags, for a message.
pub(in crate::run) fn known(tags: &[String]) -> String {
    if tags.is_empty() {
        return "; no checkpoint has been saved".to_owned();
    }
    let tags: Vec<String> = tags.iter().map(|tag| format!("`{tag}`")).collect();
    format!("; there are {}", tags.join(", "))
}
