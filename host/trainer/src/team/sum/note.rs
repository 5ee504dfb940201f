//! What ranks say of their gradients before they sum them.

use serde::{Deserialize, Serialize};

use crate::gradients::{Gradients, TreeNode};

/// A node of a rank, and which parameters have a gradient in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeNote {
    level: u32,
    index: u64,
    /// One bit for each parameter, the first in the lowest bit.
    present: Vec<u8>,
}

impl NodeNote {
    /// Describes a node.
    pub fn of(node: TreeNode, gradients: &Gradients, count: usize) -> NodeNote {
        let mut present = vec![0_u8; count.div_ceil(8)];
        for index in 0..count {
            if gradients.at(index).is_some()
                && let Some(byte) = present.get_mut(index / 8)
            {
                *byte |= 1 << (index % 8);
            }
        }
        NodeNote {
            level: node.level(),
            index: node.index(),
            present,
        }
    }

    /// The node; `None` if there is none of this level and index.
    pub(super) fn node(&self) -> Option<TreeNode> {
        TreeNode::new(self.level, self.index)
    }

    pub(super) fn has(&self, parameter: usize) -> bool {
        let byte = self.present.get(parameter / 8).copied().unwrap_or_default();
        byte >> (parameter % 8) & 1 == 1
    }
}
