//! Layers that train: every one's gradient is checked against finite differences.
//!
//! Names, shapes and initialisations are PyTorch's, so that weights go from one to the other. Their
//! constructors take a [`Scope`](crate::parameters::Scope) of the registry; they can be used without
//! the trainer.

mod activation;
mod attention;
mod batch_norm;
mod conv;
mod dropout;
mod embedding;
mod linear;
mod norm;
mod pool;
mod rotary;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor};

pub use activation::Activation;
pub use attention::{Attention, AttentionOptions};
pub use batch_norm::{BatchNorm, BatchNormOptions};
pub use conv::{Conv1d, Conv2d, ConvOptions};
pub use dropout::Dropout;
pub use embedding::{Embedding, PositionEmbedding};
pub use linear::{Linear, LinearOptions};
pub use norm::{LayerNorm, RmsNorm};
pub use pool::Pool2d;
pub use rotary::Rotary;

use super::Pass;

/// A part of a model: from one tensor to another.
pub trait Layer: Send {
    /// The output for a batch, whose first dimension is the batch.
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// What it is to the layers around it, which may run together with it.
    fn role(&self) -> Role<'_> {
        Role::Other
    }
}

/// What a layer is to those around it.
#[derive(Clone, Copy, Debug)]
pub enum Role<'a> {
    /// A linear layer.
    Linear(&'a Linear),
    /// A convolution over images.
    Conv2d(&'a Conv2d),
    /// A nonlinearity.
    Activation(Activation),
    /// Pooling.
    Pool2d(Pool2d),
    /// Nothing that runs together with others.
    Other,
}

/// A layer without state: a function.
pub struct Stateless<F>(pub F);

impl<F: Fn(&Tensor) -> Result<Tensor> + Send> Layer for Stateless<F> {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        (self.0)(x)
    }
}
