//! The vision transformer (Dosovitskiy et al., 2021), classifying by the mean over its patches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::transformer::{Block, Norm};
use super::{Positions, dropout, linear};
use crate::{
    Activation, Conv2dConfig, Extent, InitConfig, LayerConfig, LayerKind, Plain,
    PositionEmbeddingConfig,
};

/// A vision transformer: an image's patches are the positions of a sequence, and each attends to all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VitConfig {
    /// Side of a patch, in pixels. Pixels that remain at the right and at the bottom are left out.
    #[schemars(range(min = 1, max = 65_536))]
    pub patch: usize,
    /// Length of the vector of each patch.
    #[schemars(range(min = 1))]
    pub width: usize,
    /// Number of blocks of attention and linear layers.
    #[schemars(range(min = 1, max = 10_000))]
    pub layers: usize,
    /// Number of attention heads; `width` must be a multiple of it.
    #[schemars(range(min = 1))]
    pub heads: usize,
    /// Width of the blocks' hidden linear layers, as a multiple of `width`.
    #[schemars(range(min = 1))]
    pub expansion: usize,
    /// Nonlinearity.
    pub activation: Activation,
    /// Fraction of elements dropped during training, from 0 to below 1.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
    /// Whether the blocks' activations are recomputed in the backward pass instead of kept for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recompute: bool,
}

impl Default for VitConfig {
    fn default() -> Self {
        VitConfig {
            patch: 4,
            width: 192,
            layers: 6,
            heads: 3,
            expansion: 4,
            activation: Activation::Gelu,
            dropout: 0.0,
            recompute: false,
        }
    }
}

/// Returns the transformer's layers.
pub fn vit(config: &VitConfig) -> Vec<LayerConfig> {
    let patch = Conv2dConfig {
        stride: Extent::Both(config.patch),
        ..Conv2dConfig::new(config.width, config.patch)
    };
    let positions = PositionEmbeddingConfig {
        init: Some(InitConfig::Normal {
            mean: 0.0,
            std: 0.02,
        }),
        ..PositionEmbeddingConfig::default()
    };
    let mut layers = vec![
        LayerConfig::named("patch", patch),
        LayerConfig::new(LayerKind::Positions(Plain {})),
        LayerConfig::named("pos", positions),
    ];
    if config.dropout > 0.0 {
        layers.push(dropout("drop", config.dropout));
    }
    let block = Block {
        heads: config.heads,
        width: config.width,
        expansion: config.expansion,
        activation: config.activation,
        norm: Norm::Layer,
        causal: false,
        positions: Positions::Learned,
        dropout: config.dropout,
        bias: true,
        init: None,
        recompute: config.recompute,
    };
    layers.extend((0..config.layers).map(|index| block.layer(index)));
    layers.push(Norm::Layer.layer("ln"));
    layers.push(LayerConfig::named(
        "mean",
        LayerKind::MeanPositions(Plain {}),
    ));
    layers.push(linear("head", None));
    layers
}
