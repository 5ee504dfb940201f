//! Layers in the manifest, and their options.
//!
//! - `layer`: a layer's name and kind; `kind`: all kinds, each with its options and its name in the manifest
//! - `linear`, `convolutions`, `pooling`, `norms`, `elementwise`, `embeddings`, `attention`, `rearranging`, `blocks`: options, by groups
//!   of kinds; `defaults`: what they have in common
//! - `extent`, `init`: sizes over images, and initialisations

mod attention;
mod blocks;
mod convolutions;
mod defaults;
mod elementwise;
mod embeddings;
mod extent;
mod init;
mod kind;
mod layer;
mod linear;
mod norms;
mod pooling;
mod rearranging;

pub use attention::{
    AttentionConfig, PackedNames, ProjectionBias, ProjectionBiases, ProjectionNames,
    QueryNormConfig, RotaryAngles, RotaryConfig, RotaryScaling, SeparateNames,
};
pub use blocks::{Combination, ParallelConfig, RepeatConfig, ResidualConfig, SequentialLayers};
pub use convolutions::{Conv1dConfig, Conv2dConfig};
pub use elementwise::{ActivationConfig, DropPathConfig, DropoutConfig, ScaleConfig};
pub use embeddings::{EmbedCategoriesConfig, EmbeddingConfig, PositionEmbeddingConfig};
pub use extent::Extent;
pub use init::InitConfig;
pub use kind::{LayerKind, Plain};
pub use layer::LayerConfig;
pub use linear::LinearConfig;
pub use norms::{BatchNormConfig, GroupNormConfig, NormConfig};
pub use pooling::{AdaptivePoolConfig, PoolConfig};
pub use rearranging::{
    NamedPosition, ReshapeConfig, SelectConfig, SelectedPosition, TransposeConfig,
};
