//! Layers over the positions of a sequence: learned vectors for them, one more position, or one of them alone; `mask_tokens`: a learned
//! vector in the place of some.

mod mask_tokens;

use candle_core::{Result, Tensor};

use super::Layer;
use super::embedding::STANDARD_NORMAL;
use crate::init::Init;
use crate::onnx::{Attribute, Graph, OnnxError, Value};
use crate::ops::TokenPositions;
use crate::parameters::{self, ParameterKind, ParameterScope, Parameters};
use crate::{Pass, ops};

pub use mask_tokens::MaskTokens;

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
        let init = init.unwrap_or(STANDARD_NORMAL);
        let weight = scope.parameter("weight", &[positions, width], init)?;
        Ok(PositionEmbedding { weight })
    }

    /// Creates a layer that registers a parameter of this full name, (1, positions, width), by default standard normal.
    pub fn bare(
        parameters: &mut Parameters,
        name: &str,
        positions: usize,
        width: usize,
        init: Option<Init>,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let (init, kind) = (init.unwrap_or(STANDARD_NORMAL), ParameterKind::Parameter);
        let weight = parameters.register(name.to_owned(), &[1, positions, width], init, kind)?;
        Ok(PositionEmbedding { weight })
    }

    /// Maps (…, length, width) to the same shape; the length is at most the table's.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::add_positions(x, &self.table()?)
    }

    /// The vectors (positions, width).
    fn table(&self) -> Result<Tensor> {
        match self.weight.dims() {
            &[1, positions, width] => ops::reshape(&self.weight, (positions, width)),
            _ => Ok(self.weight.clone()),
        }
    }
}

impl Layer for PositionEmbedding {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let &[rows, length, _] = x.dims() else {
            return PositionEmbedding::forward(self, x);
        };
        match pass.token_positions(rows, length)? {
            TokenPositions::From(0) => PositionEmbedding::forward(self, x),
            positions => add_at(x, &self.table()?, &positions),
        }
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let table = graph.weight(&self.weight);
        let length = graph.size(x, 1);
        // (positions, width), or (1, positions, width).
        let dimension = self.weight.rank() as i64 - 2;
        let seen = graph.slice(&table, dimension, 0, &length);
        Ok(graph.of_two("Add", x, &seen))
    }
}

/// Adds rows of a table (positions, width) to the vectors of tokens at these positions, x (rows, length, width).
fn add_at(x: &Tensor, table: &Tensor, positions: &TokenPositions) -> Result<Tensor> {
    let (rows, length, _) = x.dims3()?;
    let numbers: Vec<u32> = match positions {
        TokenPositions::From(first) => {
            let row = (*first..first + length).map(|position| position as u32);
            row.cycle().take(rows * length).collect()
        }
        TokenPositions::Each { positions, .. } => positions.to_vec(),
    };
    let count = table.dim(0)?;
    if let Some(far) = numbers.iter().find(|position| **position as usize >= count) {
        candle_core::bail!(
            "a token at position {far}, of {count} positions that have learned vectors"
        )
    }
    let numbers = Tensor::from_vec(numbers, (rows, length), x.device())?;
    ops::add(x, &ops::embedding(table, &numbers)?)
}

/// Puts a learned vector in front of the positions of a sequence.
#[derive(Clone, Debug)]
pub struct ClassToken {
    token: Tensor,
}

impl ClassToken {
    /// Creates a layer that registers a parameter of this full name, (1, 1, width): zeros.
    pub fn new(
        parameters: &mut Parameters,
        name: &str,
        width: usize,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let kind = ParameterKind::Parameter;
        let token = parameters.register(name.to_owned(), &[1, 1, width], Init::ZEROS, kind)?;
        Ok(ClassToken { token })
    }

    /// Maps (batch, length, width) to (batch, length + 1, width).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::prepended(x, &self.token)
    }
}

impl Layer for ClassToken {
    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        ClassToken::forward(self, x)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let token = graph.weight(&self.token);
        let (batch, one) = (graph.size(x, 0), graph.ints(&[1]));
        let shape = graph.joined(&[batch, one.clone(), one], 0);
        let tokens = graph.of_two("Expand", &token, &shape);
        Ok(graph.joined(&[tokens, x.clone()], 1))
    }
}

/// The vector of one position of each sequence.
#[derive(Clone, Copy, Debug)]
pub enum SelectPosition {
    /// That of this index.
    At(usize),
    /// The last one that is visible in the pass.
    Last,
}

impl SelectPosition {
    /// Maps (batch, length, width) to (batch, width).
    pub fn forward(self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let (rows, length, width) = x.dims3()?;
        match (self, pass.visibility()) {
            (SelectPosition::At(index), _) => ops::position_at(x, index),
            (SelectPosition::Last, None) => ops::position_at(x, length.saturating_sub(1)),
            (SelectPosition::Last, Some(visibility)) => {
                visibility.check(rows, length)?;
                let each = ops::reshape(x, (rows * length, width))?;
                let last = visibility.last_tokens().map(|token| token as u32);
                let last = Tensor::from_vec(last.collect(), rows, x.device())?;
                ops::embedding(&each, &last)
            }
        }
    }
}

impl Layer for SelectPosition {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        SelectPosition::forward(*self, x, pass)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        // Without padding there, the last visible position is the last.
        let index = graph.int(match self {
            SelectPosition::At(index) => *index as i64,
            SelectPosition::Last => -1,
        });
        Ok(graph.node("Gather", &[x, &index], &[("axis", Attribute::Int(1))]))
    }
}
