//! The linear layer.

use candle_core::{Result, Tensor};

use crate::init::Init;
use crate::parameters::{self, Scope};

/// y = x · Wᵀ + b, with PyTorch's shapes, names and initialisation.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    /// A layer whose parameters are registered as `weight` (outputs, inputs) and `bias` (outputs).
    pub fn new(
        scope: &mut Scope<'_>,
        inputs: usize,
        outputs: usize,
    ) -> std::result::Result<Self, parameters::Error> {
        Ok(Linear {
            weight: scope.parameter("weight", &[outputs, inputs], Init::linear_weight())?,
            bias: scope.parameter("bias", &[outputs], Init::linear_bias(inputs))?,
        })
    }

    /// From (batch, inputs) to (batch, outputs).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.matmul(&self.weight.t()?)?.broadcast_add(&self.bias)
    }
}
