//! Normalisations in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::defaults::epsilon;

/// Options of `batch-norm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchNormConfig {
    /// Weight of a batch's statistics when the running ones are updated.
    #[serde(default = "momentum")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub momentum: f64,
    /// Constant added to the variance; above 0.
    #[serde(default = "epsilon")]
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub epsilon: f64,
}

impl Default for BatchNormConfig {
    fn default() -> Self {
        BatchNormConfig {
            momentum: momentum(),
            epsilon: epsilon(),
        }
    }
}

/// Options of `group-norm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupNormConfig {
    /// Number of groups; the channels must be a multiple of it.
    #[schemars(range(min = 1))]
    pub groups: usize,
    /// Constant added to the variance; above 0.
    #[serde(default = "epsilon")]
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub epsilon: f64,
}

/// Options of `layer-norm` and `rms-norm`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NormConfig {
    /// Constant added to the variance, or to the mean square; above 0.
    #[serde(default = "epsilon")]
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub epsilon: f64,
}

fn momentum() -> f64 {
    0.1
}
