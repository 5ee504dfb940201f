//! The weights that training starts from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefixes of the file's names, each with its replacement in the model's names; the longest
/// matching prefix applies.
pub type Renames = BTreeMap<String, String>;

/// Weights that training starts from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightsConfig {
    /// A safetensors file with tensors by name, a directory with such files and their index, as `transformers` writes it, a file
    /// of `PyTorch`'s, or the directory of a run's checkpoint.
    pub file: PathBuf,
    /// Whether every weight must be present, with no extra ones, but those of a new head. If false, matching weights are
    /// loaded and the rest is reported.
    #[serde(default = "yes")]
    pub strict: bool,
    /// Prefixes of names in the file, each with its replacement in the model, such as
    /// `{"backbone.": ""}`; the longest matching prefix applies, and `""` matches every name.
    #[serde(default, skip_serializing_if = "Renames::is_empty")]
    pub rename: Renames,
}

fn yes() -> bool {
    true
}
