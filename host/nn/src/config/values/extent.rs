//! Sizes along an image's two dimensions in the manifest: one number for both, or one for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size along the two dimensions of an image: one number for both, or `[down, across]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Extent {
    /// The same size along both.
    Both(#[schemars(range(max = 65_536))] usize),
    /// Height, then width.
    Each(#[schemars(inner(range(max = 65_536)))] [usize; 2]),
}

impl Extent {
    /// Returns (height, width).
    pub fn pair(self) -> (usize, usize) {
        match self {
            Extent::Both(size) => (size, size),
            Extent::Each([down, across]) => (down, across),
        }
    }
}

impl From<usize> for Extent {
    fn from(size: usize) -> Self {
        Extent::Both(size)
    }
}
