//! Checkpoints: everything that a run needs to go on from where it was, in one safetensors file.
//!
//! Tensors stand under `parameters/`, `optimizer/`, `accumulated/` (gradients of an update that was
//! half done), `published/`, `extra/` and `hooks/` (their states, as bytes); all else is JSON under
//! the key `sconce` of the file's metadata.

mod exact;
mod file;

use candle_core::Tensor;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use exact::Exact;
pub use file::{Error, read, write};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// Everything that a run needs to go on from where it was.
#[derive(Debug)]
pub struct Checkpoint {
    /// All that is no tensor.
    pub header: Header,
    /// The tensors, by their full names.
    pub tensors: Vec<(String, Tensor)>,
}

/// What of a checkpoint is no tensor.
#[derive(Debug, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// The host that wrote it.
    pub host: String,
    /// Its tag.
    pub tag: String,
    /// How far the training was.
    pub progress: Progress,
    /// The parameter groups' learning rates.
    pub learning_rates: Vec<(String, Exact)>,
    /// The metrics of each phase.
    pub metrics: Vec<PhaseState>,
    /// The values that hooks keep for the run.
    pub values: Vec<PublishedValue>,
    /// The hooks that published tensors, by the tensors' names.
    pub publishers: Vec<(String, String)>,
    /// The extra entries.
    pub extra: Vec<(String, Box<RawValue>)>,
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

/// What a training does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Train the epoch, behind the batches that are done.
    #[default]
    Epoch,
    /// Validate, where that is due; the epoch before it is finished.
    Validation,
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

/// A value that a hook keeps for the run.
#[derive(Debug, Serialize, Deserialize)]
pub struct PublishedValue {
    /// Its name.
    pub name: String,
    /// The hook that published it.
    pub hook: String,
    /// The value.
    pub value: Box<RawValue>,
}

impl Checkpoint {
    /// The tensor of this full name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        let found = self.tensors.iter().find(|(known, _)| known == name);
        found.map(|(_, tensor)| tensor)
    }

    /// The tensors under a prefix such as `optimizer/`, without it.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Tensor)> {
        let tensors = self.tensors.iter();
        tensors.filter_map(move |(name, tensor)| Some((name.strip_prefix(prefix)?, tensor)))
    }
}
