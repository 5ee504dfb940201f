//! Layers in the manifest that treat each element alike: nonlinearities, dropout, factors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::defaults::half;
use crate::Activation;

/// Options of `activation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivationConfig {
    /// Function to apply.
    pub function: Activation,
}

/// Options of `dropout`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropoutConfig {
    /// Fraction of elements set to zero, from 0 to below 1.
    #[serde(default = "half")]
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub share: f64,
}

/// Options of `drop-path`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DropPathConfig {
    /// Fraction of samples set to zero, from 0 to below 1; the others are divided by the rest.
    #[schemars(range(min = 0.0), extend("exclusiveMaximum" = 1.0))]
    pub share: f64,
}

/// Options of `scale`. Its parameter has the layer's own name, of shape (width).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleConfig {
    /// Initial value of the factors.
    #[serde(default = "unit")]
    pub init: f64,
}

fn unit() -> f64 {
    1.0
}
