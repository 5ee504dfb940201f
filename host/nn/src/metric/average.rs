//! Averaging of a metric that there is for each class.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Averaging of a per-class metric over the classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Average {
    /// Every class that occurs has the same weight.
    #[default]
    Macro,
    /// Every sample or position has the same weight; the metric's name ends in `_micro`.
    Micro,
}
