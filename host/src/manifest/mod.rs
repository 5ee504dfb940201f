//! The run manifest: strict JSON, checked as a whole before anything else happens.
//!
//! Its parts: [`TrainConfig`], [`HookEntry`], and those that stand beside what they describe,
//! [`DataConfig`], [`ModelConfig`], [`OptimizerConfig`]. The types give the JSON Schema
//! ([`json_schema`]), and the schema gives the errors ([`schema_check`]).

mod forms;
mod hook_entry;
pub(crate) mod json_path;
pub(crate) mod limits;
mod load;
mod misplaced;
mod origin;
mod overlay;
mod overrides;
mod priority;
pub mod problem;
mod read;
mod right_form;
pub mod schema_check;
mod semantics;
mod source;
mod syntax;
mod train;
mod whole_number;
mod with_hooks;
mod wording;

use std::path::PathBuf;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use hook_entry::ENTRY_KEYS;
pub use hook_entry::{HookEntry, PhaseName};
pub use limits::LimitsConfig;
pub use load::load;
pub use origin::Origin;
pub use overlay::{Assignment, Overlay, VARIABLE};
pub use source::Source;
pub use train::TrainConfig;
pub use with_hooks::{KnownHook, add_hooks};

use crate::data::DataConfig;
use crate::diagnostic::Place;
use crate::loss::LossConfig;
use crate::metric::MetricConfig;
use crate::nn::ModelConfig;
use crate::optim::OptimizerConfig;
use crate::weights::WeightsConfig;

/// A run manifest: what to train, how, and with which hooks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The JSON Schema, for editors; not read.
    #[serde(rename = "$schema", default, skip_serializing)]
    pub schema: Option<String>,
    /// The run's name. Default: the file's name without its ending.
    #[serde(default)]
    pub name: String,
    /// The seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// How many threads compute. Default: as many as the process may use processors. More than those are not started, but
    /// the results are the same bits as with that many.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: Option<usize>,
    /// The run's output directory. Default: `runs/` and the run's name.
    #[serde(default)]
    pub output: PathBuf,
    /// Directories with plugins, in the order in which they are searched; those where plugins are installed
    /// come after them.
    #[serde(default)]
    pub plugins: Vec<PathBuf>,
    /// The model. A program with a task of its own may do without.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub model: Option<ModelConfig>,
    /// The data. A program with a task of its own may do without.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub data: Option<DataConfig>,
    /// The loss. Default: cross entropy for classes, mean squared error for numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossConfig>,
    /// The metrics of every phase. Default: accuracy for classes, perplexity too for text, and mean
    /// absolute and root mean squared errors for numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Vec<MetricConfig>>,
    /// The configuration of a program's own task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Value>,
    /// The weights that the training begins with. Default: drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsConfig>,
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// How long and in which steps to train.
    pub train: TrainConfig,
    /// The hooks. At each mount point they run by priority, equal ones in this order.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub hooks: Vec<HookEntry>,
    /// How much time plugins get.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// The directory of the manifest's file: relative paths start there.
    #[serde(skip)]
    pub base: PathBuf,
    /// The text that it was read from.
    #[serde(skip)]
    pub source: Source,
}

impl Manifest {
    /// The manifest with all defaults filled in.
    pub fn resolved(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The place of a part of the manifest, as `hooks[1].config`.
    pub fn place(&self, json_path: &str) -> Place {
        self.source.place(json_path)
    }
}

/// Where a program's task comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSource {
    /// The manifest's `model` and `data`, which it must have.
    Manifest,
    /// The program itself, which reads `task`, and what it likes of `model` and `data`.
    Program,
}

/// The manifest's JSON Schema, without references where they can be done without.
pub fn json_schema(source: TaskSource) -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<Manifest>()
        .to_value();
    match source {
        TaskSource::Manifest => {
            if let Some(properties) = schema["properties"].as_object_mut() {
                properties.remove("task");
            }
        }
        TaskSource::Program => {
            if let Some(required) = schema["required"].as_array_mut() {
                required.retain(|key| key != "model" && key != "data");
            }
        }
    }
    schema
}
