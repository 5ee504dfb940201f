//! Embeddings of tokens.

use candle_core::{DType, Result, Tensor};

use super::Layer;
use crate::init::Init;
use crate::onnx::{Dimension, ElementType, Graph, OnnxError, Value};
use crate::parameters::{self, ParameterScope};
use crate::{Pass, ops};

/// A learned vector per token, with PyTorch's names and initialisation.
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: Tensor,
    padding: Option<u32>,
}

/// Options of [`Embedding`].
#[derive(Clone, Copy, Debug, Default)]
pub struct EmbeddingOptions {
    /// Initialisation of the table; standard normal if none.
    pub init: Option<Init>,
    /// Token whose vector starts as zeros and gets no gradient.
    pub padding: Option<u32>,
}

impl Embedding {
    /// Creates a layer that registers `weight` (tokens, width), by default standard normal.
    pub fn new(
        scope: &mut ParameterScope<'_>,
        tokens: usize,
        width: usize,
        init: Option<Init>,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let padding = None;
        Embedding::with(scope, tokens, width, EmbeddingOptions { init, padding })
    }

    /// As [`new`](Embedding::new), with options.
    pub fn with(
        scope: &mut ParameterScope<'_>,
        tokens: usize,
        width: usize,
        options: EmbeddingOptions,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let init = options.init.unwrap_or(STANDARD_NORMAL);
        let weight = scope.parameter("weight", &[tokens, width], init)?;
        if let Some(padding) = options.padding {
            clear_row(&weight, padding).map_err(|source| {
                let name = "weight".to_owned();
                parameters::ParametersError::Tensor { name, source }
            })?;
        }
        Ok(Embedding::tied(weight, options))
    }

    /// Creates a layer that uses the weight of another one, (tokens, width), and registers nothing.
    pub fn tied(weight: Tensor, options: EmbeddingOptions) -> Embedding {
        Embedding {
            weight,
            padding: options.padding,
        }
    }

    /// Returns the table.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// Maps token indices (…) to (…, width).
    pub fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        ops::embedding_with(&self.weight, tokens, self.padding)
    }
}

pub(super) const STANDARD_NORMAL: Init = Init::Normal {
    mean: 0.0,
    std: 1.0,
};

/// Sets a row of a registered table to zeros; nothing where tables are only counted.
fn clear_row(table: &Tensor, row: u32) -> Result<()> {
    let (rows, width) = table.dims2()?;
    if !table.is_variable() || row as usize >= rows {
        return Ok(());
    }
    let zeros = Tensor::zeros((1, width), table.dtype(), table.device())?;
    let table = candle_core::Var::from_tensor(table)?;
    table.slice_set(&zeros, 0, row as usize)
}

impl Layer for Embedding {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Embedding::forward(self, x)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let table = graph.weight(&self.weight);
        Ok(graph.of_two("Gather", &table, x))
    }
}

/// Tokens that are read from the batch by a name, instead of the layer's input.
#[derive(Clone, Debug)]
pub(crate) struct NamedTokens {
    pub(crate) name: String,
    /// Token at every position of the layer's input, where the batch has no input of the name.
    pub(crate) default: Option<u32>,
}

impl NamedTokens {
    pub(crate) fn of(self, embedding: Embedding) -> impl Layer + 'static {
        NamedEmbedding {
            tokens: self,
            embedding,
        }
    }
}

struct NamedEmbedding {
    tokens: NamedTokens,
    embedding: Embedding,
}

impl Layer for NamedEmbedding {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let NamedTokens { name, default } = &self.tokens;
        match (pass.named_input(name), default) {
            (Some(tokens), _) => self.embedding.forward(tokens),
            (None, Some(token)) => {
                let tokens = Tensor::full(*token, x.dims(), x.device())?;
                self.embedding.forward(&tokens.to_dtype(DType::U32)?)
            }
            (None, None) => candle_core::bail!("the batch has no input of the name `{name}`"),
        }
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let NamedTokens { name, default } = &self.tokens;
        let tokens = if let Some(token) = default {
            let (zero, token) = (graph.int(0), graph.int(i64::from(*token)));
            let zeros = graph.of_two("Mul", x, &zero);
            graph.of_two("Add", &zeros, &token)
        } else {
            let shape = [Dimension::Free("batch"), Dimension::Free("length")];
            graph.input(name, ElementType::Int, &shape)
        };
        self.embedding.onnx(graph, &tokens)
    }
}
