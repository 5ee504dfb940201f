//! Layers in the manifest that rearrange elements, or leave some out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of `reshape`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReshapeConfig {
    /// New shape of a sample.
    #[schemars(length(min = 1, max = 5), inner(range(min = 1)))]
    pub shape: Vec<usize>,
}

/// Options of `transpose`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransposeConfig {
    /// For each dimension of the output the one of the input, from 0, without the batch's: `[1, 2, 0]` makes (height, width, channels) of
    /// (channels, height, width). Default: the last two change places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 5))]
    pub axes: Option<Vec<usize>>,
}

/// Options of `select`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SelectConfig {
    /// Position to select.
    pub at: SelectedPosition,
}

/// A position of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SelectedPosition {
    /// The position of this index, from 0.
    Index(usize),
    /// A position by its name.
    Named(NamedPosition),
}

/// The name of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NamedPosition {
    /// The last position that is not padding.
    Last,
}
