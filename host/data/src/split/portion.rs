//! What is held out of the training for validation and test, in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Data held out of the training: the keys of each kind of data that is divided. `P` says what a phase has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldOut<P = Portion> {
    /// Validation data: a part of the training data, or separate data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<P>,
    /// Test data: a part of the training data, or separate data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<P>,
    /// Whether a `count` or `fraction` keeps the class proportions of the training data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stratified: bool,
    /// Seed of the parts for validation and test, apart from the manifest's. Default: that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_seed: Option<u64>,
}

/// How much of the training data a phase takes: one of `count`, `fraction`, and `fold` with `folds`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Amount {
    /// Number of samples to take from the training data, at random from the seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<usize>,
    /// Fraction of the training data to take, at random from the seed; above 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub fraction: Option<f64>,
    /// Number of one of `folds` equal parts of the training data, from 1: those of all numbers have each sample once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub fold: Option<usize>,
    /// Number of these parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub folds: Option<usize>,
}

/// Source of a phase's data: exactly one of `count`, `fraction`, `fold` with `folds`, or `file`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Portion {
    /// How much of the training data it is.
    #[serde(flatten)]
    pub amount: Amount,
    /// Path of a separate file (or folder, if the training data is one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Source of a phase's data: exactly one of `count`, `fraction`, `fold` with `folds`, or `images` with `labels`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Split {
    /// How much of the training data it is.
    #[serde(flatten)]
    pub amount: Amount,
    /// Path of a separate file with images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<PathBuf>,
    /// Path of the file with their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
}
