//! The manifest of a run: what to train, how, and with which hooks.
//!
//! **Parts**
//! - [`Manifest`] and the types of its sections; [`DataConfig`], [`ModelConfig`] and [`OptimizerConfig`] are defined next to what
//!   they configure, [`HookEntry`] in `sconce-manifest`, with all that reads and checks JSON.
//! - `load` reads it and fills in what is left out; [`json_schema`] is what it is checked against.

mod adapt;
mod data_limits;
mod device;
mod distributed;
mod load;
mod reload;
#[cfg(test)]
mod tests;
mod train;
mod validate_every;
mod weights;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use sconce_data::DataConfig;
use sconce_hooks::planning::{HookList, RunSetup};
use sconce_nn::loss::{LossConfig, WrittenLoss};
use sconce_nn::metric::MetricConfig;
use sconce_nn::optim::OptimizerConfig;
use sconce_nn::{ModelConfig, Precision};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use adapt::AdaptConfig;
pub use data_limits::DataLimits;
pub use device::DeviceName;
pub use distributed::{
    BatchNormStatistics, BatchesPer, DistributedConfig, Engine, GradientSums, SharedValidation,
    Wire,
};
pub use load::load;
pub use reload::ReloadAt;
pub use sconce_manifest::{
    Assignment, AssignmentOrigin, CrashPolicy, CrashPolicyName, ENTRY_KEYS, EntryForm, Every,
    HookEntry, ISOLATE, Isolation, JsonSource, KnownHook, LOAD_LIMIT, LimitsConfig, MemorySize,
    OnCrash, OnError, Overlay, PhaseName, ReloadPolicy, RestartCount, Sandbox, SandboxConfig,
    SandboxRules, Script, Unit, VARIABLE, add_hooks, document, explained, json_path, limits,
    problem, schema_check,
};
pub use train::TrainConfig;
pub use validate_every::{IterationInterval, ValidateEvery};
pub use weights::{Renames, WeightsConfig};

use crate::diagnostic::TextLocation;

/// A run manifest: what to train, how, and with which hooks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Reference to the JSON Schema, for editors; ignored.
    #[serde(rename = "$schema", default, skip_serializing)]
    pub schema: Option<String>,
    /// Name of the run. Default: the file's name without its extension.
    #[serde(default)]
    pub name: String,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// Number of compute threads. Default: as many as the processors that the process may use. No more
    /// threads than that are started, but the results are bit-identical to those of the given number.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1024))]
    pub threads: Option<usize>,
    /// The device that computes: `cpu`, the default; `cuda`, the first NVIDIA GPU (with several processes on a machine, each
    /// takes its own); `cuda:N`, the one with this number; `auto`, a GPU if there is one that can be used.
    #[serde(default, skip_serializing_if = "DeviceName::is_cpu")]
    pub device: DeviceName,
    /// Precision of products and activations; parameters and the optimizer are always in `f32`.
    #[serde(default, skip_serializing_if = "is_default_precision")]
    pub precision: Precision,
    /// Output directory of the run. Default: `runs/` and the run's name.
    #[serde(default)]
    pub output: PathBuf,
    /// Directories with plugins, in search order; the directories of installed plugins come after them.
    #[serde(default)]
    pub plugins: Vec<PathBuf>,
    /// The model. Optional for a program with its own task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub model: Option<ModelConfig>,
    /// The data. Optional for a program with its own task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub data: Option<DataConfig>,
    /// The loss. Default: cross entropy for classes, mean squared error for numeric targets.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "WrittenLoss::optional"
    )]
    #[schemars(with = "Option<WrittenLoss>")]
    pub loss: Option<LossConfig>,
    /// The metrics of every phase. Default: accuracy for classes, also perplexity for text, and mean absolute
    /// and root mean squared errors for numeric targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Vec<MetricConfig>>,
    /// The configuration of a program's own task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Value>,
    /// The initial weights. Default: drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsConfig>,
    /// What is trained in the place of the model, which is held with its initial weights. Default: the model itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapt: Option<AdaptConfig>,
    /// The optimizer.
    pub optimizer: OptimizerConfig,
    /// How long to train, and in which steps.
    pub train: TrainConfig,
    /// The hooks. At each mount point they run by priority; those of equal priority in this order.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    pub hooks: Vec<HookEntry>,
    /// Where in the training hooks' libraries are loaded again, when that is asked for or their files have changed.
    #[serde(default)]
    pub reload_at: ReloadAt,
    /// Time limits for plugins.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// How processes train together, where a launcher has started several.
    #[serde(default, skip_serializing_if = "is_default_distribution")]
    pub distributed: DistributedConfig,
    /// The directory of the manifest's file, against which relative paths are resolved.
    #[serde(skip)]
    pub base: PathBuf,
    /// The text of the manifest, with the position of each value.
    #[serde(skip)]
    pub source: JsonSource,
}

impl Manifest {
    /// Returns the manifest as JSON, with all defaults filled in.
    pub fn resolved(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The hooks that it lists.
    pub fn hook_list(&self) -> HookList<'_> {
        HookList {
            entries: &self.hooks,
            plugins: &self.plugins,
            limits: &self.limits,
            source: &self.source,
        }
    }

    /// What its hooks learn of a run in `directory` when they are created.
    pub fn run_setup<'a>(&self, directory: &'a Path) -> RunSetup<'a> {
        RunSetup {
            manifest: self.resolved().to_string().into(),
            directory,
            seed: self.seed,
        }
    }

    /// The place in the text of a part of the manifest, such as `hooks[1].config`.
    pub fn place(&self, json_path: &str) -> TextLocation {
        self.source.location(json_path)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_default_precision(precision: &Precision) -> bool {
    *precision == Precision::default()
}

fn is_default_distribution(config: &DistributedConfig) -> bool {
    *config == DistributedConfig::default()
}

/// Where a program's task comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSource {
    /// The manifest's `model` and `data`, which it must have.
    Manifest,
    /// The program itself, which reads `task`, and may use `model` and `data`.
    Program,
}

/// The manifest's JSON Schema, with subschemas inlined where possible.
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
