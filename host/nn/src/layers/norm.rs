//! Normalisation of each position: layer norm and RMS norm.

use candle_core::{Result, Tensor};

use super::Layer;
use crate::init::Init;
use crate::parameters::{self, ParameterScope};
use crate::{Pass, ops};

/// Layer normalisation over the last dimension (Ba et al., 2016).
#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    epsilon: f64,
}

impl LayerNorm {
    /// Creates a layer that registers `weight` (ones) and `bias` (zeros). PyTorch's ε is 1e-5.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        width: usize,
        epsilon: f64,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        Ok(LayerNorm {
            weight: scope.parameter("weight", &[width], Init::ONES)?,
            bias: scope.parameter("bias", &[width], Init::ZEROS)?,
            epsilon,
        })
    }

    /// Maps (…, width) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::layer_norm(x, &self.weight, &self.bias, self.epsilon)
    }
}

impl Layer for LayerNorm {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        LayerNorm::forward(self, x)
    }
}

/// Root mean square normalisation over the last dimension (Zhang and Sennrich, 2019).
#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: Tensor,
    epsilon: f64,
}

impl RmsNorm {
    /// Creates a layer that registers `weight` (ones).
    pub fn new(
        scope: &mut ParameterScope<'_>,
        width: usize,
        epsilon: f64,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        Ok(RmsNorm {
            weight: scope.parameter("weight", &[width], Init::ONES)?,
            epsilon,
        })
    }

    /// Maps (…, width) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::rms_norm(x, &self.weight, self.epsilon)
    }
}

impl Layer for RmsNorm {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        RmsNorm::forward(self, x)
    }
}
