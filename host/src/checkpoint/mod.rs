//! Checkpoints: everything that a run needs to go on from where it was, in one directory.
//!
//! `docs/checkpoints.md` describes the files. `store` knows where the checkpoints of a run are
//! and which is the latest, `directory` writes and reads one whole or not at all, `form` is the
//! way between a [`Checkpoint`] and the bytes of its files, and `sound` checks the numbers that come
//! back.

mod best;
mod bytes;
mod directory;
mod error;
mod form;
mod index;
mod layout;
mod section;
mod sets;
mod sound;
mod store;

use candle_core::Tensor;
use sconce_plugin_api::Keep;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::exact::Exact;
use crate::task::DataFacts;

pub use best::{Best, best};
pub use directory::{parameters, read};
pub use error::Error;
pub use form::Files;
pub use section::Section;
pub use sets::{TRAINED, Weights, weights};
pub use store::{LATEST, Store};

/// The version of the format of a checkpoint whose parameters are those that were measured.
pub const FORMAT: u32 = 2;

/// The version of the format where a set of averages was measured instead: a host that does not know it would
/// resume from the averages.
pub const FORMAT_WITH_MEASURED: u32 = 3;

/// Everything that a run needs to go on from where it was.
#[derive(Debug)]
pub struct Checkpoint {
    /// All that is neither tensor nor hook's state.
    pub header: Header,
    /// The hooks of the run in their order, then those of earlier parts of it that are gone.
    pub hooks: Vec<HookRecord>,
    /// The run's manifest with all defaults filled in; null where there is none.
    pub manifest: Value,
    /// The tensors, by their full names.
    pub tensors: Vec<(String, Tensor)>,
}

/// What of a checkpoint is neither tensor nor hook's state.
#[derive(Debug, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`] or [`FORMAT_WITH_MEASURED`].
    pub format: u32,
    /// The host that wrote it.
    pub host: String,
    /// Its tag.
    pub tag: String,
    /// The run's name.
    pub run: String,
    /// Whether it was saved between two iterations, so that whoever goes on from it gets the bits of
    /// a run that was never stopped.
    pub exact: bool,
    /// How far the training was.
    pub progress: Progress,
    /// Seconds of the run so far.
    pub seconds: f64,
    /// The published set that stood in the parameters' place when the model was evaluated last; none where
    /// the parameters themselves were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// What hooks see of the training pass between its batches; none where it is as at its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<PassState>,
    /// What the run's data and batches were.
    pub facts: Facts,
    /// The parameter groups' learning rates.
    pub learning_rates: Vec<(String, Exact)>,
    /// What hooks have changed of how the training goes.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
    /// The metrics of each phase.
    pub metrics: Vec<PhaseState>,
    /// The values that hooks keep for the run or the epoch.
    pub values: Vec<PublishedValue>,
    /// The hooks that published tensors, by the tensors' names.
    pub publishers: Vec<Publisher>,
    /// The extra entries.
    pub extra: Vec<(String, Box<RawValue>)>,
}

/// What hooks have changed of how the training goes, beside the learning rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The parameter groups' momenta, where they are others than the optimizer's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub momenta: Vec<(String, Exact)>,
    /// The parameters that are trained at a share of their group's learning rate; 0: frozen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<(String, Exact)>,
    /// The batches of an update, where they are not the manifest's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulation: Option<Accumulation>,
}

/// How many batches make an update, and which ones make the present one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accumulation {
    /// The batches of the updates to come.
    pub batches: u64,
    /// The batches of the epoch under way that make the present update, or the last one: its first,
    /// and the one behind its last.
    pub update: (u64, u64),
}

impl Settings {
    /// Whether everything is as the manifest says.
    pub fn is_empty(&self) -> bool {
        *self == Settings::default()
    }
}

/// What a run's data and batches are: with others it can't go on bit for bit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The seed of everything random.
    pub seed: u64,
    /// Samples per training batch.
    pub batch_size: usize,
    /// Batches per update.
    pub accumulate: usize,
    /// The data of each phase that has any.
    pub data: Vec<DataFacts>,
}

/// How far a training is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Training epochs finished.
    pub epoch: u64,
    /// Training batches finished.
    pub iteration: u64,
    /// Optimizer steps finished.
    pub update: u64,
    /// Training samples seen.
    pub samples: u64,
    /// Training batches finished of the epoch under way.
    pub batch: u64,
    /// Validations that this epoch has had.
    pub ordinal: u64,
    /// What comes next.
    pub stage: Stage,
}

/// What hooks see of a training pass beside the counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassState {
    /// The loss of the last batch; none where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Exact>,
    /// Samples of the last batch; 0 after the end of the pass.
    pub batch_size: u64,
    /// Whether an update came after the last batch.
    pub updates: bool,
    /// Where the epoch under way began; none where `before_epoch` has not been called for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<EpochStart>,
}

/// The counters with which `before_epoch` was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochStart {
    /// Training batches finished.
    pub iteration: u64,
    /// Optimizer steps finished.
    pub update: u64,
    /// Training samples seen.
    pub samples: u64,
}

/// What a training does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Validate before the first epoch, where that is wanted; then as `epoch`.
    #[default]
    Start,
    /// Train the epoch, behind the batches that are done.
    Epoch,
    /// Validate, where that is due; the epoch before it is finished.
    Validation,
    /// End the cycle: the validation is finished too.
    Cycle,
}

/// The metrics of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseState {
    /// The phase's number.
    pub phase: u32,
    /// The samples of the pass so far.
    pub samples: Exact,
    /// The sums behind the task's metrics.
    pub sums: Vec<Exact>,
    /// Name, value, and whether it is the task's.
    pub values: Vec<(String, Exact, bool)>,
}

/// How long a published value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetime {
    /// To the end of the epoch.
    Epoch,
    /// To the end of the run.
    Run,
}

impl Lifetime {
    /// Both.
    pub const ALL: [Lifetime; 2] = [Lifetime::Epoch, Lifetime::Run];

    /// As hooks say it.
    pub fn keep(self) -> Keep {
        match self {
            Lifetime::Epoch => Keep::Epoch,
            Lifetime::Run => Keep::Run,
        }
    }
}

/// A value that a hook keeps for the run or the epoch.
#[derive(Debug, Serialize, Deserialize)]
pub struct PublishedValue {
    /// Its name.
    pub name: String,
    /// The hook that published it.
    pub hook: String,
    /// How long it is kept.
    pub keep: Lifetime,
    /// The value.
    pub value: Box<RawValue>,
}

/// Whose a published tensor is.
#[derive(Debug, Serialize, Deserialize)]
pub struct Publisher {
    /// The tensor's name.
    pub name: String,
    /// The hook that published it.
    pub hook: String,
    /// How long it is kept.
    pub keep: Lifetime,
}

/// A hook of the run: what it was, and its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookRecord {
    /// The manifest entry's name.
    pub name: String,
    /// The hook kind.
    pub kind: String,
    /// The plugin's name.
    pub plugin: String,
    /// The plugin's version.
    pub version: String,
    /// The SHA-256 of the plugin's file.
    pub sha256: String,
    /// Whether a fault had switched it off.
    pub disabled: bool,
    /// Whether it is of an earlier part of the run, and its state only kept.
    pub absent: bool,
    /// Its state; nothing where it could give none.
    pub state: Option<Vec<u8>>,
}

impl Checkpoint {
    /// The tensor of this full name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        let found = self.tensors.iter().find(|(known, _)| known == name);
        found.map(|(_, tensor)| tensor)
    }

    /// The tensors of a section, with their own names.
    pub fn under(&self, section: Section) -> impl Iterator<Item = (&str, &Tensor)> {
        let tensors = self.tensors.iter();
        tensors.filter_map(move |(name, tensor)| Some((section.own_name(name)?, tensor)))
    }

    /// The hook of this name.
    pub fn hook(&self, name: &str) -> Option<&HookRecord> {
        self.hooks.iter().find(|hook| hook.name == name)
    }
}
