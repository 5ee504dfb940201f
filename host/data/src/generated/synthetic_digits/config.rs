//! Drawn digits in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::images::{ImageTargets, ViewConfig};

/// Digits drawn and distorted from the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SyntheticDigitsConfig {
    /// Number of training samples.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub train: usize,
    /// Number of validation samples; 0 for no validation.
    #[schemars(range(max = 10_000_000))]
    pub val: usize,
    /// Number of test samples; 0 for no test.
    #[schemars(range(max = 10_000_000))]
    pub test: usize,
    /// Width and height in pixels.
    #[schemars(range(min = 16, max = 64))]
    pub size: usize,
    /// Strength of rotation, shear, stretching, shift and bending: 0 for none, 1 as the default, at
    /// most 2.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub distortion: f64,
    /// Amplitude of the noise on each pixel, from 0 to 1 of full brightness.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub noise: f64,
    /// Views of each training sample: rows of a batch of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<ViewConfig>,
    /// Whether images have targets. With `none` there are none, and only a loss that hooks give will do.
    #[serde(skip_serializing_if = "ImageTargets::is_default")]
    pub targets: ImageTargets,
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
            views: Vec::new(),
            targets: ImageTargets::default(),
        }
    }
}
