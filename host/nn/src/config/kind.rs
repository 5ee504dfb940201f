//! All kinds of layers in the manifest, each with its options.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attention::AttentionConfig;
use super::blocks::{ParallelConfig, RepeatConfig, ResidualConfig, SequentialLayers};
use super::convolutions::{Conv1dConfig, Conv2dConfig, ConvTranspose2dConfig, UpsampleConfig};
use super::elementwise::{ActivationConfig, DropPathConfig, DropoutConfig, ScaleConfig};
use super::embeddings::{
    EmbedCategoriesConfig, EmbeddingConfig, MaskTokensConfig, PositionEmbeddingConfig,
};
use super::linear::LinearConfig;
use super::norms::{BatchNormConfig, GroupNormConfig, NormConfig};
use super::pooling::{AdaptivePoolConfig, PoolConfig};
use super::rearranging::{ReshapeConfig, SelectConfig, TransposeConfig};
use super::recurrent::RecurrentConfig;
use crate::Activation;

/// No options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plain {}

/// Defines the kinds: for each its variant, its options and its name in the manifest.
macro_rules! layer_kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident($options:ty) = $name:literal,)+) => {
        /// Kind of a layer, with its options.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind")]
        pub enum LayerKind {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant($options),)+
        }

        impl LayerKind {
            /// Returns the kind's name in the manifest.
            fn in_manifest(&self) -> &'static str {
                match self {
                    $(LayerKind::$variant(_) => $name,)+
                }
            }
        }
    };
}

layer_kinds! {
    /// y = x · Wᵀ + b over the last dimension.
    Linear(LinearConfig) = "linear",
    /// A convolution over sequences of shape (channels, length).
    Conv1d(Conv1dConfig) = "conv1d",
    /// A convolution over images of shape (channels, height, width).
    Conv2d(Conv2dConfig) = "conv2d",
    /// A transposed convolution over images, which enlarges them by its stride.
    ConvTranspose2d(ConvTranspose2dConfig) = "conv-transpose2d",
    /// Enlarges images by a whole factor.
    Upsample(UpsampleConfig) = "upsample",
    /// The maximum of each window of an image.
    MaxPool2d(PoolConfig) = "max-pool2d",
    /// The mean of each window of an image.
    AvgPool2d(PoolConfig) = "avg-pool2d",
    /// Maxima over a fixed number of windows, which cover an image of any size.
    AdaptiveMaxPool2d(AdaptivePoolConfig) = "adaptive-max-pool2d",
    /// Means over a fixed number of windows, which cover an image of any size.
    AdaptiveAvgPool2d(AdaptivePoolConfig) = "adaptive-avg-pool2d",
    /// Batch normalisation of each channel; uses running statistics outside training.
    BatchNorm(BatchNormConfig) = "batch-norm",
    /// Normalisation of groups of an image's channels (Wu and He, 2018).
    GroupNorm(GroupNormConfig) = "group-norm",
    /// Layer normalisation over the last dimension.
    LayerNorm(NormConfig) = "layer-norm",
    /// Root mean square normalisation over the last dimension.
    RmsNorm(NormConfig) = "rms-norm",
    /// The last dimension divided by its length, as a direction.
    UnitNorm(Plain) = "unit-norm",
    /// Sets a fraction of the elements to zero during training.
    Dropout(DropoutConfig) = "dropout",
    /// Sets all elements of a fraction of the samples to zero during training: stochastic depth, at the end of a residual branch (Huang et
    /// al., 2016).
    DropPath(DropPathConfig) = "drop-path",
    /// A learned factor for each element of the last dimension.
    Scale(ScaleConfig) = "scale",
    /// A learned vector per token.
    Embedding(EmbeddingConfig) = "embedding",
    /// Replaces each category of a table's row by a learned vector: the columns of `data.embed`. Other inputs stay as they
    /// are.
    EmbedCategories(EmbedCategoriesConfig) = "embed-categories",
    /// Adds a learned vector to each position of (length, width).
    PositionEmbedding(PositionEmbeddingConfig) = "position-embedding",
    /// Puts a learned vector in front of the positions of (length, width). Its parameter has the layer's own name, of shape (1, 1, width).
    ClassToken(Plain) = "class-token",
    /// Puts a learned vector in the place of the positions of (length, width) that a hook masks in training: those where the tensor that it
    /// publishes under the name `mask` is 1. Without one it changes nothing. Its parameter has the layer's own name, of shape (width).
    MaskTokens(MaskTokensConfig) = "mask-tokens",
    /// Multi-head self-attention over (length, width).
    Attention(AttentionConfig) = "attention",
    /// Long short-term memory over (length, width): the states at all positions.
    Lstm(RecurrentConfig) = "lstm",
    /// Gated recurrent units over (length, width): the states at all positions.
    Gru(RecurrentConfig) = "gru",
    /// An elementwise nonlinearity.
    Activation(ActivationConfig) = "activation",
    /// max(x, 0).
    Relu(Plain) = "relu",
    /// x · Φ(x), the exact form with the error function.
    Gelu(Plain) = "gelu",
    /// The approximation of `gelu` by tanh, as GPT-2 has it: 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))).
    GeluTanh(Plain) = "gelu-tanh",
    /// x · σ(1.702 · x), as CLIP has it.
    QuickGelu(Plain) = "quick-gelu",
    /// x · σ(x).
    Silu(Plain) = "silu",
    /// The hyperbolic tangent.
    Tanh(Plain) = "tanh",
    /// 1 / (1 + e⁻ˣ).
    Sigmoid(Plain) = "sigmoid",
    /// Flattens a sample to one dimension.
    Flatten(Plain) = "flatten",
    /// The same elements in another shape.
    Reshape(ReshapeConfig) = "reshape",
    /// Dimensions in another order.
    Transpose(TransposeConfig) = "transpose",
    /// Pixels or patches as a sequence: (channels, height, width) to (height · width, channels), row by row, and
    /// (channels, length) to (length, channels).
    Positions(Plain) = "positions",
    /// The mean over the positions of (length, width).
    MeanPositions(Plain) = "mean-positions",
    /// One position of (length, width).
    Select(SelectConfig) = "select",
    /// A list of layers that run in order; their names begin with its own.
    Sequential(SequentialLayers) = "sequential",
    /// A residual connection: activation(layers(x) + shortcut(x)).
    Residual(ResidualConfig) = "residual",
    /// A list of layers several times, each with parameters of its own: those of repetition 0 are named `NAME.0.…`.
    Repeat(RepeatConfig) = "repeat",
    /// Several lists of layers with the same input, whose outputs are combined.
    Parallel(ParallelConfig) = "parallel",
}

impl LayerKind {
    /// Returns the kind's name in the manifest; for an `activation` that of its function.
    pub fn name(&self) -> &'static str {
        match self {
            LayerKind::Activation(config) => config.function.name(),
            other => other.in_manifest(),
        }
    }

    /// Returns the function of a layer that is an elementwise nonlinearity.
    pub(crate) fn activation(&self) -> Option<Activation> {
        Some(match self {
            LayerKind::Activation(config) => config.function,
            LayerKind::Relu(_) => Activation::Relu,
            LayerKind::Gelu(_) => Activation::Gelu,
            LayerKind::GeluTanh(_) => Activation::GeluTanh,
            LayerKind::QuickGelu(_) => Activation::QuickGelu,
            LayerKind::Silu(_) => Activation::Silu,
            LayerKind::Tanh(_) => Activation::Tanh,
            LayerKind::Sigmoid(_) => Activation::Sigmoid,
            _ => return None,
        })
    }
}

/// A kind's options as the kind, where they are those of one kind alone.
macro_rules! from_options {
    ($($variant:ident($options:ty),)+) => {
        $(impl From<$options> for LayerKind {
            fn from(options: $options) -> LayerKind {
                LayerKind::$variant(options)
            }
        })+
    };
}

from_options! {
    Linear(LinearConfig),
    Conv1d(Conv1dConfig),
    Conv2d(Conv2dConfig),
    ConvTranspose2d(ConvTranspose2dConfig),
    Upsample(UpsampleConfig),
    BatchNorm(BatchNormConfig),
    GroupNorm(GroupNormConfig),
    Dropout(DropoutConfig),
    DropPath(DropPathConfig),
    Scale(ScaleConfig),
    Embedding(EmbeddingConfig),
    EmbedCategories(EmbedCategoriesConfig),
    PositionEmbedding(PositionEmbeddingConfig),
    MaskTokens(MaskTokensConfig),
    Attention(AttentionConfig),
    Activation(ActivationConfig),
    Reshape(ReshapeConfig),
    Transpose(TransposeConfig),
    Select(SelectConfig),
    Sequential(SequentialLayers),
    Residual(ResidualConfig),
    Repeat(RepeatConfig),
    Parallel(ParallelConfig),
}
