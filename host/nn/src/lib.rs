//! Trainable models on candle: parameters, layers, losses, metrics and optimizers.
//!
//! Nothing here depends on the trainer: the crate `sconce` drives these parts, and a program can use
//! them on their own. Operations and kernels come from [`ops`] (sconce-ops).
//!
//! **Parts**
//! - [`parameters`] (sconce-parameters): the registry of named parameters and buffers, with their initial values and
//!   gradients; [`with_var_builder`] registers the variables of `candle_nn` layers.
//! - [`layers`]: the layers, each with a gradient of its own.
//! - `config`, [`models`]: layers and models in the manifest. Ready-made models are lists of [`LayerConfig`], too.
//! - `build`: building a [`Network`] from such a list, with shape inference, error messages and the cost of each layer (`shapes`).
//! - `network`: layers in their order, and which of them run as one operation.
//! - `pass`: one forward pass, its random numbers, and hooks at modules.
//! - `precision`: products in TF32 or bf16.
//! - [`onnx`]: models as graphs for other programs.
//! - `running_statistics`: those of batch norms, and batches' statistics recorded to be merged into them later.
//! - [`loss`], [`metric`]: computed from outputs and targets.
//! - [`optim`]: optimizers with parameter groups and a state for checkpoints.
//!
//! **Flow**
//! 1. [`ModelConfig::build`] turns the configuration into [`LayerConfig`]s, and [`build()`] builds them
//!    one after the other: each registers its parameters and maps its input's [`Signal`] to its output's.
//! 2. For each batch, [`Model::forward`] runs the layers in a [`Pass`]; named ones run through
//!    [`Pass::module`], which calls the [`Taps`] of attached hooks.
//! 3. [`loss::Loss::forward`] gives a scalar, [`ops::backward`] its gradients, and
//!    [`gradients::Gradients::from_store`] puts these in the registry's order; in the first iteration
//!    [`gradients::Gradients::audit`] checks them.
//! 4. [`optim::Optimizer::step`] updates the parameters in place.

#![allow(
    clippy::cast_possible_wrap,
    reason = "sizes of tensors, which ONNX has as signed numbers, are below 2⁶³"
)]

mod build;
mod config;
pub mod layers;
pub mod loss;
pub mod metric;
pub mod models;
mod network;
pub mod onnx;
pub mod optim;
mod pass;
mod precision;
mod running_statistics;
mod shapes;

#[cfg(test)]
mod test_numbers;

use candle_core::{Result, Tensor};

pub use build::{LayerError, build, with_var_builder};
pub use config::{
    ActivationConfig, AdaptivePoolConfig, AttentionConfig, BatchNormConfig, Combination,
    Conv1dConfig, Conv2dConfig, ConvTranspose2dConfig, DropPathConfig, DropoutConfig,
    EmbedCategoriesConfig, EmbeddingConfig, Extent, GroupNormConfig, InitConfig, LayerConfig,
    LayerKind, LinearConfig, MaskTokensConfig, NamedPosition, NormConfig, PackedNames,
    ParallelConfig, Plain, PoolConfig, PositionEmbeddingConfig, ProjectionBias, ProjectionBiases,
    ProjectionNames, QueryNormConfig, RecurrentConfig, RepeatConfig, ReshapeConfig, ResidualConfig,
    RotaryAngles, RotaryConfig, RotaryScaling, ScaleConfig, SelectConfig, SelectedPosition,
    SeparateNames, SequentialLayers, TransposeConfig, UpsampleConfig, UpsampleMode,
};
pub use layers::{Activation, Layer, Linear};
pub use models::{ModelConfig, ModelError, SequentialConfig};
pub use network::{Network, Residual, Sequence};
pub use pass::{
    KeyValueCache, ModuleInfo, ModuleOutput, NamedInputs, Pass, PassPart, PassPosition,
    PassSurroundings, Taps, Visibility,
};
pub use precision::{Precision, PrecisionScope};
pub use running_statistics::StatisticsLog;
pub use sconce_ops as ops;
pub use sconce_ops::{gradient_check, random};
pub use sconce_parameters as parameters;
pub use sconce_parameters::{MemoryBudget, gradients, init};
pub use shapes::{Inputs, LayerSummary, Signal, Summary, Targets, TokenTargets};

/// A model with a forward pass.
pub trait Model {
    /// Returns the outputs for a batch of inputs, whose first dimension is the batch. `pass` says
    /// whether it is training; every named module runs through [`Pass::module`].
    fn forward(&self, inputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// Returns the named modules in the order in which they finish.
    fn modules(&self) -> Vec<ModuleInfo>;

    /// Whether a text can be continued with a [`KeyValueCache`]: a pass over further tokens alone, of any number up to the length that
    /// it was built for.
    fn continues(&self) -> bool {
        false
    }

    /// Returns the model's layers and their costs, if it knows them.
    fn summary(&self) -> Option<&Summary> {
        None
    }
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
