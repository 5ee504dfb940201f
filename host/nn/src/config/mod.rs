//! Layers in the manifest, and their options.
//!
//! - `layer`: a layer's name and kind; `kind`: all kinds, each with its options and its name in the manifest
//! - `linear`, `convolutions`, `pooling`, `norms`, `elementwise`, `embeddings`, `attention`, `recurrent`, `rearranging`, `blocks`: options, by
//!   groups of kinds; `values`: what they have in common

mod attention;
mod blocks;
mod convolutions;
mod elementwise;
mod embeddings;
mod kind;
mod layer;
mod linear;
mod norms;
mod pooling;
mod rearranging;
mod recurrent;
mod values;

pub use attention::{
    AttentionConfig, PackedNames, ProjectionBias, ProjectionBiases, ProjectionNames,
    QueryNormConfig, RotaryAngles, RotaryConfig, RotaryScaling, SeparateNames,
};
pub use blocks::{Combination, ParallelConfig, RepeatConfig, ResidualConfig, SequentialLayers};
pub use convolutions::{
    Conv1dConfig, Conv2dConfig, ConvTranspose2dConfig, UpsampleConfig, UpsampleMode,
};
pub use elementwise::{ActivationConfig, DropPathConfig, DropoutConfig, ScaleConfig};
pub use embeddings::{
    EmbedCategoriesConfig, EmbeddingConfig, MaskTokensConfig, PositionEmbeddingConfig,
};
pub use kind::{LayerKind, Plain};
pub use layer::LayerConfig;
pub use linear::LinearConfig;
pub use norms::{BatchNormConfig, GroupNormConfig, NormConfig};
pub use pooling::{AdaptivePoolConfig, PoolConfig};
pub use rearranging::{
    NamedPosition, ReshapeConfig, SelectConfig, SelectedPosition, TransposeConfig,
};
pub use recurrent::RecurrentConfig;
pub use values::{Extent, InitConfig};
