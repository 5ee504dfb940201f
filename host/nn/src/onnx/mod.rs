//! Models as graphs of ONNX (opset 20), for other programs.
//!
//! **Parts.** `graph`: a graph while it is made. `file`: the file, and one beside it for weights that don't fit into it. `proto`: the
//! messages that both consist of. `pytorch`: a graph as a module of `PyTorch`.
//!
//! **Flow.** [`Layer::onnx`](crate::Layer::onnx) adds a layer's operations; a layer that has none is an error that names it.
//! Operations are ONNX's own: none of a runtime's. Sizes of the batch and of sequences stay free.

mod file;
mod graph;
mod proto;
mod pytorch;

pub use file::OnnxModel;
pub use graph::{Attribute, Dimension, ElementType, Graph, Value};
pub use pytorch::PytorchModel;

/// Why a model can't be written.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// A layer that ONNX's operations can't say, or that says none.
    #[error("{}: {reason}", located(module))]
    Layer {
        /// Name of the module, empty for a layer without a name.
        module: String,
        /// Why not.
        reason: String,
    },
    /// An operation that isn't known in `PyTorch`.
    #[error("the operation `{operation}` can't be written for PyTorch: {reason}")]
    Operation {
        /// Its name in the graph.
        operation: String,
        /// Why not.
        reason: String,
    },
    /// An error of candle.
    #[error("a weight can't be read: {0}")]
    Tensor(#[from] candle_core::Error),
}

fn located(module: &str) -> String {
    match module {
        "" => "a layer can't be written as ONNX".to_owned(),
        module => format!("the layer `{module}` can't be written as ONNX"),
    }
}

impl OnnxError {
    /// The layer that is written can't be.
    pub fn of(graph: &Graph, reason: impl Into<String>) -> OnnxError {
        OnnxError::Layer {
            module: graph.module().to_owned(),
            reason: reason.into(),
        }
    }
}
