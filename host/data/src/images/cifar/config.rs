//! CIFAR in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::HeldOut;
use crate::images::ImageOptions;

/// CIFAR-10 or CIFAR-100 in the binary version: 32×32 colour images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CifarConfig {
    /// Directory of the unpacked archive, with `data_batch_1.bin` to `data_batch_5.bin` and
    /// `test_batch.bin`, or with `train.bin` and `test.bin`. Without `test`, the test set is the test data.
    pub directory: PathBuf,
    /// Version of CIFAR, 10 or 100.
    #[schemars(with = "u16", extend("enum" = [10, 100]))]
    pub version: CifarVersion,
    /// Labels of CIFAR-100 to learn: its 100 classes (the default) or their 20 groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<CifarLabels>,
    /// Data for validation and test.
    #[serde(flatten)]
    pub held_out: HeldOut,
    /// Keys of all sources of images.
    #[serde(flatten)]
    pub options: ImageOptions,
}

impl CifarConfig {
    /// Returns which labels are the classes.
    pub(crate) fn classes(&self) -> CifarLabels {
        self.labels.unwrap_or(CifarLabels::Fine)
    }
}

/// Version of CIFAR, 10 or 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub enum CifarVersion {
    /// CIFAR-10: 10 classes.
    Ten,
    /// CIFAR-100: 100 classes in 20 groups.
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
    /// The 100 classes.
    Fine,
    /// The 20 groups of classes.
    Coarse,
}
