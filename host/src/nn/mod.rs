//! Models and their layers.

mod activation;
mod config;
mod linear;
mod mlp;
mod pass;

use candle_core::{Result, Tensor};

pub use activation::Activation;
pub use config::{ModelConfig, ModelError};
pub use linear::Linear;
pub use mlp::Mlp;
pub use pass::{ModuleInfo, Moment, Pass, Surroundings, Taps};

/// Something with a forward pass.
pub trait Model {
    /// The outputs for a batch of inputs, whose first dimension is the batch. The pass says in which
    /// phase, and every named module runs through it ([`Pass::module`]).
    fn forward(&self, inputs: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// The named modules, in the order in which they run.
    fn modules(&self) -> Vec<ModuleInfo>;
}
