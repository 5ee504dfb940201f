//! Pieces of gradients that are copied and added.

use std::ops::Range;

use candle_core::Tensor;

/// One addition of two nodes, each of which has its elements at a place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Number of the node that is added to.
    pub sum: usize,
    /// Number of the node that is added, larger than that of the sum.
    pub added: usize,
    /// Whether the node that is added to has no elements yet: the others are copied there.
    pub is_first: bool,
}

/// A range of elements, and the additions that are made for each of them, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedRange {
    /// The elements, counted from the first of each node.
    pub range: Range<usize>,
    /// The additions.
    pub additions: Vec<Addition>,
}

/// Elements that are copied from one tensor to another on the same GPU.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The tensor that is read, contiguous.
    pub from: &'a Tensor,
    /// Its first element that is read.
    pub from_at: usize,
    /// The tensor that is written, contiguous; nothing else may use these elements at the same time.
    pub to: &'a Tensor,
    /// Its first element that is written.
    pub to_at: usize,
    /// Number of elements.
    pub length: usize,
}
