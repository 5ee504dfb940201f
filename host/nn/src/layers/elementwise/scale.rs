//! A learned factor for each element of a vector.

use candle_core::{Result, Tensor};

use crate::init::Init;
use crate::layers::Layer;
use crate::onnx::{Graph, OnnxError, Value};
use crate::parameters::{self, ParameterKind, Parameters};
use crate::{Pass, ops};

/// Multiplies the last dimension by learned factors (Touvron et al., 2021, as layer scale).
#[derive(Clone, Debug)]
pub struct Scale {
    factors: Tensor,
}

impl Scale {
    /// Creates a layer that registers a parameter of this full name, (width), with `init` as each of its elements.
    pub fn new(
        parameters: &mut Parameters,
        name: &str,
        width: usize,
        init: f64,
    ) -> std::result::Result<Self, parameters::ParametersError> {
        let (init, kind) = (Init::Constant(init), ParameterKind::Parameter);
        let factors = parameters.register(name.to_owned(), &[width], init, kind)?;
        Ok(Scale { factors })
    }

    /// Maps (…, width) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::columns_times(x, &self.factors)
    }
}

impl Layer for Scale {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Scale::forward(self, x)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let factors = graph.weight(&self.factors);
        Ok(graph.of_two("Mul", x, &factors))
    }
}
