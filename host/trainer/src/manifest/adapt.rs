//! Training of adapters in the place of the model itself.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is trained beside a pretrained model, which is held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdaptConfig {
    /// Adapters of low rank beside linear layers (Hu et al., 2021), in PEFT's files.
    Lora {
        /// Number of columns between an adapter's two matrices.
        #[serde(default = "eight")]
        #[schemars(range(min = 1))]
        rank: usize,
        /// What the adapters add is multiplied by `alpha` / `rank`.
        #[serde(default = "eight_as_number")]
        alpha: f64,
        /// Fraction of an adapter's inputs that is dropped in training, from 0 to below 1.
        #[serde(default)]
        dropout: f64,
        /// Patterns of the linear layers and attention's projections that get adapters: names of weights without `.weight`.
        /// Default: those that PEFT takes for the model's family.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        modules: Vec<String>,
        /// Patterns of parameters that are trained beside the adapters. A new head is, in any case.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        train: Vec<String>,
        /// Whether what the adapters add is multiplied by `alpha` / √`rank` instead (Kalajdzievski, 2023).
        #[serde(default)]
        rslora: bool,
        /// Whether the lengths of the adapted weights' rows are trained by themselves, and the adapters change their directions
        /// (`DoRA`, Liu et al., 2024).
        #[serde(default)]
        dora: bool,
        /// A directory of PEFT's with the adapters to start from. Default: new ones, which change nothing at first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<PathBuf>,
    },
}

fn eight() -> usize {
    8
}

fn eight_as_number() -> f64 {
    8.0
}
