//! The linear layer.

use candle_core::{D, Result, Tensor};

use super::Layer;
use crate::init::Init;
use crate::nn::Pass;
use crate::parameters::{self, Scope};

/// y = x · Wᵀ + b over the last dimension, with PyTorch's shapes, names and initialisation.
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

/// What a linear layer may have otherwise.
#[derive(Clone, Copy, Debug)]
pub struct LinearOptions {
    /// Whether a bias is added.
    pub bias: bool,
    /// How the weight begins; PyTorch's default where there is none.
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
    /// A layer whose parameters are registered as `weight` (outputs, inputs) and `bias` (outputs).
    pub fn new(
        scope: &mut Scope<'_>,
        inputs: usize,
        outputs: usize,
    ) -> std::result::Result<Self, parameters::Error> {
        Linear::with(scope, inputs, outputs, LinearOptions::default())
    }

    /// The same with options.
    pub fn with(
        scope: &mut Scope<'_>,
        inputs: usize,
        outputs: usize,
        options: LinearOptions,
    ) -> std::result::Result<Self, parameters::Error> {
        let init = options.init.unwrap_or_else(Init::linear_weight);
        let weight = scope.parameter("weight", &[outputs, inputs], init)?;
        let bias = if options.bias {
            Some(scope.parameter("bias", &[outputs], Init::linear_bias(inputs))?)
        } else {
            None
        };
        Ok(Linear { weight, bias })
    }

    /// From (…, inputs) to (…, outputs).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (outputs, inputs) = self.weight.dims2()?;
        if x.dim(D::Minus1)? != inputs {
            candle_core::bail!("a linear layer of {inputs} inputs was given {:?}", x.dims())
        }
        // One product for all rows: candle's batched ones copy the weight for each batch.
        let y = match x.dims() {
            [_, _] => self.rows(x)?,
            dims => {
                let mut shape = dims.to_vec();
                if let Some(last) = shape.last_mut() {
                    *last = outputs;
                }
                self.rows(&x.reshape(((), inputs))?)?.reshape(shape)?
            }
        };
        Ok(y)
    }

    fn rows(&self, x: &Tensor) -> Result<Tensor> {
        let y = x.matmul(&self.weight.t()?)?;
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}

impl Layer for Linear {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Linear::forward(self, x)
    }
}
