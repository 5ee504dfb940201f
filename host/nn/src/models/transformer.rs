//! Blocks of a transformer with pre-normalisation (Radford et al., 2019), of `gpt` and `vit`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{activation, dropout};
use crate::{
    Activation, AttentionConfig, InitConfig, LayerConfig, LayerKind, LinearConfig, NormConfig,
    ProjectionBias, ResidualConfig, RotaryConfig, SequentialLayers,
};

/// Normalisation of each position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Layer normalisation, with mean and variance.
    #[default]
    Layer,
    /// Root mean square normalisation.
    Rms,
}

impl Norm {
    /// Returns a layer of this name.
    pub(super) fn layer(self, name: &str) -> LayerConfig {
        let options = NormConfig { epsilon: 1e-5 };
        LayerConfig::named(
            name,
            match self {
                Norm::Layer => LayerKind::LayerNorm(options),
                Norm::Rms => LayerKind::RmsNorm(options),
            },
        )
    }
}

/// Encoding of positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// A learned vector per position.
    #[default]
    Learned,
    /// Rotary position embeddings of queries and keys.
    Rotary,
}

/// What the blocks of a transformer have in common.
pub(super) struct Block {
    pub(super) heads: usize,
    pub(super) width: usize,
    /// Width of the hidden linear layer, as a multiple of `width`.
    pub(super) expansion: usize,
    pub(super) activation: Activation,
    pub(super) norm: Norm,
    pub(super) causal: bool,
    pub(super) positions: Positions,
    pub(super) dropout: f64,
    pub(super) bias: bool,
    pub(super) init: Option<InitConfig>,
    pub(super) recompute: bool,
}

impl Block {
    /// x + attention(norm(x)), then x + linear(activation(linear(norm(x)))).
    pub(super) fn layer(&self, index: usize) -> LayerConfig {
        let options = AttentionConfig {
            causal: self.causal,
            rotary: RotaryConfig::Switch(self.positions == Positions::Rotary),
            dropout: self.dropout,
            bias: ProjectionBias::All(self.bias),
            init: self.init,
            ..AttentionConfig::new(self.heads)
        };
        let mut attention = vec![self.norm.layer("ln1"), LayerConfig::named("attn", options)];
        let linear = |name: &str, outputs: usize| {
            let options = LinearConfig {
                outputs: Some(outputs),
                bias: Some(self.bias),
                init: self.init,
                ..LinearConfig::default()
            };
            LayerConfig::named(name, options)
        };
        let mut between = vec![
            self.norm.layer("ln2"),
            linear("up", self.expansion.saturating_mul(self.width)),
            activation("act", self.activation),
            linear("down", self.width),
        ];
        if self.dropout > 0.0 {
            attention.push(dropout("attn_drop", self.dropout));
            between.push(dropout("down_drop", self.dropout));
        }
        let block = SequentialLayers {
            layers: [attention, between]
                .map(|layers| LayerConfig::new(ResidualConfig::new(layers)))
                .into(),
            recompute: self.recompute,
        };
        LayerConfig::named(format!("blocks.{index}"), block)
    }
}
