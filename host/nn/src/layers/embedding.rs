//! Embeddings of tokens and of positions.

use candle_core::{Result, Tensor};

use super::Layer;
use crate::init::Init;
use crate::parameters::{self, ParameterScope};
use crate::{Pass, ops};

/// A learned vector per token, with PyTorch's names and initialisation.
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: Tensor,
}

impl Embedding {
    /// Creates a layer that registers `weight` (tokens, width), by default standard normal.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        tokens: usize,
        width: usize,
        init: Option<Init>,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let init = init.unwrap_or(Init::Normal {
            mean: 0.0,
            std: 1.0,
        });
        let weight = scope.parameter("weight", &[tokens, width], init)?;
        Ok(Embedding { weight })
    }

    /// Maps token indices (…) to (…, width).
    pub fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        ops::embedding(&self.weight, tokens)
    }
}

impl Layer for Embedding {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Embedding::forward(self, x)
    }
}

/// Adds a learned vector to each position.
#[derive(Clone, Debug)]
pub struct PositionEmbedding {
    weight: Tensor,
}

impl PositionEmbedding {
    /// Creates a layer that registers `weight` (positions, width), by default standard normal.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        positions: usize,
        width: usize,
        init: Option<Init>,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let init = init.unwrap_or(Init::Normal {
            mean: 0.0,
            std: 1.0,
        });
        let weight = scope.parameter("weight", &[positions, width], init)?;
        Ok(PositionEmbedding { weight })
    }

    /// Maps (…, length, width) to the same shape; the length is at most the table's.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::add_positions(x, &self.weight)
    }
}

impl Layer for PositionEmbedding {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        PositionEmbedding::forward(self, x)
    }
}
