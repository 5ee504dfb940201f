//! Data in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrays::{NpyConfig, SafetensorsConfig};
use super::cifar::CifarConfig;
use super::csv::CsvConfig;
use super::image_folder::ImageFolderConfig;
use super::images::{AugmentConfig, NormaliseConfig};
use super::portion::Split;
use super::regression::RegressionConfig;
use super::two_moons::TwoMoonsConfig;
use super::{GrammarConfig, TextConfig};

/// The data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DataConfig {
    /// Images and labels in IDX files, the format of MNIST; plain or gzipped.
    Idx(IdxConfig),
    /// CIFAR-10 or CIFAR-100 in their binary version.
    Cifar(CifarConfig),
    /// Image files, a directory for each class.
    ImageFolder(ImageFolderConfig),
    /// Digits from 0 to 9, drawn and distorted from the seed; nothing to download.
    SyntheticDigits(SyntheticDigitsConfig),
    /// A table of text: one line per sample, its columns numbers or categories.
    Csv(CsvConfig),
    /// Two files of NumPy: an array of inputs and one of targets.
    Npy(NpyConfig),
    /// A safetensors file with a tensor of inputs and one of targets.
    Safetensors(SafetensorsConfig),
    /// Two half circles that reach into each other, drawn from the seed.
    TwoMoons(TwoMoonsConfig),
    /// Numbers that follow from others by coefficients drawn from the seed, with noise.
    Regression(RegressionConfig),
    /// A text file, of which each next byte or character is learned.
    Text(TextConfig),
    /// Sentences of a small grammar, drawn from the seed; nothing to download.
    Grammar(GrammarConfig),
}

/// Images and labels in IDX files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdxConfig {
    /// The file with the images: bytes of rank 3 (count, height, width) or 4 (count, channels,
    /// height, width).
    pub images: PathBuf,
    /// The file with their labels: bytes of rank 1.
    pub labels: PathBuf,
    /// What is validated on: a part of these files or files of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val: Option<Split>,
    /// What is tested on: a part of these files or files of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Split>,
    /// Whether a `count` or `fraction` has every class in the share that it has in the files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stratified: bool,
    /// The classes' names; their number bounds the labels. Default: the digits 0 to 9.
    #[serde(default = "digits")]
    #[schemars(length(min = 1, max = 256))]
    pub classes: Vec<String>,
    /// What becomes of the pixels: `"computed"` from the training images, `"none"`, or `{"mean":
    /// […], "deviation": […]}`.
    #[serde(default, skip_serializing_if = "NormaliseConfig::is_default")]
    pub normalise: NormaliseConfig,
    /// What happens at random to training images.
    #[serde(default, skip_serializing_if = "AugmentConfig::is_nothing")]
    pub augment: AugmentConfig,
}

/// Digits drawn and distorted from the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SyntheticDigitsConfig {
    /// Training samples.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub train: usize,
    /// Validation samples; 0 for no validation.
    #[schemars(range(max = 10_000_000))]
    pub val: usize,
    /// Test samples; 0 for no test.
    #[schemars(range(max = 10_000_000))]
    pub test: usize,
    /// Width and height in pixels.
    #[schemars(range(min = 16, max = 64))]
    pub size: usize,
    /// How much digits are rotated, sheared, stretched, shifted and bent: 0 not at all, 1 as the
    /// default, up to 2.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub distortion: f64,
    /// The amplitude of the noise on each pixel, from 0 to 1 of full brightness.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub noise: f64,
}

impl Default for SyntheticDigitsConfig {
    fn default() -> Self {
        SyntheticDigitsConfig {
            train: 6000,
            val: 1000,
            test: 1000,
            size: 28,
            distortion: 1.0,
            noise: 0.25,
        }
    }
}

/// The names of the ten digits.
pub(super) fn digits() -> Vec<String> {
    (0..10).map(|digit| digit.to_string()).collect()
}
