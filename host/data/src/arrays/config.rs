//! Arrays in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Portion;

/// Two files of NumPy: an array of inputs and one of targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NpyConfig {
    /// The `.npy` file with the inputs: (samples, …).
    pub inputs: PathBuf,
    /// The `.npy` file with the targets: whole numbers are classes, (samples) or (samples,
    /// positions); others are numbers, (samples) or (samples, numbers).
    pub targets: PathBuf,
    /// The classes' names. Default: as many numbers from 0 as the targets need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub classes: Option<Vec<String>>,
    /// Whether inputs are brought to mean 0 and standard deviation 1 by the training samples alone:
    /// each column of samples of rank 1, all numbers together of others.
    #[serde(default)]
    pub standardise: bool,
    /// What is validated on: a part of these files or files of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<NpySplit>,
    /// What is tested on: a part of these files or files of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<NpySplit>,
    /// Whether a `count` or `fraction` has every class in the share that it has in the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stratified: bool,
}

/// Where the data of a phase comes from: exactly one of `count`, `fraction`, or `inputs` with
/// `targets`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NpySplit {
    /// So many samples, taken at random by the seed from the training files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<usize>,
    /// This share of the training files, taken at random by the seed; above 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub fraction: Option<f64>,
    /// A file with inputs of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<PathBuf>,
    /// The file with their targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<PathBuf>,
}

/// A safetensors file with a tensor of inputs and one of targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SafetensorsConfig {
    /// The file.
    pub file: PathBuf,
    /// The name of the tensor of inputs: (samples, …).
    #[serde(default = "inputs")]
    pub inputs: String,
    /// The name of the tensor of targets: whole numbers are classes, (samples) or (samples,
    /// positions); others are numbers, (samples) or (samples, numbers).
    #[serde(default = "targets")]
    pub targets: String,
    /// The classes' names. Default: as many numbers from 0 as the targets need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub classes: Option<Vec<String>>,
    /// Whether inputs are brought to mean 0 and standard deviation 1 by the training samples alone:
    /// each column of samples of rank 1, all numbers together of others.
    #[serde(default)]
    pub standardise: bool,
    /// What is validated on: a part of this file or a file of its own, with tensors of the same
    /// names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<Portion>,
    /// What is tested on: a part of this file or a file of its own, with tensors of the same names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Portion>,
    /// Whether a `count` or `fraction` has every class in the share that it has in the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stratified: bool,
}

fn inputs() -> String {
    "inputs".to_owned()
}

fn targets() -> String {
    "targets".to_owned()
}
