//! Lists of layers with the same input.

use candle_core::{Result, Tensor};

use super::Sequence;
use crate::onnx::{Graph, OnnxError, Value};
use crate::{Combination, Layer, Pass, ops};

/// Lists of layers with the same input, and what is made of their outputs.
pub(crate) struct Branches {
    /// One without layers leaves the input as it is.
    pub(crate) lists: Vec<Sequence>,
    pub(crate) combine: Combination,
    /// Number of dimensions of each branch's output, not counting the batch's.
    pub(crate) ranks: Vec<usize>,
    /// Dimension along which outputs are concatenated, not counting the batch's.
    pub(crate) axis: usize,
}

impl Layer for Branches {
    fn continues(&self) -> bool {
        let is_by_position = self.axis > 0 || self.combine != Combination::Concatenate;
        is_by_position && self.lists.iter().all(Layer::continues)
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mut combined: Option<Tensor> = None;
        for branch in &self.lists {
            let output = branch.forward(x, pass)?;
            combined = Some(match combined {
                None => output,
                Some(before) => match self.combine {
                    Combination::Add => ops::add(&before, &output)?,
                    Combination::Multiply => multiplied(&before, &output)?,
                    Combination::Concatenate => ops::concatenated(&before, &output, self.axis + 1)?,
                },
            });
        }
        match combined {
            Some(combined) => Ok(combined),
            None => candle_core::bail!("there are no branches"),
        }
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let most = self.ranks.iter().copied().max().unwrap_or_default();
        let mut outputs = Vec::with_capacity(self.lists.len());
        for (branch, &rank) in self.lists.iter().zip(&self.ranks) {
            let mut output = branch.onnx(graph, x)?;
            if rank < most {
                // A number for each channel of images.
                let after: Vec<i64> = (rank + 1..=most)
                    .map(|dimension| dimension as i64)
                    .collect();
                let after = graph.ints(&after);
                output = graph.of_two("Unsqueeze", &output, &after);
            }
            outputs.push(output);
        }
        let operator = match self.combine {
            Combination::Concatenate => return Ok(graph.joined(&outputs, self.axis as i64 + 1)),
            Combination::Add => "Add",
            Combination::Multiply => "Mul",
        };
        let combined = outputs
            .into_iter()
            .reduce(|before, output| graph.of_two(operator, &before, &output));
        combined.ok_or_else(|| OnnxError::of(graph, "there are no branches"))
    }
}

/// The product of tensors of one shape, or of (batch, channels) and (batch, channels, height, width) in either order.
fn multiplied(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    match (a.rank(), b.rank()) {
        (2, 4) => ops::channels_times(b, a),
        (4, 2) => ops::channels_times(a, b),
        _ => ops::multiply(a, b),
    }
}
