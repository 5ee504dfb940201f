//! Checkpoints of a scripted run, kept in memory.

use std::collections::BTreeMap;

use super::board::Board;
use super::fake::Fake;
use super::stage::FakeGroup;
use super::values::FakeValues;
use sconce_lifecycle::Position;
use sconce_plugin_api::CheckpointRef;

/// Content of a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    /// What a hook's state keeps of it.
    pub(super) reference: Option<CheckpointRef>,
    pub(super) parameters: Vec<Fake>,
    /// `None` in a checkpoint of the parameters only.
    pub(super) rest: Option<CompleteState>,
    pub(super) entries: FakeValues,
    pub(super) values: FakeValues,
}

/// Everything but the parameters.
#[derive(Clone, Debug)]
pub(super) struct CompleteState {
    pub(super) groups: Vec<FakeGroup>,
    pub(super) shares: BTreeMap<String, f64>,
    pub(super) accumulation: Option<u64>,
    pub(super) board: Board,
    pub(super) position: Position,
    pub(super) accumulated: Option<Vec<Option<Fake>>>,
    pub(super) state: Vec<u8>,
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
