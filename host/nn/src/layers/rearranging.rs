//! Layers without parameters that rearrange elements, or leave some out.

use candle_core::{Result, Tensor};

use super::Layer;
use crate::onnx::{Attribute, Graph, OnnxError, Value};
use crate::{Pass, ops};

/// The same elements in another form, or some of them.
#[derive(Clone, Debug)]
pub(crate) enum Rearrangement {
    /// Samples of this shape.
    Reshape(Vec<usize>),
    /// From (channels, …), `length` elements each, to (length, channels).
    Positions {
        /// Number of channels.
        channels: usize,
        /// Number of elements of each.
        length: usize,
    },
    /// The sample's dimensions in this order.
    Transpose(Vec<usize>),
    /// The mean of all positions of (length, width).
    MeanPositions,
}

impl Layer for Rearrangement {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        match self {
            Rearrangement::Reshape(shape) => {
                let batch = x.dim(0)?;
                let dims: Vec<usize> = std::iter::once(batch)
                    .chain(shape.iter().copied())
                    .collect();
                ops::reshape(x, dims)
            }
            Rearrangement::Positions { channels, length } => {
                let x = ops::reshape(x, (x.dim(0)?, *channels, *length))?;
                ops::transpose(&x)
            }
            Rearrangement::Transpose(axes) => ops::permuted(x, axes),
            Rearrangement::MeanPositions => ops::mean_positions(x),
        }
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        Ok(match self {
            Rearrangement::Reshape(shape) => {
                let sample = shape.iter().map(|&size| size as i64);
                let shape: Vec<i64> = std::iter::once(-1).chain(sample).collect();
                graph.reshape(x, &shape)
            }
            Rearrangement::Positions { channels, length } => {
                let x = graph.reshape(x, &[-1, *channels as i64, *length as i64]);
                graph.transpose(&x, &[0, 2, 1])
            }
            Rearrangement::Transpose(axes) => {
                let axes = axes.iter().map(|&axis| axis as i64 + 1);
                let order: Vec<i64> = std::iter::once(0).chain(axes).collect();
                graph.transpose(x, &order)
            }
            Rearrangement::MeanPositions => {
                let axis = graph.ints(&[1]);
                let keep = [("keepdims", Attribute::Int(0))];
                graph.node("ReduceMean", &[x, &axis], &keep)
            }
        })
    }
}
