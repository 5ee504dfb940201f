//! Trainable layers, each with its gradient checked against finite differences.
//!
//! Names, shapes and initialisations are PyTorch's, so that weights can be exchanged with it.
//! Constructors take a [`ParameterScope`](crate::parameters::ParameterScope) of the registry; the layers can be used
//! without the trainer.

mod activation;
mod attention;
mod batch_norm;
mod category_embeddings;
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
pub use category_embeddings::CategoryEmbeddings;
pub use conv::{Conv1d, Conv2d, ConvOptions};
pub use dropout::Dropout;
pub use embedding::{Embedding, PositionEmbedding};
pub use linear::{Linear, LinearOptions};
pub use norm::{LayerNorm, RmsNorm};
pub use pool::Pool2d;
pub use rotary::Rotary;

use super::Pass;

/// A part of a model that maps one tensor to another.
pub trait Layer: Send {
    /// Returns the output for a batch, whose first dimension is the batch.
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// Returns the layer's kind for fusion with adjacent layers.
    fn role(&self) -> FusionRole<'_> {
        FusionRole::Other
    }
}

/// Kind of a layer, for fusion with adjacent layers.
#[derive(Clone, Copy, Debug)]
pub enum FusionRole<'a> {
    /// A linear layer.
    Linear(&'a Linear),
    /// A convolution over images.
    Conv2d(&'a Conv2d),
    /// Batch normalisation.
    BatchNorm(&'a BatchNorm),
    /// An elementwise nonlinearity.
    Activation(Activation),
    /// Pooling over images.
    Pool2d(Pool2d),
    /// A layer that is never fused.
    Other,
}

/// A layer without state, given as a function.
pub struct Stateless<F>(pub F);

impl<F: Fn(&Tensor) -> Result<Tensor> + Send> Layer for Stateless<F> {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        (self.0)(x)
    }
}
