//! Preparation of images, in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Random augmentation of training images; never applied in validation, test or predictions.
///
/// A sample's augmentation depends only on the seed, the epoch and the sample's index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentConfig {
    /// Random shift: the image gets a black border and is cropped to its size at a random position.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<CropConfig>,
    /// Random flip, with probability ½.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flip: Option<Flip>,
}

impl AugmentConfig {
    /// Whether there is no augmentation.
    pub fn is_nothing(&self) -> bool {
        self.flip.is_none() && self.crop.is_none_or(|crop| crop.padding == 0)
    }
}

/// A random shift by padding and cropping to the image's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CropConfig {
    /// Width of the border on each side in pixels, the maximum shift. Must be below the images' height
    /// and width.
    pub padding: usize,
}

/// A flip with probability ½.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Flip {
    /// Exchanges left and right.
    Horizontal,
    /// Exchanges top and bottom.
    Vertical,
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
