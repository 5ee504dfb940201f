//! The linear layer in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::defaults::is_false;
use crate::InitConfig;

/// Options of `linear`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinearConfig {
    /// Number of outputs. Default: the number that the data's targets need, or the rows of the weight that `tied` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub outputs: Option<usize>,
    /// Whether a bias is added. Default: true, with `tied` false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<bool>,
    /// Full name of an earlier `embedding` or `linear` layer, whose weight this layer uses instead of one of its own: one parameter,
    /// whose gradient is the sum of both layers'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tied: Option<String>,
    /// Whether the weight is stored as (inputs, outputs), as GPT-2's are, instead of (outputs, inputs).
    #[serde(default, skip_serializing_if = "is_false")]
    pub transposed: bool,
    /// Initialisation of the weight. Default: PyTorch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
}
