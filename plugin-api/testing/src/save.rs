//! Saving checkpoints of a scripted run, and restoring them.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::checkpoint::{Checkpoint, CompleteState};
use super::drive::{Drive, INTERRUPTED, Leave};
use sconce_lifecycle::{Consistency, EvaluationState, PassCounters, Position};
use sconce_plugin_api::abi::{CheckpointAbi, TextAbi};
use sconce_plugin_api::ext::Keep;
use sconce_plugin_api::{CheckpointRef, Phase, Point};

impl Drive<'_> {
    /// Saves a checkpoint, calling the hook at both mount points around it.
    pub(super) fn save(&mut self, tag: &str, parameters_alone: bool) -> Result<(), Leave> {
        self.stage.entries.borrow_mut().forget(Keep::Checkpoint);
        self.tell(Point::BeforeSaveCheckpoint, tag, 0, "", None)?;
        let state = self.hook.save_state(&self.stage)?;
        let real = self.swapped.as_ref().map(|(_, real)| real.clone());
        let parameters = real.unwrap_or_else(|| self.stage.parameters.borrow().clone());
        let rest = CompleteState {
            groups: self.stage.groups.borrow().clone(),
            shares: self.shares.clone(),
            accumulation: self.stage.requests.accumulation.get(),
            board: self.stage.board.borrow().clone(),
            position: self.position_to_save(),
            accumulated: self.accumulated.clone(),
            state,
        };
        let checkpoint = Checkpoint {
            reference: reference(tag, &self.position),
            parameters,
            rest: (!parameters_alone).then_some(rest),
            entries: self.stage.entries.borrow().clone(),
            values: self.stage.values.borrow().clone(),
        };
        let bytes = checkpoint
            .parameters
            .iter()
            .map(|tensor| 4 * tensor.len() as u64)
            .sum();
        let error = self.script.saves_fail.clone().unwrap_or_default();
        let mut saved = None;
        if error.is_empty() {
            saved.clone_from(&checkpoint.reference);
            self.checkpoints.insert(tag.to_owned(), checkpoint);
        }
        self.stage.entries.borrow_mut().forget(Keep::Checkpoint);
        self.tell(Point::AfterSaveCheckpoint, tag, bytes, &error, saved)
    }

    /// The position that a checkpoint saved now has: that of the training, also during a validation.
    fn position_to_save(&self) -> Position {
        let position = &self.position;
        Position {
            phase: Phase::Train,
            ordinal: position.ordinal + u64::from(position.evaluation.is_uncounted),
            pass: PassCounters {
                batch: position.trained,
                ..position.training_pass()
            },
            evaluation: EvaluationState::default(),
            consistency: Consistency::Between,
            ..position.clone()
        }
    }

    /// Rolls back to a checkpoint, as requested by the hook.
    pub(super) fn roll_back(&mut self, tag: &str) -> Result<(), Leave> {
        let checkpoint = self.checkpoint(tag, "roll back to")?;
        if let Some((_, real)) = self.swapped.take() {
            *self.stage.parameters.borrow_mut() = real;
        }
        self.restore(&checkpoint, tag)?;
        Err(Leave::RolledBack)
    }

    pub(super) fn checkpoint(&self, tag: &str, what: &str) -> Result<Checkpoint, Leave> {
        self.checkpoints.get(tag).cloned().ok_or_else(|| {
            let tags: Vec<&str> = self.checkpoints.keys().map(String::as_str).collect();
            let tags = if tags.is_empty() {
                "none".to_owned()
            } else {
                tags.join(", ")
            };
            self.blame(&format!(
                "can't {what} `{tag}`: there is no such checkpoint, but {tags}"
            ))
        })
    }

    /// Restores everything from a checkpoint and calls `after_load_checkpoint`.
    pub(super) fn restore(&mut self, checkpoint: &Checkpoint, tag: &str) -> Result<(), Leave> {
        let Some(rest) = &checkpoint.rest else {
            return Err(self.blame(&format!(
                "`{tag}` has the parameters alone: a run can't roll back to it"
            )));
        };
        let stage = &self.stage;
        stage
            .parameters
            .borrow_mut()
            .clone_from(&checkpoint.parameters);
        stage.groups.borrow_mut().clone_from(&rest.groups);
        stage.board.borrow_mut().restore(&rest.board);
        stage.requests.accumulation.set(rest.accumulation);
        self.shares.clone_from(&rest.shares);
        self.accumulated.clone_from(&rest.accumulated);
        self.position = Position {
            phase: self.position.phase,
            consistency: self.position.consistency,
            pass: PassCounters {
                batches: self.position.pass.batches,
                ..rest.position.pass
            },
            ..rest.position.clone()
        };
        self.set_clock();
        let mut values = stage.values.borrow_mut();
        for entry in values
            .entries
            .clone()
            .into_iter()
            .flatten()
            .filter(|entry| entry.is_own)
        {
            values.remove(&entry.name);
        }
        let kept = checkpoint.values.entries.iter().flatten();
        for entry in kept.filter(|entry| entry.is_own && entry.keep != Keep::Batch) {
            values.set(entry.clone());
        }
        drop(values);
        stage.entries.borrow_mut().clone_from(&checkpoint.entries);
        self.hook.load_state(&rest.state, &self.stage)?;
        let loaded = checkpoint.reference.clone();
        let result = self.tell(Point::AfterLoadCheckpoint, tag, 0, "", loaded);
        self.stage.entries.borrow_mut().forget(Keep::Checkpoint);
        result
    }

    /// Calls the hook at one of the checkpoint points.
    fn tell(
        &mut self,
        point: Point,
        tag: &str,
        bytes: u64,
        error: &str,
        reference: Option<CheckpointRef>,
    ) -> Result<(), Leave> {
        let reference = reference.map(|reference| reference.to_string());
        let reference = reference.unwrap_or_default();
        let path = self.directory.path().join("checkpoints").join(tag);
        let path = path.to_string_lossy();
        // The checkpoint of an interruption is not a hook's.
        let name = match tag {
            INTERRUPTED => String::new(),
            _ => self.entry_name().to_owned(),
        };
        let payload = CheckpointAbi {
            path: TextAbi::new(&path),
            tag: TextAbi::new(tag),
            hook: TextAbi::new(&name),
            error: TextAbi::new(error),
            bytes,
            seconds: 0.0,
            reference: TextAbi::new(&reference),
            missing: TextAbi::EMPTY,
        };
        self.call_with(point, &payload)
    }
}

/// The reference to a checkpoint saved now. In place of a hash of files that don't exist it has one of its tag and
/// position, which is the same in every run.
fn reference(tag: &str, position: &Position) -> Option<CheckpointRef> {
    let mut hasher = DefaultHasher::new();
    (tag, position.iteration, position.update).hash(&mut hasher);
    let digits = format!("{:016x}", hasher.finish()).repeat(4);
    CheckpointRef::of_saved(tag, position.epoch, position.update, &digits).ok()
}
