//! Activation functions.

use candle_core::{Result, Tensor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The nonlinearity between layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// max(x, 0).
    #[default]
    Relu,
    /// x · Φ(x), with the error function (Hendrycks and Gimpel, 2016).
    Gelu,
    /// x · σ(x).
    Silu,
    /// The hyperbolic tangent.
    Tanh,
    /// σ(x) = 1 / (1 + e⁻ˣ).
    Sigmoid,
}

impl Activation {
    /// Its name in manifests, which is also its kind as a module.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Relu => "relu",
            Activation::Gelu => "gelu",
            Activation::Silu => "silu",
            Activation::Tanh => "tanh",
            Activation::Sigmoid => "sigmoid",
        }
    }

    /// Applies it to every element.
    pub fn forward(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Activation::Relu => x.relu(),
            Activation::Gelu => x.gelu_erf(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
            // By way of tanh: 1 / (1 + e⁻ˣ) overflows for x far below zero.
            Activation::Sigmoid => x.affine(0.5, 0.0)?.tanh()?.affine(0.5, 0.5),
        }
    }
}
