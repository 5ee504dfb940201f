//! Recurrent layers in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::defaults::{is_false, is_one, is_true, one, yes};

/// Options of `lstm` and `gru`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecurrentConfig {
    /// Length of the state.
    #[schemars(range(min = 1))]
    pub hidden: usize,
    /// Number of layers, each over the states of the one before.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 1000))]
    pub layers: usize,
    /// Whether a second pass goes from the last position to the first; its states follow those of the first pass.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bidirectional: bool,
    /// Whether the gates have biases.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
}
