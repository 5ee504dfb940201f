//! Adapters of low rank beside a linear layer whose weight is held.

use candle_core::{Result, Tensor};

use super::Dropout;
use crate::init::Init;
use crate::onnx::{Graph, OnnxError, Value};
use crate::ops::WeightOrder;
use crate::parameters::adapters::{AdapterOptions, LORA_A, LORA_B, MAGNITUDE};
use crate::parameters::{ParameterScope, ParametersError};
use crate::{Pass, ops};

/// What is added to a linear layer: scale · drop(x) · Aᵀ · Bᵀ (`LoRA`, Hu et al., 2021), with PEFT's names and initialisation.
/// `lora_A.weight` is (rank, inputs), `lora_B.weight` (outputs, rank), at first zero.
///
/// With a magnitude, `lora_magnitude_vector` (outputs), the weight is m · (W + scale · B · A) / ‖W + scale · B · A‖ by rows (`DoRA`, Liu
/// et al., 2024), where the norm is a constant of the backward pass, as in PEFT.
#[derive(Clone, Debug)]
pub struct Adapter {
    down: Tensor,
    up: Tensor,
    scale: f64,
    dropout: Dropout,
    magnitude: Option<Tensor>,
}

/// The linear layer that an adapter belongs to.
#[derive(Clone, Copy)]
pub(super) struct Adapted<'a> {
    pub(super) weight: &'a Tensor,
    pub(super) order: WeightOrder,
    pub(super) bias: Option<&'a Tensor>,
}

impl Adapted<'_> {
    fn forward(&self, x: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        ops::linear_with(x, (self.weight, self.order), bias, None)
    }
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
            dora,
        } = options;
        let name = format!("{}.lora", scope.name());
        Ok(Some(Adapter {
            down: scope.parameter(LORA_A, &[rank, inputs], Init::linear_weight())?,
            up: scope.parameter(LORA_B, &[outputs, rank], Init::ZEROS)?,
            scale,
            dropout: Dropout::new(dropout, &name),
            // Set to the lengths of the base's rows when these are there.
            magnitude: if dora {
                Some(scope.parameter(MAGNITUDE, &[outputs], Init::ONES)?)
            } else {
                None
            },
        }))
    }

    /// The output of the adapted layer.
    pub(super) fn forward(&self, x: &Tensor, base: Adapted<'_>, pass: &Pass<'_>) -> Result<Tensor> {
        let y = base.forward(x, base.bias)?;
        let dropped = self.dropout.forward(x, pass)?;
        let added = self.added(&dropped)?;
        let Some(magnitude) = &self.magnitude else {
            return ops::add(&y, &added);
        };
        // y + (f − 1) · W · drop(x) + f · added, with f = m / ‖W + scale · B · A‖.
        let unscaled = base.forward(&dropped, None)?;
        let factors = self.factors(magnitude, base)?;
        let scaled = ops::columns_times(&ops::add(&unscaled, &added)?, &factors)?;
        ops::add(&ops::add(&y, &times(&unscaled, -1.0)?)?, &scaled)
    }

    /// scale · x · Aᵀ · Bᵀ.
    fn added(&self, x: &Tensor) -> Result<Tensor> {
        let narrow = ops::linear(x, &self.down, None)?;
        ops::linear(&times(&narrow, self.scale)?, &self.up, None)
    }

    /// m / ‖W + scale · B · A‖, of which the magnitude alone has a gradient.
    fn factors(&self, magnitude: &Tensor, base: Adapted<'_>) -> Result<Tensor> {
        let weight = base.weight.detach();
        let weight = match base.order {
            WeightOrder::OutputsInputs => weight,
            WeightOrder::InputsOutputs => weight.t()?,
        };
        let product = self.up.detach().matmul(&self.down.detach())?;
        let norm = (weight + (product * self.scale)?)?.sqr()?.sum(1)?.sqrt()?;
        ops::masked(magnitude, &norm.recip()?)
    }

    /// As [`forward`](Adapter::forward) without dropout, in a graph of ONNX, of the output of the weight alone, without its bias.
    pub(super) fn in_onnx(
        &self,
        graph: &mut Graph,
        (x, y): (&Value, &Value),
        base: Adapted<'_>,
    ) -> std::result::Result<Value, OnnxError> {
        let [down, up] = [&self.down, &self.up].map(|weight| {
            let weight = graph.weight(weight);
            graph.transpose(&weight, &[1, 0])
        });
        let narrow = graph.of_two("MatMul", x, &down);
        let scale = graph.number(self.scale);
        let narrow = graph.of_two("Mul", &narrow, &scale);
        let added = graph.of_two("MatMul", &narrow, &up);
        let sum = graph.of_two("Add", y, &added);
        let Some(magnitude) = &self.magnitude else {
            return Ok(sum);
        };
        let factors = graph.weight(&self.factors(magnitude, base)?);
        Ok(graph.of_two("Mul", &sum, &factors))
    }
}

/// A tensor times a number.
fn times(x: &Tensor, factor: f64) -> Result<Tensor> {
    let factors = Tensor::full(factor, x.shape(), x.device())?;
    ops::masked(x, &factors.to_dtype(x.dtype())?)
}
