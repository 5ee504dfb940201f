//! The decoder-only transformer with pre-normalisation (Radford et al., 2019).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dropout;
use super::transformer::{Block, Norm, Positions};
use crate::{
    Activation, EmbeddingConfig, InitConfig, LayerConfig, LinearConfig, PositionEmbeddingConfig,
};

/// A decoder-only transformer: every position predicts the next token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GptConfig {
    /// Number of blocks of attention and linear layers.
    #[schemars(range(min = 1, max = 10_000))]
    pub layers: usize,
    /// Number of attention heads; `width` must be a multiple of it.
    #[schemars(range(min = 1))]
    pub heads: usize,
    /// Length of the vector at each position.
    #[schemars(range(min = 1))]
    pub width: usize,
    /// Width of the blocks' hidden linear layers, as a multiple of `width`.
    #[schemars(range(min = 1))]
    pub expansion: usize,
    /// Nonlinearity.
    pub activation: Activation,
    /// Normalisation.
    pub norm: Norm,
    /// Encoding of positions.
    pub positions: Positions,
    /// Fraction of elements dropped during training, from 0 to below 1.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub dropout: f64,
    /// Whether the linear layers have biases; the last has none.
    pub bias: bool,
    /// Standard deviation of all weights' initial values. Default: PyTorch's initialisations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub init_std: Option<f64>,
    /// Whether the blocks' activations are recomputed in the backward pass instead of kept for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recompute: bool,
}

impl Default for GptConfig {
    fn default() -> Self {
        GptConfig {
            layers: 4,
            heads: 4,
            width: 128,
            expansion: 4,
            activation: Activation::Gelu,
            norm: Norm::Layer,
            positions: Positions::Learned,
            dropout: 0.0,
            bias: true,
            init_std: None,
            recompute: false,
        }
    }
}

/// Returns the transformer's layers.
pub fn gpt(config: &GptConfig) -> Vec<LayerConfig> {
    let init = config
        .init_std
        .map(|std| InitConfig::Normal { mean: 0.0, std });
    let tokens = EmbeddingConfig {
        width: Some(config.width),
        init,
        ..EmbeddingConfig::default()
    };
    let mut layers = vec![LayerConfig::named("tok", tokens)];
    if config.positions == Positions::Learned {
        let positions = PositionEmbeddingConfig {
            init,
            ..PositionEmbeddingConfig::default()
        };
        layers.push(LayerConfig::named("pos", positions));
    }
    if config.dropout > 0.0 {
        layers.push(dropout("drop", config.dropout));
    }
    let block = Block {
        heads: config.heads,
        width: config.width,
        expansion: config.expansion,
        activation: config.activation,
        norm: config.norm,
        causal: true,
        positions: config.positions,
        dropout: config.dropout,
        bias: config.bias,
        init,
        recompute: config.recompute,
    };
    layers.extend((0..config.layers).map(|index| block.layer(index)));
    layers.push(config.norm.layer("ln"));
    let head = LinearConfig {
        bias: Some(false),
        init,
        ..LinearConfig::default()
    };
    layers.push(LayerConfig::named("head", head));
    layers
}
