//! Layers in the manifest that contain others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::defaults::{identity, is_false, is_identity};
use crate::{Activation, LayerConfig};

/// Options of `sequential`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SequentialLayers {
    /// Layers inside.
    #[schemars(length(min = 1))]
    pub layers: Vec<LayerConfig>,
    /// Whether the activations of the layers inside are recomputed in the backward pass instead of kept for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recompute: bool,
}

/// Options of `residual`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResidualConfig {
    /// Layers of the main branch.
    #[schemars(length(min = 1))]
    pub layers: Vec<LayerConfig>,
    /// Layers of the other branch. Default: none, the input itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortcut: Vec<LayerConfig>,
    /// Nonlinearity after the sum.
    #[serde(default = "identity", skip_serializing_if = "is_identity")]
    pub activation: Activation,
    /// Whether the activations of the layers inside are recomputed in the backward pass instead of kept for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recompute: bool,
}

impl ResidualConfig {
    /// x + layers(x).
    pub fn new(layers: Vec<LayerConfig>) -> ResidualConfig {
        ResidualConfig {
            layers,
            shortcut: Vec::new(),
            activation: Activation::Identity,
            recompute: false,
        }
    }
}

/// Options of `repeat`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepeatConfig {
    /// Number of repetitions.
    #[schemars(range(min = 1, max = 10_000))]
    pub count: usize,
    /// Layers of a repetition.
    #[schemars(length(min = 1))]
    pub layers: Vec<LayerConfig>,
    /// Whether the activations inside each repetition are recomputed in the backward pass instead of kept for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub recompute: bool,
}

/// Options of `parallel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelConfig {
    /// Lists of layers; one without layers is the input itself.
    #[schemars(length(min = 1))]
    pub branches: Vec<Vec<LayerConfig>>,
    /// How the branches' outputs are combined.
    pub combine: Combination,
    /// Dimension along which outputs are concatenated, from 0, without the batch's.
    #[serde(default, skip_serializing_if = "is_first")]
    #[schemars(range(max = 4))]
    pub axis: usize,
}

/// How the outputs of branches are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Combination {
    /// Their sum; all have the same shape.
    Add,
    /// Their product; all have the same shape, or some are vectors (channels) with a factor for each channel of the others' images
    /// (channels, height, width).
    Multiply,
    /// One after the other along `axis`.
    Concatenate,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks by reference whether an option is left out"
)]
fn is_first(axis: &usize) -> bool {
    *axis == 0
}
