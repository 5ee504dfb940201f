//! The linear layer.

use candle_core::{Result, Tensor};

use super::adapter::Adapted;
use super::{Adapter, FusionRole, Layer};
use crate::Pass;
use crate::init::Init;
use crate::onnx::{Graph, OnnxError, Value};
use crate::ops::{self, Function, LinearParameters, WeightOrder};
use crate::parameters::{self, ParameterScope};

/// y = x · Wᵀ + b over the last dimension, with PyTorch's shapes, names and initialisation.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Tensor,
    order: WeightOrder,
    bias: Option<Tensor>,
    adapter: Option<Adapter>,
}

/// Options of [`Linear`].
#[derive(Clone, Copy, Debug)]
pub struct LinearOptions {
    /// Whether a bias is added.
    pub bias: bool,
    /// Initialisation of the weight; PyTorch's default if none.
    pub init: Option<Init>,
    /// Order of the weight's dimensions.
    pub order: WeightOrder,
}

impl Default for LinearOptions {
    fn default() -> Self {
        LinearOptions {
            bias: true,
            init: None,
            order: WeightOrder::default(),
        }
    }
}

impl Linear {
    /// Creates a layer that registers `weight` (outputs, inputs), or in the order of its options, and `bias` (outputs), and an
    /// adapter if the registry's plan has one for it.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        inputs: usize,
        outputs: usize,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        Linear::with(scope, inputs, outputs, LinearOptions::default())
    }

    /// Like [`new`](Linear::new), with options.
    pub fn with(
        scope: &mut ParameterScope<'_>,
        inputs: usize,
        outputs: usize,
        options: LinearOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let init = options.init.unwrap_or_else(Init::linear_weight);
        let LinearOptions { bias, order, .. } = options;
        let init = match order {
            WeightOrder::OutputsInputs => init,
            WeightOrder::InputsOutputs => init.of_transposed(inputs, outputs),
        };
        let weight = scope.parameter("weight", &order.shape(inputs, outputs), init)?;
        let bias = if bias {
            Some(scope.parameter("bias", &[outputs], Init::linear_bias(inputs))?)
        } else {
            None
        };
        let is_transposed = order == WeightOrder::InputsOutputs;
        let adapter = Adapter::of(scope, inputs, outputs, is_transposed)?;
        Ok(Linear {
            weight,
            order,
            bias,
            adapter,
        })
    }

    /// Creates a layer that uses another's weight, in the order of its options, and registers a `bias` alone, if it has one.
    /// The weight is a matrix.
    pub fn tied(
        scope: &mut ParameterScope<'_>,
        weight: Tensor,
        options: LinearOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let (inputs, outputs) = match (weight.dims(), options.order) {
            (&[outputs, inputs], WeightOrder::OutputsInputs)
            | (&[inputs, outputs], WeightOrder::InputsOutputs) => (inputs, outputs),
            _ => (0, 0),
        };
        let bias = if options.bias {
            Some(scope.parameter("bias", &[outputs], Init::linear_bias(inputs))?)
        } else {
            None
        };
        Ok(Linear {
            weight,
            order: options.order,
            bias,
            adapter: None,
        })
    }

    /// Returns the weight, of the shape of its order.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// Returns weight and bias, without an adapter.
    pub fn parameters(&self) -> LinearParameters {
        LinearParameters {
            weight: self.weight.clone(),
            order: self.order,
            bias: self.bias.clone(),
        }
    }

    /// Maps (…, inputs) to (…, outputs), without an adapter.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::linear_with(x, (&self.weight, self.order), self.bias.as_ref(), None)
    }

    /// As [`forward`](Linear::forward), with the adapter, whose dropout depends on the pass.
    pub fn adapted(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        match &self.adapter {
            Some(adapter) => adapter.forward(x, self.base(), pass),
            None => self.forward(x),
        }
    }

    /// What an adapter is beside.
    fn base(&self) -> Adapted<'_> {
        Adapted {
            weight: &self.weight,
            order: self.order,
            bias: self.bias.as_ref(),
        }
    }

    /// Its operations in a graph of ONNX.
    pub(super) fn in_onnx(
        &self,
        graph: &mut Graph,
        x: &Value,
    ) -> std::result::Result<Value, OnnxError> {
        let weight = graph.weight(&self.weight);
        let weight = match self.order {
            WeightOrder::OutputsInputs => graph.transpose(&weight, &[1, 0]),
            WeightOrder::InputsOutputs => weight,
        };
        let mut y = graph.of_two("MatMul", x, &weight);
        if let Some(adapter) = &self.adapter {
            y = adapter.in_onnx(graph, (x, &y), self.base())?;
        }
        Ok(match &self.bias {
            Some(bias) => {
                let bias = graph.weight(bias);
                graph.of_two("Add", &y, &bias)
            }
            None => y,
        })
    }

    /// Runs [`forward`](Linear::forward) and an activation function in the same operation.
    pub fn forward_then(&self, x: &Tensor, function: Function) -> Result<Tensor> {
        let y = ops::linear_with(
            x,
            (&self.weight, self.order),
            self.bias.as_ref(),
            Some(function),
        )?;
        if function != Function::Relu && y.track_op() {
            // Its derivatives.
            ops::keeps(y.elem_count() * y.dtype().size_in_bytes());
        }
        Ok(y)
    }
}

impl Layer for Linear {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        self.adapted(x, pass)
    }

    fn rounds_input(&self, rows: usize) -> bool {
        let Ok((first, second)) = self.weight.dims2() else {
            return false;
        };
        self.adapter.is_none() && ops::rounds_linear(rows, first, second)
    }

    fn can_round_outputs(&self) -> bool {
        self.adapter.is_none()
    }

    fn role(&self) -> FusionRole<'_> {
        match self.adapter {
            Some(_) => FusionRole::Other,
            None => FusionRole::Linear(self),
        }
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        self.in_onnx(graph, x)
    }
}
