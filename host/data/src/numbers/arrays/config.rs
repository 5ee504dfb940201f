//! Arrays in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TargetScale;
use crate::split::portion::{Amount, HeldOut};

/// NumPy files: an array of inputs and one of targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NpyConfig {
    /// Path of the `.npy` file with the inputs: (samples, …).
    pub inputs: PathBuf,
    /// Path of the `.npy` file with the targets: integers are classes, (samples) or (samples,
    /// positions); floats are numeric targets, (samples) or (samples, numbers). Default: the inputs themselves,
    /// as the model gets them, for an autoencoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<PathBuf>,
    /// Names of the classes. Default: the numbers from 0 up to the largest target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub classes: Option<Vec<String>>,
    /// Whether to standardise inputs to mean 0 and standard deviation 1 over the training samples:
    /// per column if samples have rank 1, over all elements otherwise.
    #[serde(default)]
    pub standardise: bool,
    /// Scaling of numeric targets for the loss. Metrics, predictions, and what hooks see stay in the arrays' own units.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_scaling: Option<TargetScale>,
    /// Data for validation and test.
    #[serde(flatten)]
    pub held_out: HeldOut<NpySplit>,
}

/// Source of a phase's data: exactly one of `count`, `fraction`, `fold` with `folds`, or `inputs` with `targets` if the training has any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NpySplit {
    /// How much of the training data it is.
    #[serde(flatten)]
    pub amount: Amount,
    /// Path of a separate file with inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<PathBuf>,
    /// Path of the file with their targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<PathBuf>,
}

/// A safetensors file with a tensor of inputs and one of targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SafetensorsConfig {
    /// Path of the file. Separate files for `val` and `test` have tensors of the same names.
    pub file: PathBuf,
    /// Name of the tensor of inputs: (samples, …).
    #[serde(default = "inputs")]
    pub inputs: String,
    /// Name of the tensor of targets: integers are classes, (samples) or (samples, positions); floats are
    /// numeric targets, (samples) or (samples, numbers). Null: the inputs themselves, as the model gets them,
    /// for an autoencoder.
    #[serde(default = "targets")]
    pub targets: Option<String>,
    /// Names of the classes. Default: the numbers from 0 up to the largest target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub classes: Option<Vec<String>>,
    /// Whether to standardise inputs to mean 0 and standard deviation 1 over the training samples:
    /// per column if samples have rank 1, over all elements otherwise.
    #[serde(default)]
    pub standardise: bool,
    /// Scaling of numeric targets for the loss. Metrics, predictions, and what hooks see stay in the arrays' own units.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_scaling: Option<TargetScale>,
    /// Data for validation and test.
    #[serde(flatten)]
    pub held_out: HeldOut,
}

fn inputs() -> String {
    "inputs".to_owned()
}

#[expect(clippy::unnecessary_wraps, reason = "the default of an optional key")]
fn targets() -> Option<String> {
    Some("targets".to_owned())
}
