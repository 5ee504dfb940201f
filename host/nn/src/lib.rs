//! Models and their layers.
//!
//! [`layers`] are made of [`ops`] and can be used without the trainer. A model of the manifest is a
//! list of [`LayerConfig`]s, built into a [`Network`]; the ready-made ones are lists, too
//! ([`models`]).

mod build;
mod build_layer;
mod config;
mod extent;
mod fusion;
pub mod gradients;
pub mod init;
mod init_config;
mod layer_config;
pub mod layers;
pub mod loss;
pub mod metric;
pub mod models;
pub mod nearest;
mod network;
pub mod optim;
pub mod parameters;
mod pass;
pub mod patterns;
mod samples;
mod sequence;
mod signal;
mod summary;
mod var_builder;

#[cfg(test)]
mod frozen_tests;
#[cfg(test)]
mod test_numbers;

use candle_core::{Result, Tensor};

pub use build::{LayerError, build};
pub use config::{ModelConfig, ModelError, SequentialConfig};
pub use extent::Extent;
pub use init_config::InitConfig;
pub use layer_config::LayerConfig;
pub use layers::{Activation, Layer, Linear};
pub use network::Network;
pub use pass::{ModuleInfo, Moment, Pass, Surroundings, Taps};
pub use samples::{Inputs, Targets};
pub use sconce_ops as ops;
pub use sconce_ops::{gradient_check, random};
pub use sequence::{Residual, Sequence};
pub use signal::Signal;
pub use summary::{LayerSummary, Summary};
pub use var_builder::with_var_builder;

/// Something with a forward pass.
pub trait Model {
    /// The outputs for a batch of inputs, whose first dimension is the batch. The pass says in which
    /// phase, and every named module runs through it ([`Pass::module`]).
    fn forward(&self, inputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// The named modules, in the order in which they run.
    fn modules(&self) -> Vec<ModuleInfo>;

    /// What it is made of; none where it can't say.
    fn summary(&self) -> Option<&Summary> {
        None
    }
}
