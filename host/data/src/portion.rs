//! Which part of the data is for validation and test.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the data of a phase comes from: exactly one of `count`, `fraction`, or `file`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Portion {
    /// So many samples of the training data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<usize>,
    /// This share of the training data; above 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub fraction: Option<f64>,
    /// A file (or folder, where the training data is one) of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Where the data of a phase comes from: exactly one of `count`, `fraction`, or `images` with
/// `labels`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Split {
    /// So many samples, taken at random by the seed from the training files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<usize>,
    /// This share of the training files, taken at random by the seed; above 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
    pub fraction: Option<f64>,
    /// A file with images of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<PathBuf>,
    /// The file with their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
}
