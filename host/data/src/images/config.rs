//! How images are made ready, in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happens at random to training images; never to those of validation, test or predictions.
///
/// A sample's augmentation is drawn from the seed, the epoch and the sample's index alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentConfig {
    /// Moves the image: it gets a black border and is cropped back to its size at a random place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<CropConfig>,
    /// Mirrors every other image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flip: Option<Flip>,
}

impl AugmentConfig {
    /// Whether nothing happens.
    pub fn is_nothing(&self) -> bool {
        self.flip.is_none() && self.crop.is_none_or(|crop| crop.padding == 0)
    }
}

/// A border and a random crop back to the image's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CropConfig {
    /// The border's width on each side, in pixels: how far the image moves at most. Below the
    /// image's height and width.
    pub padding: usize,
}

/// A mirroring, with probability ½.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Flip {
    /// Left becomes right.
    Horizontal,
    /// Top becomes bottom.
    Vertical,
}

/// What becomes of pixels from 0 (black) to 1 (full brightness).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum NormaliseConfig {
    /// By a rule.
    Rule(NormaliseRule),
    /// By numbers that are known.
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

/// A rule by which pixels are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NormaliseRule {
    /// Each channel to mean 0 and standard deviation 1 over the training images.
    Computed,
    /// They stay from 0 to 1.
    None,
}

/// (pixel − mean) / deviation, for each channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeanDeviation {
    /// A mean per channel, of pixels from 0 to 1.
    #[schemars(length(min = 1))]
    pub mean: Vec<f64>,
    /// A standard deviation per channel, of pixels from 0 to 1; above 0.
    #[schemars(length(min = 1))]
    pub deviation: Vec<f64>,
}
