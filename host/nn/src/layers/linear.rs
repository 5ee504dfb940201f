//! The linear layer.

use candle_core::{Result, Tensor};

use super::{FusionRole, Layer};
use crate::Pass;
use crate::init::Init;
use crate::ops::{self, Function};
use crate::parameters::{self, ParameterScope};

/// y = x · Wᵀ + b over the last dimension, with PyTorch's shapes, names and initialisation.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

/// Options of [`Linear`].
#[derive(Clone, Copy, Debug)]
pub struct LinearOptions {
    /// Whether a bias is added.
    pub bias: bool,
    /// Initialisation of the weight; PyTorch's default if none.
    pub init: Option<Init>,
}

impl Default for LinearOptions {
    fn default() -> Self {
        LinearOptions {
            bias: true,
            init: None,
        }
    }
}

impl Linear {
    /// Creates a layer that registers `weight` (outputs, inputs) and `bias` (outputs).
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
        let weight = scope.parameter("weight", &[outputs, inputs], init)?;
        let bias = if options.bias {
            Some(scope.parameter("bias", &[outputs], Init::linear_bias(inputs))?)
        } else {
            None
        };
        Ok(Linear { weight, bias })
    }

    /// Maps (…, inputs) to (…, outputs).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::linear(x, &self.weight, self.bias.as_ref())
    }

    /// Runs [`forward`](Linear::forward) and an activation function in the same operation.
    pub fn forward_then(&self, x: &Tensor, function: Function) -> Result<Tensor> {
        let y = ops::linear_then(x, &self.weight, self.bias.as_ref(), function)?;
        if function != Function::Relu && y.track_op() {
            // Its derivatives.
            ops::keeps(y.elem_count() * y.dtype().size_in_bytes());
        }
        Ok(y)
    }
}

impl Layer for Linear {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Linear::forward(self, x)
    }

    fn role(&self) -> FusionRole<'_> {
        FusionRole::Linear(self)
    }
}
