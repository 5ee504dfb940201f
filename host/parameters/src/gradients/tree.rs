//! Sums along a binary tree over the batches of an update.
//!
//! The leaves are the batches, by their index in the update; the node at level `l` with index `i` is the sum of the
//! leaves from `i · 2ˡ` to below `(i + 1) · 2ˡ`. A leaf may be missing (its batch was skipped): then the sum of a pair is
//! the other one. So the order of additions, and with it every bit of the sum, depends on the batches alone, whoever
//! computes which part of it: the sum of one process is that of any number of ranks.

use candle_core::Result;

use super::Gradients;

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeNode {
    /// Its first leaf.
    first: u64,
    /// It is the sum of 2^level leaves.
    level: u32,
}

impl TreeNode {
    /// Highest level of a node.
    pub const HIGHEST: u32 = 62;

    /// The leaf with this index.
    pub fn leaf(index: u64) -> TreeNode {
        TreeNode {
            first: index,
            level: 0,
        }
    }

    /// The node of this level and index; `None` if there is none.
    pub fn new(level: u32, index: u64) -> Option<TreeNode> {
        let width = 1_u64
            .checked_shl(level)
            .filter(|_| level <= Self::HIGHEST)?;
        let first = index.checked_mul(width)?;
        first.checked_add(width)?;
        Some(TreeNode { first, level })
    }

    /// Level of the node: it is the sum of 2^level leaves.
    pub fn level(self) -> u32 {
        self.level
    }

    /// Index of the node at its level.
    pub fn index(self) -> u64 {
        self.first >> self.level
    }

    /// The node of which this one is a child.
    fn parent(self) -> TreeNode {
        let level = self.level + 1;
        TreeNode {
            first: self.first >> level << level,
            level,
        }
    }

    /// Whether a node lies below this one, or is the same.
    fn contains(self, other: TreeNode) -> bool {
        other.level <= self.level && other.first >> self.level == self.first >> self.level
    }
}

/// The additions that sum up nodes, in order: in each, the second is added to the first. The sum is in the first node.
///
/// `nodes` are in the order of their leaves, and none lies below another.
pub fn additions(nodes: &[TreeNode]) -> Vec<(usize, usize)> {
    let mut found = Vec::with_capacity(nodes.len().saturating_sub(1));
    // A stack of sums not yet added to their siblings: the node that each stands for, and its place.
    let mut open: Vec<(TreeNode, usize)> = Vec::new();
    for (place, &node) in nodes.iter().enumerate() {
        // What lies left of this node and meets it further up must wait; the rest is complete.
        while let [.., (left, to), (right, from)] = open.as_slice() {
            let (left, right, to, from) = (*left, *right, *to, *from);
            let meet = meeting(left, right);
            if meet.contains(node) || meeting(right, node).level < meet.level {
                break;
            }
            found.push((to, from));
            open.truncate(open.len() - 2);
            open.push((meet, to));
        }
        open.push((node, place));
    }
    while let [.., (left, to), (right, from)] = open.as_slice() {
        let (meet, to, from) = (meeting(*left, *right), *to, *from);
        found.push((to, from));
        open.truncate(open.len() - 2);
        open.push((meet, to));
    }
    found
}

/// The lowest node that contains both.
fn meeting(left: TreeNode, right: TreeNode) -> TreeNode {
    let mut node = left;
    while !node.contains(right) && node.level < TreeNode::HIGHEST {
        node = node.parent();
    }
    node
}

/// The gradients of an update's batches so far, as sums of the tree's nodes: of n successive batches, at most
/// 2 · log₂ n + 1 sets.
#[derive(Debug, Default)]
pub struct GradientTree {
    nodes: Vec<(TreeNode, Gradients)>,
}

impl GradientTree {
    /// Adds a batch's gradients. Batches come in the order of their indices.
    ///
    /// # Errors
    ///
    /// If gradients can't be added.
    pub fn add(&mut self, index: u64, gradients: Gradients) -> Result<()> {
        self.nodes.push((TreeNode::leaf(index), gradients));
        while let [.., (left, _), (right, _)] = self.nodes.as_slice() {
            let (left, right) = (*left, *right);
            if left.level != right.level || left.parent() != right.parent() {
                break;
            }
            let Some((_, added)) = self.nodes.pop() else {
                break;
            };
            if let Some((node, sum)) = self.nodes.last_mut() {
                sum.accumulate(&added)?;
                *node = left.parent();
            }
        }
        Ok(())
    }

    /// Puts in a node that was taken out earlier; nodes come in the order of their leaves.
    pub fn put(&mut self, node: TreeNode, gradients: Gradients) {
        self.nodes.push((node, gradients));
    }

    /// The nodes with their sums, in the order of their leaves.
    pub fn nodes(&self) -> &[(TreeNode, Gradients)] {
        &self.nodes
    }

    /// Whether there are no gradients.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Takes the nodes out, in the order of their leaves.
    pub fn take(&mut self) -> Vec<(TreeNode, Gradients)> {
        std::mem::take(&mut self.nodes)
    }

    /// Takes the sum of all gradients out; `None` if there are none.
    ///
    /// # Errors
    ///
    /// If gradients can't be added.
    pub fn take_sum(&mut self) -> Result<Option<Gradients>> {
        // Of most updates there is one node, and nothing to be added: no memory is allocated for it.
        if self.nodes.len() < 2 {
            return Ok(self.nodes.pop().map(|(_, sum)| sum));
        }
        let (nodes, gradients): (Vec<_>, Vec<_>) = self.take().into_iter().unzip();
        let mut gradients: Vec<_> = gradients.into_iter().map(Some).collect();
        for (to, from) in additions(&nodes) {
            let added = gradients.get_mut(from).and_then(Option::take);
            if let (Some(Some(sum)), Some(added)) = (gradients.get_mut(to), added) {
                sum.accumulate(&added)?;
            }
        }
        Ok(gradients.into_iter().next().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum's expression by the definition, from the leaves that are there.
    fn defined(level: u32, index: u64, leaves: &[u64]) -> Option<String> {
        let node = TreeNode::new(level, index).expect("a node");
        if !leaves
            .iter()
            .any(|&leaf| node.contains(TreeNode::leaf(leaf)))
        {
            return None;
        }
        if level == 0 {
            return Some(index.to_string());
        }
        let left = defined(level - 1, 2 * index, leaves);
        let right = defined(level - 1, 2 * index + 1, leaves);
        match (left, right) {
            (Some(left), Some(right)) => Some(format!("({left}+{right})")),
            (left, right) => left.or(right),
        }
    }

    /// The expression of a sum of nodes.
    fn summed(nodes: Vec<(TreeNode, String)>) -> Option<String> {
        let (nodes, mut texts): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        for (to, from) in additions(&nodes) {
            texts[to] = format!("({}+{})", texts[to], texts[from]);
        }
        texts.into_iter().next()
    }

    /// The nodes that one rank has after these leaves.
    fn of_block(leaves: &[u64]) -> Vec<(TreeNode, String)> {
        let mut nodes: Vec<(TreeNode, String)> = Vec::new();
        for &leaf in leaves {
            nodes.push((TreeNode::leaf(leaf), leaf.to_string()));
            while let [.., (left, _), (right, _)] = nodes.as_slice() {
                let (left, right) = (*left, *right);
                if left.level != right.level || left.parent() != right.parent() {
                    break;
                }
                let (_, added) = nodes.pop().expect("two");
                let (node, sum) = nodes.last_mut().expect("one");
                *sum = format!("({sum}+{added})");
                *node = left.parent();
            }
        }
        nodes
    }

    #[test]
    fn the_order_of_additions_is_that_of_the_tree_for_any_division_into_blocks() {
        for count in 1..20_u64 {
            for missing in [u64::MAX, 0, 1, 5, 6, count - 1] {
                let leaves: Vec<u64> = (0..count).filter(|&leaf| leaf != missing).collect();
                let expected = defined(5, 0, &leaves);
                for block in 1..=count as usize {
                    let blocks = (0..count).collect::<Vec<_>>();
                    let nodes = blocks.chunks(block).flat_map(|block| {
                        let own: Vec<u64> = block
                            .iter()
                            .copied()
                            .filter(|&leaf| leaf != missing)
                            .collect();
                        of_block(&own)
                    });
                    let found = summed(nodes.collect());
                    assert_eq!(found, expected, "{count} leaves, blocks of {block}");
                }
            }
        }
    }

    #[test]
    fn nodes_are_those_of_their_level_and_index() {
        let node = TreeNode::new(2, 3).expect("a node");
        assert_eq!((node.level(), node.index(), node.first), (2, 3, 12));
        assert_eq!(TreeNode::new(63, 0), None);
        assert_eq!(TreeNode::new(62, 4), None);
        assert_eq!(meeting(TreeNode::leaf(3), TreeNode::leaf(4)).level, 3);
    }
}
