//! Embeddings of tokens, categories and positions in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::defaults::is_false;
use crate::InitConfig;

/// Options of `embedding`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingConfig {
    /// Length of the vectors. Default: that of the table that `tied` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub width: Option<usize>,
    /// Rows of the table, at least as many as the data have tokens. Default: as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<usize>,
    /// Name of an input of the batch to read instead of the layer's input, e.g. `token_types`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Token at every position of the layer's input, where the data have no `input` of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<u32>,
    /// Token whose vector starts as zeros and gets no gradient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<u32>,
    /// Full name of an earlier `embedding` or `linear` layer, whose weight is the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tied: Option<String>,
    /// Initialisation of the table. Default: standard normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
}

/// Options of `embed-categories`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbedCategoriesConfig {
    /// Length of the vectors of all columns. Default: 1.6 · categories^0.56, at most 600, for each column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub width: Option<usize>,
    /// Initialisation of the tables. Default: standard normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
}

/// Options of `position-embedding`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PositionEmbeddingConfig {
    /// Rows of the table, at least the length of the input. Default: as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub positions: Option<usize>,
    /// Whether the table is a parameter of the layer's own name and of shape (1, positions, width), instead of `NAME.weight` of shape
    /// (positions, width).
    #[serde(default, skip_serializing_if = "is_false")]
    pub bare: bool,
    /// Initialisation of the table. Default: standard normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
}

/// Options of `mask-tokens`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MaskTokensConfig {
    /// Name of the tensor that a hook publishes: (rows, length), 1 where a position is masked, 0 elsewhere. Default: that of `ibot`.
    pub mask: String,
}

impl Default for MaskTokensConfig {
    fn default() -> Self {
        MaskTokensConfig {
            mask: "ibot.mask".to_owned(),
        }
    }
}
