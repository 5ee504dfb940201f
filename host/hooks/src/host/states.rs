//! The states of a loop's hooks, with its counters, as the bytes that its own checkpoints keep.
//!
//! **Form.** [`MAGIC`], the version, SHA-256 of what follows; then a file of `safetensors` whose only entry of metadata, `sconce`, is
//! the JSON of [`Header`]. Its tensors are the hooks' states as bytes (`hook/NAME`) and the tensors that hooks have published
//! (`published/NAME`). What is read is not trusted: no size is taken from it unchecked.

use std::collections::{BTreeSet, HashMap};

use candle_core::{DType, Device, Tensor};
use sconce_base::exact::Exact;
use sconce_lifecycle::{EpochStart, Position, TrainingStage};
use sconce_plugin_api::Keep;
use sconce_plugin_api::state::MOST;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::error::{HostError, HostResult};
use super::swap::Swapped;
use crate::bridge::{BridgeState, ValueContent};
use crate::dispatch::Dispatcher;
use crate::metric_board::PhaseState;

/// The first bytes.
const MAGIC: [u8; 8] = *b"SCONCEHK";

/// The form's version.
const VERSION: u32 = 1;

/// Bytes before those that are hashed.
const LEAD: usize = MAGIC.len() + 4 + 32;

/// Key of the header in the metadata of `safetensors`.
const HEADER: &str = "sconce";

/// Lifetimes of values that outlive a checkpoint, with their names in it.
const LIFETIMES: [(Keep, &str); 2] = [(Keep::Epoch, "epoch"), (Keep::Run, "run")];

/// What of a loop's hooks a checkpoint keeps.
#[derive(Debug)]
pub(super) struct LoopState {
    header: Header,
    tensors: HashMap<String, Tensor>,
    /// The set that the parameters were swapped for.
    pub(super) swapped: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    counters: Counters,
    hooks: Vec<SavedHook>,
    metrics: Vec<PhaseState>,
    /// Learning rate, weight decay, and momentum if it was set, of each group.
    groups: Vec<(String, Exact, Exact, Option<Exact>)>,
    frozen: BTreeSet<String>,
    accumulation: Option<u64>,
    swapped: Option<String>,
    values: Vec<SavedValue>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Counters {
    epoch: u64,
    iteration: u64,
    number: u64,
    update: u64,
    samples: u64,
    ordinal: u64,
    validated: u64,
    trained: u64,
    stage: TrainingStage,
    begun: Option<EpochStart>,
    update_batches: (u64, u64),
    loss: Option<Exact>,
    batch_size: u64,
    updates: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedHook {
    name: String,
    kind: String,
    plugin: String,
    version: String,
    is_off: bool,
    has_state: bool,
}

/// A value that a hook has published: its JSON, or if there is none, a tensor.
#[derive(Debug, Serialize, Deserialize)]
struct SavedValue {
    name: String,
    hook: String,
    keep: String,
    json: Option<Box<RawValue>>,
}

impl Counters {
    fn of(position: &Position) -> Counters {
        Counters {
            epoch: position.epoch,
            iteration: position.iteration,
            number: position.number,
            update: position.update,
            samples: position.samples,
            ordinal: position.ordinal + u64::from(position.evaluation.is_uncounted),
            validated: position.validated,
            trained: position.trained,
            stage: position.stage,
            begun: position.begun,
            update_batches: (position.update_batches.start, position.update_batches.end),
            loss: position.training_pass().loss.map(Exact),
            batch_size: position.training_pass().batch_size,
            updates: position.training_pass().updates,
        }
    }

    /// Checks what was read: the numbers are added to, and are loops' bounds.
    fn check(&self) -> Result<(), String> {
        let (start, end) = self.update_batches;
        let begun = self
            .begun
            .map(|begun| [begun.iteration, begun.update, begun.samples]);
        let counters = [
            self.epoch,
            self.iteration,
            self.number,
            self.update,
            self.samples,
            self.ordinal,
            self.validated,
            self.trained,
            self.batch_size,
            start,
        ];
        let largest = counters
            .into_iter()
            .chain(begun.into_iter().flatten())
            .max();
        if largest > Some(MOST) {
            return Err(format!("a counter is above {MOST}"));
        }
        if end < start {
            return Err(format!("an update has the batches {start} to {end}"));
        }
        Ok(())
    }

    fn show(&self, position: &mut Position) {
        position.epoch = self.epoch;
        position.iteration = self.iteration;
        position.number = self.number;
        position.round.number = self.number;
        position.update = self.update;
        position.samples = self.samples;
        position.ordinal = self.ordinal;
        position.validated = self.validated;
        position.trained = self.trained;
        position.rounds = self.trained;
        position.stage = self.stage;
        position.begun = self.begun;
        position.update_batches = self.update_batches.0..self.update_batches.1;
        position.pass.batch = self.trained;
        position.pass.loss = self.loss.map(|loss| loss.0);
        position.pass.batch_size = self.batch_size;
        position.pass.updates = self.updates;
    }
}

impl LoopState {
    /// What is kept now; `states` are those of the hooks, in their order.
    pub(super) fn of(
        hooks: &Dispatcher,
        states: Vec<Option<Vec<u8>>>,
        position: &Position,
        swapped: Option<&Swapped>,
        frozen: &BTreeSet<String>,
        shared: &BridgeState<'_>,
    ) -> HostResult<LoopState> {
        let mut tensors = HashMap::new();
        let mut saved = Vec::new();
        for (hook, state) in hooks.hooks().iter().zip(states) {
            let spec = &hook.spec;
            saved.push(SavedHook {
                name: spec.name.clone(),
                kind: spec.kind.clone(),
                plugin: spec.plugin.clone(),
                version: spec.version.clone(),
                is_off: hook.is_disabled(),
                has_state: state.is_some(),
            });
            if let Some(state) = state {
                let length = state.len();
                let state = Tensor::from_vec(state, length, &Device::Cpu)?;
                tensors.insert(format!("hook/{}", spec.name), state);
            }
        }
        let mut values = Vec::new();
        for (keep, word) in LIFETIMES {
            for (name, owner, value) in shared.values.of_kind(keep) {
                let json = match value {
                    ValueContent::Json(text) => Some(raw(&text)?),
                    ValueContent::Tensor(tensor) => {
                        let name = format!("published/{name}");
                        tensors.insert(name, tensor.to_device(&Device::Cpu)?);
                        None
                    }
                };
                values.push(SavedValue {
                    name: name.into_string(),
                    hook: shared.name_of(owner),
                    keep: word.to_owned(),
                    json,
                });
            }
        }
        let groups = shared.optimizer.groups.borrow();
        let groups = groups.iter().map(|group| {
            (
                group.name.to_string(),
                Exact(group.learning_rate),
                Exact(group.weight_decay),
                group.momentum.map(Exact),
            )
        });
        let swapped = swapped.map(|swapped| swapped.set.clone());
        Ok(LoopState {
            header: Header {
                counters: Counters::of(position),
                hooks: saved,
                metrics: shared.read_metrics().save(),
                groups: groups.collect(),
                frozen: frozen.clone(),
                accumulation: shared.optimizer.accumulation.get(),
                swapped: swapped.clone(),
                values,
            },
            tensors,
            swapped,
        })
    }

    /// Its bytes.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let header = serde_json::to_string(&self.header).map_err(|error| error.to_string())?;
        let metadata = HashMap::from([(HEADER.to_owned(), header)]);
        let content = safetensors::serialize(&self.tensors, Some(metadata))
            .map_err(|error| error.to_string())?;
        let mut bytes = Vec::with_capacity(LEAD + content.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&Sha256::digest(&content));
        bytes.extend_from_slice(&content);
        Ok(bytes)
    }

    /// Reads what [`to_bytes`](LoopState::to_bytes) has written.
    pub(super) fn read(bytes: &[u8]) -> Result<LoopState, String> {
        let not = |what: &str| Err(format!("{what}; they are {} bytes", bytes.len()));
        let Some((lead, content)) = bytes.split_at_checked(LEAD) else {
            return not("they are cut off");
        };
        let (magic, rest) = lead.split_at(MAGIC.len());
        if magic != MAGIC {
            return not("these are not states of hooks");
        }
        let (version, digest) = rest.split_at(4);
        if version != VERSION.to_le_bytes() {
            return not("they were written by another version of Sconce");
        }
        if digest != Sha256::digest(content).as_slice() {
            return not("they are damaged: their fingerprint is another");
        }
        let damaged = |error: String| format!("they are damaged: {error}");
        let (_, metadata) = safetensors::SafeTensors::read_metadata(content)
            .map_err(|error| damaged(error.to_string()))?;
        let header = metadata.metadata().as_ref();
        let header = header.and_then(|entries| entries.get(HEADER));
        let header = header.ok_or_else(|| damaged("there is no header".to_owned()))?;
        let header: Header =
            serde_json::from_str(header).map_err(|error| damaged(error.to_string()))?;
        header.counters.check().map_err(damaged)?;
        let tensors = candle_core::safetensors::load_buffer(content, &Device::Cpu)
            .map_err(|error| damaged(error.to_string()))?;
        Ok(LoopState {
            swapped: header.swapped.clone(),
            header,
            tensors,
        })
    }

    /// Sets the counters, so that hooks see from the beginning where the run goes on.
    pub(super) fn show_counters(&self, position: &mut Position) {
        self.header.counters.show(position);
    }

    /// Names of the hooks that it has states of.
    pub(super) fn hook_names(&self) -> impl Iterator<Item = String> {
        self.header.hooks.iter().map(|hook| hook.name.clone())
    }

    /// Restores it.
    pub(super) fn put_back(
        &self,
        hooks: &mut Dispatcher,
        position: &mut Position,
        frozen: &mut BTreeSet<String>,
        shared: &BridgeState<'_>,
    ) -> HostResult {
        let header = &self.header;
        header.counters.show(position);
        shared.clock.advance(position.iteration);
        shared.metrics.borrow_mut().restore(&header.metrics);
        self.put_back_settings(frozen, shared);
        self.put_back_values(shared)?;
        for hook in header.hooks.iter().filter(|hook| hook.is_off) {
            if hooks.disable(&hook.name) {
                shared.warn(&format!(
                    "`{}` stays off: a fault had switched it off",
                    hook.name
                ));
            }
        }
        let mut states = Vec::new();
        for hook in header.hooks.iter().filter(|hook| hook.has_state) {
            let tensor = self.tensors.get(&format!("hook/{}", hook.name));
            let state = tensor.filter(|tensor| tensor.dtype() == DType::U8);
            let state = state
                .ok_or_else(|| HostError::States(format!("that of `{}` is missing", hook.name)))?;
            states.push((hook.name.clone(), state.flatten_all()?.to_vec1::<u8>()?));
        }
        hooks.load_states(&states, shared)?;
        Ok(())
    }

    fn put_back_settings(&self, frozen: &mut BTreeSet<String>, shared: &BridgeState<'_>) {
        let header = &self.header;
        let mut groups = shared.optimizer.groups.borrow_mut();
        for (name, rate, decay, momentum) in &header.groups {
            // Groups that no longer exist are skipped.
            drop(groups.set_learning_rate_of(name, rate.0));
            drop(groups.set_weight_decay_of(name, decay.0));
            if let Some(momentum) = momentum {
                drop(groups.set_momentum_of(name, momentum.0));
            }
        }
        shared
            .optimizer
            .learning_rate
            .set(groups.default().learning_rate);
        drop(groups);
        shared.optimizer.accumulation.set(header.accumulation);
        frozen.clone_from(&header.frozen);
    }

    fn put_back_values(&self, shared: &BridgeState<'_>) -> HostResult {
        let known: BTreeSet<String> = self.hook_names().collect();
        for (keep, _) in LIFETIMES {
            for (name, owner, _) in shared.values.of_kind(keep) {
                if known.contains(&shared.name_of(owner)) {
                    shared.values.remove(&name);
                }
            }
        }
        for value in &self.header.values {
            let keep = LIFETIMES.iter().find(|(_, word)| *word == value.keep);
            let Some((keep, _)) = keep else {
                return Err(HostError::States(format!(
                    "the lifetime `{}` of `{}` is unknown",
                    value.keep, value.name
                )));
            };
            let content = if let Some(json) = &value.json {
                ValueContent::Json(json.get().into())
            } else {
                let tensor = self.tensors.get(&format!("published/{}", value.name));
                let missing =
                    || HostError::States(format!("the tensor `{}` is missing", value.name));
                ValueContent::Tensor(tensor.ok_or_else(missing)?.clone())
            };
            let owner = shared.hook_called(&value.hook);
            shared.values.set(&value.name, *keep, owner, content);
        }
        Ok(())
    }
}

/// Wraps a text that is known to be JSON.
fn raw(text: &str) -> HostResult<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).map_err(|error| HostError::States(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(change: impl FnOnce(&mut Counters)) -> Result<Vec<u8>, String> {
        let mut counters = Counters::of(&Position::start(2));
        change(&mut counters);
        let header = Header {
            counters,
            hooks: Vec::new(),
            metrics: Vec::new(),
            groups: Vec::new(),
            frozen: BTreeSet::new(),
            accumulation: None,
            swapped: None,
            values: Vec::new(),
        };
        let state = LoopState {
            header,
            tensors: HashMap::new(),
            swapped: None,
        };
        state.to_bytes()
    }

    fn refusal(bytes: &[u8]) -> String {
        LoopState::read(bytes).expect_err("refused")
    }

    #[test]
    fn what_is_read_is_not_trusted() {
        let good = state(|_| ()).expect("bytes");
        assert!(LoopState::read(&good).is_ok());
        let huge = state(|counters| counters.trained = u64::MAX).expect("bytes");
        assert!(refusal(&huge).contains("a counter is above"));
        let turned = state(|counters| counters.update_batches = (5, 2)).expect("bytes");
        assert!(refusal(&turned).contains("an update has the batches 5 to 2"));
        for length in 0..good.len() {
            refusal(&good[..length]);
        }
        let mut other = good.clone();
        other[8] = 9;
        assert!(refusal(&other).contains("another version"));
        assert!(
            refusal(b"not states at all, and longer than the lead of 44 bytes")
                .contains("not states")
        );
    }
}
