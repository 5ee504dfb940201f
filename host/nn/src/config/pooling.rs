//! Pooling in the manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::defaults::{is_one_extent, is_zero_extent, one_extent, zero_extent};
use crate::Extent;

/// Options of `max-pool2d` and `avg-pool2d`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// Kernel size.
    pub kernel: Extent,
    /// Step from one window to the next. Default: the kernel size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<Extent>,
    /// Padding on all sides, at most half of the kernel size: zeros for a mean, and never the maximum.
    #[serde(default = "zero_extent", skip_serializing_if = "is_zero_extent")]
    pub padding: Extent,
}

impl PoolConfig {
    /// Windows of this size, side by side.
    pub fn new(kernel: usize) -> PoolConfig {
        PoolConfig {
            kernel: Extent::Both(kernel),
            stride: None,
            padding: zero_extent(),
        }
    }
}

/// Options of `adaptive-max-pool2d` and `adaptive-avg-pool2d`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdaptivePoolConfig {
    /// Number of windows, which is the size of the output.
    #[serde(default = "one_extent", skip_serializing_if = "is_one_extent")]
    pub size: Extent,
}
