//! Models and their layers.

mod activation;
mod config;
mod linear;
mod mlp;

use candle_core::{Result, Tensor};

pub use activation::Activation;
pub use config::{ModelConfig, ModelError};
pub use linear::Linear;
pub use mlp::Mlp;

/// Something with a forward pass.
pub trait Model {
    /// The outputs for a batch of inputs, whose first dimension is the batch. `training` switches
    /// on what only training has, such as dropout.
    fn forward(&self, inputs: &Tensor, training: bool) -> Result<Tensor>;
}
