//! CIFAR in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Portion;
use crate::images::{AugmentConfig, NormaliseConfig};

/// CIFAR-10 or CIFAR-100 in their binary version: colour images of 32 × 32.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CifarConfig {
    /// The unpacked archive: the directory with `data_batch_1.bin` to `data_batch_5.bin` and
    /// `test_batch.bin`, or with `train.bin` and `test.bin`.
    pub directory: PathBuf,
    /// 10 or 100: which of the two it is.
    #[schemars(with = "u16", extend("enum" = [10, 100]))]
    pub version: CifarVersion,
    /// Which labels of CIFAR-100 are learned: its 100 classes (the default) or their 20 groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<CifarLabels>,
    /// What is validated on: a part of the training set or a file of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<Portion>,
    /// What is tested on: a part of the training set or a file of its own. Default: the test set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Portion>,
    /// Whether a `count` or `fraction` has every class in the share that it has in the training set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stratified: bool,
    /// What becomes of the pixels: `"computed"` from the training images, `"none"`, or `{"mean":
    /// […], "deviation": […]}`.
    #[serde(default, skip_serializing_if = "NormaliseConfig::is_default")]
    pub normalise: NormaliseConfig,
    /// What happens at random to training images.
    #[serde(default, skip_serializing_if = "AugmentConfig::is_nothing")]
    pub augment: AugmentConfig,
}

/// Which of the two sets: 10 or 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub enum CifarVersion {
    /// CIFAR-10: ten classes.
    Ten,
    /// CIFAR-100: a hundred classes in twenty groups.
    Hundred,
}

impl TryFrom<u16> for CifarVersion {
    type Error = String;

    fn try_from(number: u16) -> Result<Self, String> {
        match number {
            10 => Ok(CifarVersion::Ten),
            100 => Ok(CifarVersion::Hundred),
            _ => Err(format!("there is no CIFAR-{number}, only 10 and 100")),
        }
    }
}

impl From<CifarVersion> for u16 {
    fn from(version: CifarVersion) -> u16 {
        match version {
            CifarVersion::Ten => 10,
            CifarVersion::Hundred => 100,
        }
    }
}

/// Labels of CIFAR-100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CifarLabels {
    /// A hundred classes.
    Fine,
    /// Their twenty groups.
    Coarse,
}
