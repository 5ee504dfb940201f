//! Checkpoints: everything that a run needs to resume, in one directory.
//!
//! `docs/checkpoints.md` describes the files.
//!
//! **Parts.** This file has the types of a [`Checkpoint`]'s contents.
//! - `section`: prefixes of the tensors' full names. `sets`: sets of weights, trained or averaged.
//! - `form`: serialisation to [`Files`] in memory, and back. `layout`: names of the files. `bytes`: a tensor's bytes
//!   without a copy.
//! - `index`: `index.json` with the sizes and SHA-256 of all files. `directory`: one checkpoint on disk.
//!   `header`: what its header says, without its tensors.
//! - `store`: the checkpoints of a run, and the link `latest`. `objects`: contents that states refer to, by their hash.
//!   `best`: the one noted as the best.
//! - `sound`: validation of the numbers read from a checkpoint. `error`: [`CheckpointError`].
//!
//! **Flow.** To save, the trainer fills a [`Checkpoint`]; [`Files::of`] copies it into memory, so that a thread can
//! write it while training continues. [`Store::write`] writes the files to a temporary directory, syncs each, writes
//! the index last, renames the directory to its tag and points `latest` to it. What the tag had before is kept as an
//! object if a state in another checkpoint refers to it. To read, [`read`] parses the index,
//! verifies size and SHA-256 of each file, deserialises them, and validates the header. [`weights`] and [`parameters`]
//! read only the weights.
//!
//! **States.** On disk a checkpoint is unfinished (a hidden directory `.TAG.new-PID`), finished (a directory with the
//! name of its tag and an index), or being replaced (`.TAG.old-PID`, where directories can't be exchanged atomically).
//! [`Store::recover`] removes the first kind after a crash and restores the last. A finished one with the parameters
//! alone ([`Files::parameters_alone`]) can't be resumed from. [`TrainingStage`] says what a resumed training does next.

mod best;
mod bytes;
mod directory;
mod error;
mod form;
mod header;
mod history;
mod index;
mod layout;
mod objects;
mod section;
mod sets;
mod sound;
mod store;

use std::sync::Arc;

use candle_core::Tensor;
pub use sconce_lifecycle::{EpochStart, TrainingStage};
use sconce_plugin_api::ext::Asked;
use sconce_plugin_api::{CheckpointRef, Keep};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::data::DataFile;
use crate::gradients::TreeNode;
use crate::task::DataFacts;
use sconce_base::exact::Exact;

pub use best::{BestCheckpoint, best};
pub(crate) use bytes::bytes_of;
pub use directory::hash_of;
pub use directory::{
    RawFiles, Saved, manifest, parameters, preprocessing, read, read_raw, shared_file,
};
pub use error::CheckpointError;
pub use form::Files;
pub use header::{data_of, epoch_of};
pub use history::{HistoryRecord, MOST_RECORDS};
pub(crate) use layout::tensors;
pub use sconce_hooks::metric_board::{PhaseState, WeightsId};
pub use sconce_hooks::record::{HookRecord, LibraryId};
pub use section::Section;
pub use sets::{SavedMetrics, TRAINED, Weights, weights, weights_and_metrics, whole_weights};
pub(crate) use store::{FAILED, INTERRUPTED};
pub use store::{LATEST, Store};

/// Format version of the checkpoints that this host writes, the first that was released.
pub const FORMAT: u32 = 1;

/// Everything that a run needs to resume.
#[derive(Debug)]
pub struct Checkpoint {
    /// Everything that is neither a tensor nor a hook's state.
    pub header: CheckpointHeader,
    /// Hooks of the run in order, then those from earlier segments that are no longer configured.
    pub hooks: Vec<HookRecord>,
    /// The run's manifest with all defaults filled in; null if there is none.
    pub manifest: Value,
    /// What was learnt from the training data, as the files of a [`Preprocessing`](crate::data::Preprocessing). Only
    /// written: a run that resumes learns it from its data.
    pub preprocessing: PreprocessingFiles,
    /// Tensors, by their full names.
    pub tensors: Vec<(String, Tensor)>,
}

/// Names and contents of the files of what was learnt from the training data; none if the task doesn't say.
pub type PreprocessingFiles = Arc<[(&'static str, Vec<u8>)]>;

/// Everything in a checkpoint that is neither a tensor nor a hook's state.
#[derive(Debug, Serialize, Deserialize)]
pub struct CheckpointHeader {
    /// Version of the format, at most [`FORMAT`].
    pub format: u32,
    /// Host that wrote it.
    pub host: String,
    /// Tag of the checkpoint.
    pub tag: String,
    /// Name of the run.
    pub run: String,
    /// Whether it was saved between two iterations. Resuming is then bit-identical to a run that was
    /// never stopped.
    pub exact: bool,
    /// Progress of the training.
    pub progress: Progress,
    /// Seconds that the run has taken so far.
    pub seconds: f64,
    /// Published set that replaced the parameters when the model was last evaluated; `None` if the
    /// parameters themselves were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// The first finite training loss of the run, by which a divergence is detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_loss: Option<Exact>,
    /// What hooks see of the training pass between its batches; `None` at the beginning of a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass: Option<PassState>,
    /// Properties of the run's data and batches.
    pub facts: Facts,
    /// Learning rates of the parameter groups.
    pub learning_rates: Vec<(String, Exact)>,
    /// Training settings that hooks have changed.
    #[serde(default, skip_serializing_if = "ChangedSettings::is_empty")]
    pub settings: ChangedSettings,
    /// Metrics of each phase.
    pub metrics: Vec<PhaseState>,
    /// Values that hooks keep for the run or the epoch.
    pub values: Vec<PublishedValue>,
    /// Hooks that published tensors, by the tensors' names.
    pub publishers: Vec<Publisher>,
    /// Extra entries added by hooks.
    pub extra: Vec<(String, Box<RawValue>)>,
    /// What has happened to the run's hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryRecord>,
    /// Requests made at the same mount point that were not served yet, each with its hook's name: a resumed run serves
    /// them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unserved: Vec<(Asked, String)>,
    /// The partial sums of an unfinished update's gradients, each as level and index of its node in the tree of
    /// [`gradients`](crate::gradients). Empty: one sum at most, from the update's start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accumulated: Vec<(u32, u64)>,
    /// Weight of the losses of an unfinished update's batches, if it is not their number of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accumulated_weight: Option<AccumulatedWeight>,
}

/// Weight of the losses whose gradients are accumulated in an unfinished update.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccumulatedWeight {
    /// Sum of the samples' weights.
    pub weight: Exact,
    /// Number of samples.
    pub samples: Exact,
}

impl CheckpointHeader {
    /// The nodes of an unfinished update's partial sums, in order.
    pub fn accumulated_nodes(&self) -> Vec<TreeNode> {
        if self.accumulated.is_empty() {
            return vec![TreeNode::leaf(0)];
        }
        let nodes = self.accumulated.iter();
        nodes
            .filter_map(|&(level, index)| TreeNode::new(level, index))
            .collect()
    }
}

/// Name of a parameter's gradient in the partial sum with this index: the first has the parameter's own.
pub fn accumulated_name(index: usize, parameter: &str) -> String {
    match index {
        0 => parameter.to_owned(),
        index => format!("+{index}/{parameter}"),
    }
}

/// Training settings that hooks have changed, other than the learning rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangedSettings {
    /// Momenta of the parameter groups, if they differ from the optimizer's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub momenta: Vec<(String, Exact)>,
    /// Weight decays of the parameter groups, if they differ from the manifest's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weight_decays: Vec<(String, Exact)>,
    /// Parameters trained at a fraction of their group's learning rate; 0: frozen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<(String, Exact)>,
    /// Batches per update, if not the manifest's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accumulation: Option<Accumulation>,
}

/// Number of batches per update, and the range of batches in the current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accumulation {
    /// Batches per update from the next update on.
    pub batches: u64,
    /// Range of the epoch's batches that form the current update, or the last one: its first, and
    /// the one after its last.
    pub update: (u64, u64),
}

impl ChangedSettings {
    /// Whether everything is as in the manifest.
    pub fn is_empty(&self) -> bool {
        *self == ChangedSettings::default()
    }
}

/// Properties of a run's data and batches: if they differ, resuming is not bit-identical.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Samples per training batch.
    pub batch_size: usize,
    /// Batches per update.
    pub accumulate: usize,
    /// Data of each phase that has any.
    pub data: Vec<DataFacts>,
    /// Files that the data were read from; none of generated data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<DataFile>,
    /// The ranks of the run, if it had more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<RankFacts>,
    /// Name of the GPU that computed, or of the CPU with composed operations; none for the CPU alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Name of the arithmetic of products that a CPU rounds; none if none were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<String>,
    /// Fingerprint of the model that adapters were trained beside: it is not in the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

/// The ranks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankFacts {
    /// Number of ranks.
    pub ranks: u64,
    /// Batches per update, of all ranks.
    pub accumulate: u64,
}

/// Progress of a training.
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
    /// Training batches finished in the current epoch.
    pub batch: u64,
    /// Number of validations in this epoch.
    pub ordinal: u64,
    /// What comes next.
    pub stage: TrainingStage,
    /// Training batches finished by all ranks, if not as many as iterations: iterations count what the ranks of a run
    /// do at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Iterations finished in the current epoch, if not as many as batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Iterations that were finished when the last validation ended, if validations are due by iterations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validated: Option<u64>,
}

/// What hooks see of a training pass apart from the counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassState {
    /// Loss of the last batch; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Exact>,
    /// Samples of the last batch; 0 after the end of the pass.
    pub batch_size: u64,
    /// Whether the last batch was followed by an update.
    pub updates: bool,
    /// Counters at the start of the current epoch; `None` if `before_epoch` has not been called for
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<EpochStart>,
}

/// Lifetime of a published value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetime {
    /// Until the end of the epoch.
    Epoch,
    /// Until the end of the run.
    Run,
}

impl Lifetime {
    /// Both lifetimes.
    pub const ALL: [Lifetime; 2] = [Lifetime::Epoch, Lifetime::Run];

    /// The corresponding value in the plugin API.
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
    /// Hook that published it.
    pub hook: String,
    /// How long it is kept.
    pub keep: Lifetime,
    /// The value.
    pub value: Box<RawValue>,
}

/// Owner of a published tensor.
#[derive(Debug, Serialize, Deserialize)]
pub struct Publisher {
    /// Name of the tensor.
    pub name: String,
    /// Hook that published it.
    pub hook: String,
    /// How long it is kept.
    pub keep: Lifetime,
}

impl Checkpoint {
    /// Returns the tensor of this full name.
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        let found = self.tensors.iter().find(|(known, _)| known == name);
        found.map(|(_, tensor)| tensor)
    }

    /// The tensors of a section, by their own names.
    pub fn under(&self, section: Section) -> impl Iterator<Item = (&str, &Tensor)> {
        let tensors = self.tensors.iter();
        tensors.filter_map(move |(name, tensor)| Some((section.own_name(name)?, tensor)))
    }

    /// The checkpoints that hooks' states refer to, each with the hook's name. Hooks from earlier segments of the run,
    /// which are no longer configured, are left out.
    pub fn references(&self) -> impl Iterator<Item = (&str, CheckpointRef)> {
        let hooks = self.hooks.iter().filter(|hook| !hook.absent);
        hooks.flat_map(|hook| {
            let found = hook.references().into_iter();
            found.map(|reference| (hook.name.as_str(), reference))
        })
    }

    /// Returns the hook of this name.
    pub fn hook(&self, name: &str) -> Option<&HookRecord> {
        self.hooks.iter().find(|hook| hook.name == name)
    }
}
