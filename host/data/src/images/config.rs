//! Preparation of images, in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AugmentConfig, ViewConfig};

/// How images of any source become inputs and targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageOptions {
    /// Normalisation of the pixels: `"computed"` from the training images, `"none"`, or `{"mean":
    /// […], "deviation": […]}`.
    #[serde(default, skip_serializing_if = "NormaliseConfig::is_default")]
    pub normalise: NormaliseConfig,
    /// Random augmentation of training images.
    #[serde(default, skip_serializing_if = "AugmentConfig::is_nothing")]
    pub augment: AugmentConfig,
    /// Views of each training image, in place of augmentation: rows of a batch of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<ViewConfig>,
    /// Whether images have targets. With `none` there are none, and only a loss that hooks give will do.
    #[serde(default, skip_serializing_if = "ImageTargets::is_default")]
    pub targets: ImageTargets,
}

/// Normalisation of pixels from 0 (black) to 1 (full brightness).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NormaliseConfig {
    /// A named rule.
    Rule(NormaliseRule),
    /// Known statistics.
    Known(MeanDeviation),
}

impl Default for NormaliseConfig {
    fn default() -> Self {
        NormaliseConfig::Rule(NormaliseRule::Computed)
    }
}

impl NormaliseConfig {
    pub(crate) fn is_default(&self) -> bool {
        *self == NormaliseConfig::default()
    }
}

/// A named rule for normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NormaliseRule {
    /// Each channel to mean 0 and standard deviation 1 over the training images.
    Computed,
    /// No normalisation: pixels stay from 0 to 1.
    None,
}

/// Targets of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImageTargets {
    /// Their classes.
    #[default]
    Classes,
    /// None: a model's outputs may have any shape, and hooks give the loss.
    None,
}

impl ImageTargets {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(crate) fn is_default(&self) -> bool {
        *self == ImageTargets::default()
    }
}

/// (pixel − mean) / deviation, for each channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeanDeviation {
    /// Mean per channel, of pixels from 0 to 1.
    #[schemars(length(min = 1))]
    pub mean: Vec<f64>,
    /// Standard deviation per channel, of pixels from 0 to 1; above 0.
    #[schemars(length(min = 1))]
    pub deviation: Vec<f64>,
}
