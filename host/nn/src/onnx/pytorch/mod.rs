//! A graph as a module of `PyTorch`: a Python file in which each operation is a line, and the weights that it reads.
//!
//! **Parts.** `python_value`: what a value is in Python. `operations`: an operation as an expression. `forward`: the lines of the
//! function `forward`. This file puts the text together.
//!
//! **Flow.** Only the operations that the output needs are written. Sizes are Python's numbers, whatever they are in the graph, so that
//! shapes can be read. No text of a model becomes code: names and texts are written as string literals, and what is within a comment or
//! is a variable's name consists of letters, digits and `_`.

mod forward;
mod operations;
mod python_value;

use std::fmt::Write;

use candle_core::{DType, Device, Tensor};

use super::graph::GraphWeight;
use super::{Graph, OnnxError};
use crate::parameters::ParameterKind;
use forward::Forward;

/// Name of the file with the weights.
const WEIGHTS: &str = "model.safetensors";

/// A model as a module of `PyTorch`.
pub struct PytorchModel {
    text: String,
    weights: Vec<(String, Tensor)>,
}

impl PytorchModel {
    /// Writes what `output` of a graph needs; `facts` are JSON texts about the model, by key, which become constants.
    ///
    /// # Errors
    ///
    /// If an operation isn't known, or a weight can't be read.
    pub fn of(
        graph: Graph,
        output: &str,
        facts: &[(&str, String)],
    ) -> Result<PytorchModel, OnnxError> {
        let (graph, weights) = graph.finish();
        let mut forward = Forward::of(&graph, &weights);
        forward.write(output)?;
        let mut tensors = Vec::with_capacity(weights.len());
        let mut buffers = Vec::new();
        for GraphWeight { name, tensor, kind } in &weights {
            let name = state_name(name);
            if *kind == ParameterKind::Buffer {
                buffers.push(name.clone());
            }
            let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
            tensors.push((name, tensor));
        }
        for (name, tensor) in forward.take_tables() {
            buffers.push(name.clone());
            tensors.push((name, tensor));
        }
        Ok(PytorchModel {
            text: text(&forward, facts, &buffers),
            weights: tensors,
        })
    }

    /// The text of the Python file. It reads weights from `model.safetensors` beside it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Tensors by the names that they have in the module's `state_dict`: those of the model's weights.
    pub fn weights(&self) -> &[(String, Tensor)] {
        &self.weights
    }
}

/// Name of a weight in the module: what is computed of weights has a place within a layer.
fn state_name(name: &str) -> String {
    name.trim_start_matches('/').replace('/', ".")
}

/// A text as a literal, which is the same in JSON and Python.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The file.
fn text(forward: &Forward<'_>, facts: &[(&str, String)], buffers: &[String]) -> String {
    let buffers: Vec<String> = buffers.iter().map(|name| literal(name)).collect();
    let buffers = buffers.join(", ");
    let mut constants = String::new();
    for (key, json) in facts {
        // Writing to a string can't fail.
        let _ = writeln!(constants, "{} = {json}", key.to_uppercase());
    }
    let arguments = forward.arguments();
    let (helpers, lines, device) = (forward.helpers(), forward.lines(), forward.device());
    let numpy = if forward.has_columns() {
        "import numpy as np\n"
    } else {
        ""
    };
    format!(
        r#""""A trained model of Sconce for PyTorch, written by `sconce export --format pytorch`.

    from model import Model

    model = Model.load()         # reads {WEIGHTS} beside this file
    output = model({arguments})

INPUTS says what the model takes. The output has a score for each of CLASSES, before softmax, or the numbers of TARGETS in their own units.
Dropout is left out, and norms of a batch use their running statistics. All else can be trained further.
"""

import pathlib

{numpy}import torch
from torch.nn import functional as F

{constants}
# What is not trained.
BUFFERS = [{buffers}]


class Model(torch.nn.Module):
    def __init__(self, weights):
        """Takes tensors by the names that they have in {WEIGHTS}."""
        super().__init__()
        for name, tensor in weights.items():
            place = self
            *path, last = name.split(".")
            for part in path:
                if part not in place._modules:
                    place.add_module(part, torch.nn.Module())
                place = place._modules[part]
            if name in BUFFERS:
                place.register_buffer(last, tensor)
            else:
                place.register_parameter(last, torch.nn.Parameter(tensor))

    @classmethod
    def load(cls, file=pathlib.Path(__file__).with_name("{WEIGHTS}")):
        from safetensors.torch import load_file

        return cls(load_file(file))

    def forward(self, {arguments}):
        w = dict(self.named_parameters()) | dict(self.named_buffers())
{device}{lines}{helpers}"#
    )
}

#[cfg(test)]
mod tests;
