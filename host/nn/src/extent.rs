//! Sizes over two dimensions in the manifest: one number for both, or one for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A size over the two dimensions of an image: one number for both, or `[down, across]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Extent {
    /// The same in both.
    Both(#[schemars(range(max = 65_536))] usize),
    /// Down, then across.
    Each(#[schemars(inner(range(max = 65_536)))] [usize; 2]),
}

impl Extent {
    /// (down, across).
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
