//! Checkpoints of a scripted run, kept in memory, and how they are restored.

use std::collections::BTreeMap;

use super::board::Board;
use super::drive::{Drive, EpochPart, Stopped};
use super::fake::Fake;
use super::reopen::EpochCounters;
use super::stage::FakeGroup;
use super::values::FakeValues;
use crate::Point;
use crate::abi::{CheckpointAbi, TextAbi, ViewAbi};
use crate::ext::Keep;

/// Content of a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub(super) parameters: Vec<Fake>,
    /// `None` in a checkpoint of the parameters only.
    rest: Option<Rest>,
    entries: FakeValues,
    values: FakeValues,
}

#[derive(Clone, Debug)]
struct Rest {
    groups: Vec<FakeGroup>,
    shares: BTreeMap<String, f64>,
    accumulation: Option<u64>,
    board: Board,
    counters: [u64; 6],
    part: EpochPart,
    begun: Option<EpochCounters>,
    accumulated: Option<Vec<Option<Fake>>>,
    update: (u64, u64),
    state: Vec<u8>,
}

impl Checkpoint {
    /// The tensors of a published set, or the parameters if `set` is `None`.
    pub(super) fn set(&self, set: Option<&str>) -> Result<Vec<Fake>, String> {
        let Some(set) = set else {
            return Ok(self.parameters.clone());
        };
        from_set(&self.values, set, &self.parameters)
    }
}

/// The tensors `SET/PARAMETER` in the order and shapes of the parameters; parameters without one are kept.
pub(super) fn from_set(
    values: &FakeValues,
    set: &str,
    parameters: &[Fake],
) -> Result<Vec<Fake>, String> {
    let mut any = false;
    let mut found = Vec::new();
    for parameter in parameters {
        let name = format!("{set}/{}", parameter.name);
        let Some(tensor) = values.tensor(&name) else {
            found.push(parameter.clone());
            continue;
        };
        if tensor.shape() != parameter.shape() {
            return Err(format!("`{name}` has another shape than the parameter"));
        }
        any = true;
        found.push(parameter.with_floats(&tensor.floats()));
    }
    if any {
        Ok(found)
    } else {
        Err(format!("no hook has published a set `{set}`"))
    }
}

impl Drive<'_> {
    /// Saves a checkpoint, calling the hook at both mount points around it.
    pub(super) fn save(&mut self, tag: &str, parameters_alone: bool) -> Result<(), Stopped> {
        self.stage.entries.borrow_mut().forget(Keep::Checkpoint);
        self.tell(Point::BeforeSaveCheckpoint, tag, 0, "")?;
        let state = self.hook.save_state(&self.stage)?;
        let real = self.swapped.as_ref().map(|(_, real)| real.clone());
        let parameters = real.unwrap_or_else(|| self.stage.parameters.borrow().clone());
        let view = &self.view;
        let rest = Rest {
            groups: self.stage.groups.borrow().clone(),
            shares: self.shares.clone(),
            accumulation: self.stage.accumulation.get(),
            board: self.stage.board.borrow().clone(),
            counters: [
                view.epoch,
                view.iteration,
                view.update,
                view.samples,
                self.trained,
                view.ordinal,
            ],
            part: self.part,
            begun: self.begun,
            accumulated: self.accumulated.clone(),
            update: self.update,
            state,
        };
        let checkpoint = Checkpoint {
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
        if error.is_empty() {
            self.checkpoints.insert(tag.to_owned(), checkpoint);
        }
        self.stage.entries.borrow_mut().forget(Keep::Checkpoint);
        self.tell(Point::AfterSaveCheckpoint, tag, bytes, &error)
    }

    /// Rolls back to a checkpoint, as requested by the hook.
    pub(super) fn roll_back(&mut self, tag: &str) -> Result<(), Stopped> {
        let checkpoint = self.checkpoint(tag, "roll back to")?;
        if let Some((_, real)) = self.swapped.take() {
            *self.stage.parameters.borrow_mut() = real;
        }
        self.restore(&checkpoint, tag)?;
        self.jumped = true;
        Ok(())
    }

    pub(super) fn checkpoint(&self, tag: &str, what: &str) -> Result<Checkpoint, Stopped> {
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
    pub(super) fn restore(&mut self, checkpoint: &Checkpoint, tag: &str) -> Result<(), Stopped> {
        let Some(rest) = &checkpoint.rest else {
            return Err(self.blame(&format!(
                "`{tag}` holds parameters alone: nobody can go back to it"
            )));
        };
        let stage = &self.stage;
        stage
            .parameters
            .borrow_mut()
            .clone_from(&checkpoint.parameters);
        stage.groups.borrow_mut().clone_from(&rest.groups);
        stage.board.borrow_mut().restore(&rest.board);
        stage.accumulation.set(rest.accumulation);
        self.shares.clone_from(&rest.shares);
        self.accumulated.clone_from(&rest.accumulated);
        self.update = rest.update;
        self.part = rest.part;
        self.begun = rest.begun;
        let [epoch, iteration, update, samples, batch, ordinal] = rest.counters;
        let view = &mut self.view;
        (view.epoch, view.iteration, view.update) = (epoch, iteration, update);
        (view.samples, view.batch, view.ordinal) = (samples, batch, ordinal);
        view.flags &= !(ViewAbi::HAS_LOSS | ViewAbi::UPDATES);
        self.trained = batch;
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
        let result = self.tell(Point::AfterLoadCheckpoint, tag, 0, "");
        self.stage.entries.borrow_mut().forget(Keep::Checkpoint);
        result
    }

    /// Calls the hook at one of the checkpoint points.
    fn tell(&mut self, point: Point, tag: &str, bytes: u64, error: &str) -> Result<(), Stopped> {
        let path = self.directory.path().join("checkpoints").join(tag);
        let path = path.to_string_lossy();
        let name = self.entry_name().to_owned();
        let payload = CheckpointAbi {
            path: TextAbi::new(&path),
            tag: TextAbi::new(tag),
            hook: TextAbi::new(&name),
            error: TextAbi::new(error),
            bytes,
            seconds: 0.0,
        };
        self.call_with(point, &payload)
    }
}
