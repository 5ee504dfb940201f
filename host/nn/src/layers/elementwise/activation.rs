//! Activation functions.

use candle_core::{Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Pass;
use crate::layers::{FusionRole, Layer};
use crate::onnx::{Attribute, Graph, OnnxError, Value};
use crate::ops::{self, Function};

/// An elementwise nonlinearity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// max(x, 0).
    #[default]
    Relu,
    /// x · Φ(x), with the error function (Hendrycks and Gimpel, 2016).
    Gelu,
    /// The approximation of `gelu` by tanh: 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))).
    GeluTanh,
    /// x · σ(1.702 · x).
    QuickGelu,
    /// x · σ(x).
    Silu,
    /// The hyperbolic tangent.
    Tanh,
    /// σ(x) = 1 / (1 + e⁻ˣ).
    Sigmoid,
    /// x, i.e. no nonlinearity.
    Identity,
}

impl Activation {
    /// Returns the name in manifests, which is also the layer's kind as a module.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Gelu => "gelu",
            Activation::GeluTanh => "gelu-tanh",
            Activation::QuickGelu => "quick-gelu",
            Activation::Silu => "silu",
            Activation::Tanh => "tanh",
            Activation::Sigmoid => "sigmoid",
            Activation::Identity => "identity",
        }
    }

    /// Returns our own operation for it, if there is one.
    pub(crate) fn function(self) -> Option<Function> {
        match self {
            Activation::Relu => Some(Function::Relu),
            Activation::Gelu => Some(Function::Gelu),
            Activation::GeluTanh => Some(Function::GeluTanh),
            Activation::QuickGelu => Some(Function::QuickGelu),
            Activation::Silu => Some(Function::Silu),
            Activation::Tanh => Some(Function::Tanh),
            Activation::Sigmoid => Some(Function::Sigmoid),
            Activation::Identity => None,
        }
    }

    /// Applies it to every element.
    pub fn forward(self, x: &Tensor) -> Result<Tensor> {
        match self.function() {
            Some(function) => ops::activated(x, function),
            None => Ok(x.clone()),
        }
    }
}

impl Layer for Activation {
    fn continues(&self) -> bool {
        true
    }

    fn forward(&self, x: &Tensor, _pass: &mut Pass<'_>) -> Result<Tensor> {
        Activation::forward(*self, x)
    }

    fn role(&self) -> FusionRole<'_> {
        FusionRole::Activation(*self)
    }

    fn onnx(&self, graph: &mut Graph, x: &Value) -> std::result::Result<Value, OnnxError> {
        let operator = match self {
            Activation::Relu => "Relu",
            Activation::Gelu => "Gelu",
            Activation::Tanh => "Tanh",
            Activation::Sigmoid => "Sigmoid",
            Activation::Identity => return Ok(x.clone()),
            Activation::GeluTanh => {
                let kind = [("approximate", Attribute::Text("tanh"))];
                return Ok(graph.node("Gelu", &[x], &kind));
            }
            Activation::QuickGelu => {
                let factor = graph.number(1.702);
                let scaled = graph.of_two("Mul", x, &factor);
                let share = graph.node("Sigmoid", &[&scaled], &[]);
                return Ok(graph.of_two("Mul", x, &share));
            }
            Activation::Silu => {
                let share = graph.node("Sigmoid", &[x], &[]);
                return Ok(graph.of_two("Mul", x, &share));
            }
        };
        Ok(graph.node(operator, &[x], &[]))
    }
}
