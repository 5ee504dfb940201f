//! Parts of the data for validation and test, in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of the training data a split takes, as in the manifest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Amount {
    pub(crate) count: Option<usize>,
    pub(crate) fraction: Option<f64>,
    pub(crate) fold: Option<usize>,
    pub(crate) folds: Option<usize>,
}

/// Source of a phase's data: exactly one of `count`, `fraction`, `fold` with `folds`, or `file`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Portion {
    /// Number of samples to take from the training data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<usize>,
    /// Fraction of the training data; above 0 and below 1.
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
    /// Path of a separate file (or folder, if the training data is one).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

impl Portion {
    pub(crate) fn amount(&self) -> Amount {
        Amount {
            count: self.count,
            fraction: self.fraction,
            fold: self.fold,
            folds: self.folds,
        }
    }
}

/// Source of a phase's data: exactly one of `count`, `fraction`, `fold` with `folds`, or `images` with `labels`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Split {
    /// Number of samples to draw from the training files, at random from the seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<usize>,
    /// Fraction of the training files to draw, at random from the seed; above 0 and below 1.
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
    /// Path of a separate file with images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<PathBuf>,
    /// Path of the file with their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
}

impl Split {
    pub(crate) fn amount(&self) -> Amount {
        Amount {
            count: self.count,
            fraction: self.fraction,
            fold: self.fold,
            folds: self.folds,
        }
    }
}
