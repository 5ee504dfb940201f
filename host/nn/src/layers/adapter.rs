//! Adapters of low rank beside a linear layer whose weight is held.

use candle_core::{Result, Tensor};

use super::Dropout;
use crate::init::Init;
use crate::onnx::{Graph, Value};
use crate::parameters::adapters::{AdapterOptions, LORA_A, LORA_B};
use crate::parameters::{ParameterScope, ParametersError};
use crate::{Pass, ops};

/// What is added to a linear layer: scale · drop(x) · Aᵀ · Bᵀ (`LoRA`, Hu et al., 2021), with PEFT's names and initialisation.
/// `lora_A.weight` is (rank, inputs), `lora_B.weight` (outputs, rank), at first zero.
#[derive(Clone, Debug)]
pub struct Adapter {
    down: Tensor,
    up: Tensor,
    scale: f64,
    dropout: Dropout,
}

impl Adapter {
    /// Registers the adapter of a layer, if the registry's plan has one for it. `is_transposed`: the layer's weight is (inputs,
    /// outputs).
    pub(super) fn of(
        scope: &mut ParameterScope<'_>,
        inputs: usize,
        outputs: usize,
        is_transposed: bool,
    ) -> std::result::Result<Option<Adapter>, ParametersError> {
        let Some(options) = scope.adapter(is_transposed) else {
            return Ok(None);
        };
        let AdapterOptions {
            rank,
            scale,
            dropout,
        } = options;
        let name = format!("{}.lora", scope.name());
        Ok(Some(Adapter {
            down: scope.parameter(LORA_A, &[rank, inputs], Init::linear_weight())?,
            up: scope.parameter(LORA_B, &[outputs, rank], Init::ZEROS)?,
            scale,
            dropout: Dropout::new(dropout, &name),
        }))
    }

    /// Adds to the layer's output `y` of `x` what the adapter makes of `x`.
    pub(super) fn add_to(&self, y: &Tensor, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let dropped = self.dropout.forward(x, pass)?;
        let narrow = ops::linear(&dropped, &self.down, None)?;
        let scale = Tensor::full(self.scale, narrow.shape(), narrow.device())?;
        let narrow = ops::masked(&narrow, &scale.to_dtype(narrow.dtype())?)?;
        ops::add(y, &ops::linear(&narrow, &self.up, None)?)
    }

    /// As [`add_to`](Adapter::add_to) without dropout, in a graph of ONNX.
    pub(super) fn in_onnx(&self, graph: &mut Graph, y: &Value, x: &Value) -> Value {
        let [down, up] = [&self.down, &self.up].map(|weight| {
            let weight = graph.weight(weight);
            graph.transpose(&weight, &[1, 0])
        });
        let narrow = graph.of_two("MatMul", x, &down);
        let scale = graph.number(self.scale);
        let narrow = graph.of_two("Mul", &narrow, &scale);
        let added = graph.of_two("MatMul", &narrow, &up);
        graph.of_two("Add", y, &added)
    }
}
