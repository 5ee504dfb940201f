//! Trainable layers, each with its gradient checked against finite differences.
//!
//! Names, shapes and initialisations are PyTorch's, so that weights can be exchanged with it.
//! Constructors take a [`ParameterScope`](crate::parameters::ParameterScope) of the registry; the layers can be used
//! without the trainer.

mod adapter;
mod attention;
mod batch_norm;
mod category_embeddings;
mod conv;
mod elementwise;
mod embedding;
mod linear;
mod norm;
mod pool;
mod positions;
mod rearranging;
mod recurrent;
#[cfg(test)]
mod tests;

use candle_core::{Result, Tensor};

use crate::onnx::{Graph, OnnxError, Value};

pub use adapter::Adapter;
pub use attention::Rotary;
pub use attention::{
    Attention, AttentionOptions, AttentionProjections, HeadSizes, ProjectionOptions,
    QueryNormOptions,
};
pub use batch_norm::{BatchNorm, BatchNormOptions};
pub use category_embeddings::CategoryEmbeddings;
pub use conv::{Conv1d, Conv2d, ConvOptions, ConvTranspose2d};
pub use elementwise::{Activation, DropPath, Dropout, Scale};
pub(crate) use embedding::NamedTokens;
pub use embedding::{Embedding, EmbeddingOptions};
pub use linear::{Linear, LinearOptions};
pub use norm::{GroupNorm, LayerNorm, RmsNorm, UnitNorm};
pub use pool::{Pool2d, Upsample};
pub use positions::{ClassToken, MaskTokens, PositionEmbedding, SelectPosition};
pub(crate) use rearranging::Rearrangement;
pub use recurrent::{Recurrent, RecurrentOptions};

use super::Pass;

/// A part of a model that maps one tensor to another.
pub trait Layer: Send {
    /// Returns the output for a batch, whose first dimension is the batch.
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor>;

    /// Adds the layer's operations, as in evaluation, to a graph of ONNX; `x` is its input. A layer without this is an
    /// error of the export that names it.
    ///
    /// # Errors
    ///
    /// If ONNX's operations can't say it.
    fn onnx(&self, graph: &mut Graph, _x: &Value) -> std::result::Result<Value, OnnxError> {
        Err(OnnxError::of(graph, "it says no operations of ONNX"))
    }

    /// Whether further tokens have the outputs that they have after those before them, where a
    /// [`KeyValueCache`](crate::KeyValueCache) has what is needed of these: so have layers that look at each position by itself, and
    /// causal attention.
    fn continues(&self) -> bool {
        false
    }

    /// Whether the layer, from now on, reads an input of this many rows only as factors of products that round it
    /// ([`rounds_linear`](crate::ops::rounds_linear)).
    fn rounds_input(&self, _rows: usize) -> bool {
        false
    }

    /// Whether its outputs are those of one operation that can keep them rounded
    /// ([`rounding_outputs`](crate::ops::rounding_outputs)).
    fn can_round_outputs(&self) -> bool {
        false
    }

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
