//! Data in the manifest.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrays::{NpyConfig, SafetensorsConfig};
use crate::csv::CsvConfig;
use crate::files::memory::MemoryUse;
use crate::generated::synthetic_digits::SyntheticDigitsConfig;
use crate::images::cifar::CifarConfig;
use crate::images::image_folder::ImageFolderConfig;
use crate::images::{ImageOptions, ImageTargets};
use crate::regression::RegressionConfig;
use crate::split::portion::Split;
use crate::two_moons::TwoMoonsConfig;
use crate::{GrammarConfig, HeldOut, JsonlConfig, TextConfig, TokensConfig};

/// Data set to train on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum DataConfig {
    /// Images and labels in IDX files, the format of MNIST; plain or gzipped.
    Idx(IdxConfig),
    /// CIFAR-10 or CIFAR-100 in the binary version.
    Cifar(CifarConfig),
    /// Image files in one directory per class.
    ImageFolder(ImageFolderConfig),
    /// Digits from 0 to 9, drawn and distorted from the seed; nothing to download.
    SyntheticDigits(SyntheticDigitsConfig),
    /// A CSV table: one line per sample, with numeric or categorical columns.
    Csv(CsvConfig),
    /// Two NumPy files: an array of inputs and one of targets.
    Npy(NpyConfig),
    /// A safetensors file with a tensor of inputs and one of targets.
    Safetensors(SafetensorsConfig),
    /// Two interleaved half circles, drawn from the seed.
    TwoMoons(TwoMoonsConfig),
    /// A regression problem with coefficients drawn from the seed, and noise.
    Regression(RegressionConfig),
    /// A text file; the model learns to predict the next byte or character, or token of a tokenizer.
    Text(TextConfig),
    /// Files of tokens; the model learns to predict the next one.
    Tokens(TokensConfig),
    /// A JSON object on each line, with a text and its class, or a prompt and its completion.
    Jsonl(JsonlConfig),
    /// A Parquet file with such rows: a text and its class, a prompt and its completion, or a list of messages.
    Parquet(JsonlConfig),
    /// Sentences of a small grammar, drawn from the seed; nothing to download.
    Grammar(GrammarConfig),
}

impl DataConfig {
    /// The same data with the classes of images as targets; none for data that are no images.
    pub fn with_classes(&self) -> Option<DataConfig> {
        let mut config = self.clone();
        let targets = match &mut config {
            DataConfig::Idx(config) => &mut config.options.targets,
            DataConfig::Cifar(config) => &mut config.options.targets,
            DataConfig::ImageFolder(config) => &mut config.options.targets,
            DataConfig::SyntheticDigits(config) => &mut config.targets,
            _ => return None,
        };
        *targets = ImageTargets::Classes;
        Some(config)
    }
}

/// Images and labels in IDX files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdxConfig {
    /// Path of the file with the images: bytes of rank 3 (count, height, width) or 4 (count, channels,
    /// height, width).
    pub images: PathBuf,
    /// Path of the file with their labels: bytes of rank 1. Without targets there needs to be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
    /// Data for validation and test.
    #[serde(flatten)]
    pub held_out: HeldOut<Split>,
    /// Names of the classes; their number limits the labels. Default: the digits 0 to 9.
    #[serde(default = "digits")]
    #[schemars(length(min = 1, max = 256))]
    pub classes: Vec<String>,
    /// Keys of all sources of images.
    #[serde(flatten)]
    pub options: ImageOptions,
    /// Whether images are read before training or when a batch needs them.
    #[serde(default, skip_serializing_if = "MemoryUse::is_default")]
    pub memory: MemoryUse,
}

/// Returns the names of the ten digits.
pub(crate) fn digits() -> Vec<String> {
    (0..10).map(|digit| digit.to_string()).collect()
}
