//! What a thread computes with.

use super::blocks::{BLOCK, Block};
use crate::kernels::PANEL;
use crate::operations::attention::sizes::AttentionSizes;

/// Scratch memory of a thread.
pub(super) struct HeadScratch {
    /// Queries and keys of a head, turned.
    pub(super) queries: Vec<f32>,
    pub(super) keys: Vec<f32>,
    pub(super) words: HeadWords,
    /// For each panel of keys, whether its gradients are begun.
    pub(super) written: Vec<bool>,
    pub(super) block: BlockScratch,
}

/// A head's vectors in words of pairs; empty without them.
#[derive(Default)]
pub(super) struct HeadWords {
    pub(super) keys: Vec<f32>,
    pub(super) values: Vec<f32>,
    /// In the backward pass.
    pub(super) keys_by_positions: Vec<f32>,
    pub(super) queries: Vec<f32>,
    pub(super) gradients: Vec<f32>,
}

/// Scratch memory for the intermediate results of one block of queries.
pub(super) struct BlockScratch {
    /// Transposed queries or gradients of outputs: (width of a head, [`BLOCK`]).
    pub(super) transposed: Vec<f32>,
    /// Attention weights: (keys, [`BLOCK`]).
    pub(super) weights: Vec<f32>,
    /// Gradient of the weights; empty in the forward pass.
    pub(super) gradients: Vec<f32>,
    /// What is multiplied next, in words of pairs.
    pub(super) words: Vec<f32>,
    has_gradients: bool,
}

impl HeadScratch {
    pub(super) fn new(sizes: AttentionSizes, has_gradients: bool) -> HeadScratch {
        HeadScratch {
            queries: Vec::new(),
            keys: Vec::new(),
            words: HeadWords::default(),
            written: vec![false; sizes.keys.div_ceil(PANEL)],
            block: BlockScratch {
                transposed: vec![0.0; sizes.each * BLOCK],
                weights: Vec::new(),
                gradients: Vec::new(),
                words: Vec::new(),
                has_gradients,
            },
        }
    }
}

impl BlockScratch {
    /// Makes room for the keys that a block needs.
    pub(super) fn make_room(&mut self, block: &Block) {
        let size = block.room();
        if self.weights.len() < size {
            self.weights.resize(size, 0.0);
        }
        if self.has_gradients && self.gradients.len() < size {
            self.gradients.resize(size, 0.0);
        }
    }
}
