//! Convolutions in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::defaults::{
    is_one, is_one_extent, is_true, is_zero_extent, one, one_extent, yes, zero_extent,
};
use crate::{Extent, InitConfig};

/// Options of `conv1d`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conv1dConfig {
    /// Number of output channels.
    #[schemars(range(min = 1))]
    pub channels: usize,
    /// Kernel size.
    #[schemars(range(min = 1))]
    pub kernel: usize,
    /// Step from one window to the next.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub stride: usize,
    /// Zeros added on both sides.
    #[serde(default)]
    pub padding: usize,
    /// Step from one kernel element to the next.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub dilation: usize,
    /// Number of groups into which the channels are divided.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub groups: usize,
    /// Whether a bias is added.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
    /// Initialisation of the weight. Default: PyTorch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
}

/// Options of `conv2d`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conv2dConfig {
    /// Number of output channels.
    #[schemars(range(min = 1))]
    pub channels: usize,
    /// Kernel size.
    pub kernel: Extent,
    /// Step from one window to the next.
    #[serde(default = "one_extent", skip_serializing_if = "is_one_extent")]
    pub stride: Extent,
    /// Zeros added on all sides.
    #[serde(default = "zero_extent", skip_serializing_if = "is_zero_extent")]
    pub padding: Extent,
    /// Step from one kernel element to the next.
    #[serde(default = "one_extent", skip_serializing_if = "is_one_extent")]
    pub dilation: Extent,
    /// Number of groups into which the channels are divided.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub groups: usize,
    /// Whether a bias is added.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
    /// Initialisation of the weight. Default: PyTorch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
}

impl Conv2dConfig {
    /// A convolution with the defaults of its other options.
    pub fn new(channels: usize, kernel: usize) -> Conv2dConfig {
        Conv2dConfig {
            channels,
            kernel: Extent::Both(kernel),
            stride: one_extent(),
            padding: zero_extent(),
            dilation: one_extent(),
            groups: 1,
            bias: true,
            init: None,
        }
    }
}

/// Options of `conv-transpose2d`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConvTranspose2dConfig {
    /// Number of output channels.
    #[schemars(range(min = 1))]
    pub channels: usize,
    /// Kernel size.
    pub kernel: Extent,
    /// Step from one window of the output to the next.
    #[serde(default = "one_extent", skip_serializing_if = "is_one_extent")]
    pub stride: Extent,
    /// Elements that are left out on all sides of the output.
    #[serde(default = "zero_extent", skip_serializing_if = "is_zero_extent")]
    pub padding: Extent,
    /// Rows and columns that are added after the last windows, fewer than the stride.
    #[serde(default = "zero_extent", skip_serializing_if = "is_zero_extent")]
    pub output_padding: Extent,
    /// Step from one kernel element to the next.
    #[serde(default = "one_extent", skip_serializing_if = "is_one_extent")]
    pub dilation: Extent,
    /// Number of groups into which the channels are divided.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub groups: usize,
    /// Whether a bias is added.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
    /// Initialisation of the weight. Default: PyTorch's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<InitConfig>,
}

/// Options of `upsample`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpsampleConfig {
    /// Factor by which images become larger.
    pub factor: Extent,
    /// How the elements in between are found.
    #[serde(default)]
    pub mode: UpsampleMode,
}

/// How the elements of an enlarged image are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpsampleMode {
    /// The nearest element.
    #[default]
    Nearest,
    /// Between the two nearest along each dimension, as PyTorch's without `align_corners`.
    Bilinear,
}
