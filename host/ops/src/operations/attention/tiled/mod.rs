//! Attention by tiled multiplications that read queries, keys and values, and write gradients, in place.
//!
//! It processes a block of queries at a time, side by side in registers: scores are kept as (keys, queries), so that a
//! softmax works on whole registers and needs no sums within one. Nothing of size (queries × keys) is ever stored.
//!
//! **Parts.** `blocks`: the keys that a block of queries needs. `columns`: softmax, its gradient and dropout of a block. `factors`: what
//! is multiplied, rounded to pairs of `bf16` on request ([`Terms`]); scores, softmax and all sums are `f32`. `scratch`: what a thread
//! computes with. This file: products, and their order.
//!
//! **Flow.** 1. A thread takes a head of queries, in the backward pass all those that share a head of keys. 2. If positions are
//! rotary, it turns their queries and keys into its scratch memory. 3. For each block of queries: scores of the visible keys, weights,
//! dropout; then sums of values, or the gradients of all three. 4. In the backward pass gradients of queries and keys are turned back
//! where they lie, and keys that no query has seen get zeros.

mod blocks;
mod columns;
mod factors;
mod scratch;

use std::mem::MaybeUninit;

use super::rotation::Turning;
use super::sizes::{AttentionSizes, Head, HeadLayout, HeadPart, Part, PartLayout};
use crate::kernels::fill::SharedSlice;
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, Terms, UninitBuffer, has_tiles, multiply_tiles,
    region, written, zeros,
};
use crate::options::AttentionTerms;
use blocks::{BLOCK, Block};
use columns::{DroppedColumns, softmax_columns, softmax_gradient, softmax_gradient_dropped};
use factors::{along_keys, along_positions, along_queries, along_width, transposed_block};
use scratch::{BlockScratch, HeadScratch};

/// Attention by tiled multiplication.
pub(super) struct TiledAttention<'t> {
    sizes: AttentionSizes,
    terms: &'t AttentionTerms,
    turning: Option<Turning<'t, f32>>,
    /// Of all products.
    products: Terms,
}

/// Where gradients of queries, keys or values of a head are written, among those of others.
type Target<'a> = (&'a SharedSlice<'a, MaybeUninit<f32>>, HeadLayout);

/// Whether the processor supports tiles, and they pay: not for few queries to many keys.
pub(super) fn pays(sizes: AttentionSizes) -> bool {
    has_tiles() && (sizes.queries == sizes.keys || sizes.queries >= FEW)
}

/// Number of queries from which blocks are not mostly empty.
const FEW: usize = 8;

impl<'t> TiledAttention<'t> {
    pub(super) fn new(
        sizes: AttentionSizes,
        terms: &'t AttentionTerms,
        turning: Option<Turning<'t, f32>>,
        products: Terms,
    ) -> TiledAttention<'t> {
        TiledAttention {
            sizes,
            terms,
            turning,
            products,
        }
    }

    fn scale(&self) -> f32 {
        self.terms.factor(self.sizes.each) as f32
    }

    /// The blocks of queries of a row, in order.
    fn blocks(&self, row: usize) -> impl Iterator<Item = Block> {
        let counts = (self.sizes.queries, self.sizes.keys);
        (0..counts.0)
            .step_by(BLOCK)
            .map(move |first| Block::of(&self.terms.visible, row, first, counts))
    }

    /// What dropout needs of a block of a head, if there is any.
    fn dropped(&self, head: Head, block: &Block) -> Option<DroppedColumns> {
        let dropout = self.terms.dropout.as_ref()?;
        let index = head.row * self.sizes.heads + head.of_queries;
        Some(DroppedColumns::of(dropout, index, block.first))
    }

    /// A head's vectors, turned by the angles of their positions on request.
    fn turned<'a>(
        &self,
        part: HeadPart<'a, f32>,
        row: usize,
        memory: &'a mut Vec<f32>,
    ) -> HeadPart<'a, f32> {
        match &self.turning {
            None => part,
            Some(turning) => turning.turned(part, row, self.sizes.each, memory),
        }
    }

    /// Multiplies a head's keys or values, [`along_width`], by the queries of a block, or by the gradients of their outputs.
    ///
    /// The latter come from `columns` and are transposed into `transposed`; the result is (keys, [`BLOCK`]).
    fn with_queries(
        &self,
        positions: HeadPart<'_, f32>,
        columns: HeadPart<'_, f32>,
        block: &Block,
        (transposed, products, memory): (&mut [f32], &mut [f32], &mut Vec<f32>),
    ) {
        let each = self.sizes.each;
        let from = (columns.from(block.first), columns.step);
        let dims = (block.count, each);
        transposed_block(from, dims, self.products, (&mut *transposed, memory));
        for panel in block.panels() {
            let left = LeftMatrix {
                numbers: positions.from(panel.begin),
                row: positions.step,
                steps: (0, 1),
            };
            let right = Right {
                numbers: &transposed[panel.start..],
                panel: PANEL,
                steps: (0, BLOCK),
            };
            let products = &mut products[block.line(panel.begin) + panel.start..];
            let mut target =
                TargetMatrix::replacing_with_step(products, panel.keys(), PANEL, BLOCK);
            multiply_tiles(&mut target, Depth::of(each, self.products), left, right);
        }
    }

    /// Computes the attention weights of a block of queries, (keys, [`BLOCK`]).
    fn weights(
        &self,
        [queries, keys]: [HeadPart<'_, f32>; 2],
        block: &Block,
        scratch: &mut BlockScratch,
    ) {
        let BlockScratch {
            transposed,
            weights,
            words,
            ..
        } = scratch;
        self.with_queries(keys, queries, block, (transposed, weights, words));
        for panel in block.panels() {
            let scores = &mut weights[block.line(panel.begin) + panel.start..];
            let (begins, ends) = (&panel.begins, &panel.ends);
            softmax_columns(scores, panel.keys(), begins, ends, self.scale());
        }
    }

    /// For each query of a block, the weighted sum of positions, [`along_positions`]: (queries, width of a head).
    fn sums(
        &self,
        (weights, memory): (&[f32], &mut Vec<f32>),
        positions: HeadPart<'_, f32>,
        block: &Block,
        (shared, own): Target<'_>,
    ) {
        let each = self.sizes.each;
        for panel in block.all_panels() {
            let first = own.start + (block.first + panel.start) * own.step;
            if panel.keys() == 0 {
                self.write_zeros(shared, (first, own.step), panel.count);
                continue;
            }
            let weights = &weights[block.line(panel.begin) + panel.start..];
            let seen = (panel.keys(), panel.count);
            let (numbers, step) = along_keys(weights, seen, self.products, memory);
            let left = LeftMatrix {
                numbers,
                row: 1,
                steps: (0, step),
            };
            let right = Right {
                numbers: positions.from(self.products.words(panel.begin)),
                panel: PANEL,
                steps: (0, positions.step),
            };
            let dims = (panel.count, each);
            // SAFETY: the rows are positions of this head, `own`, and the columns its elements there, in which no other
            // head has any; a head's blocks are processed one after the other, and this target ends with the loop body.
            #[expect(unsafe_code, reason = "each head has its own elements")]
            let mut target = unsafe { TargetMatrix::shared(shared, first, dims, own.step) };
            let depth = Depth::of(panel.keys(), self.products);
            multiply_tiles(&mut target, depth, left, right);
        }
    }

    /// For each key visible to a block of queries, the weighted sum over the queries, [`along_positions`]: (keys, width of a head).
    ///
    /// It is added to the sums of the blocks before, if they have `written` those of the same panel of keys.
    fn sums_of_queries(
        &self,
        (weights, memory): (&[f32], &mut Vec<f32>),
        vectors: HeadPart<'_, f32>,
        block: &Block,
        (shared, own): Target<'_>,
        written: &[bool],
    ) {
        let each = self.sizes.each;
        for key in (block.low..block.high).step_by(PANEL) {
            // Queries of a panel that sees none of these keys have no weights.
            let Some((start, end)) = block.queries_of(key) else {
                continue;
            };
            let dims = (PANEL.min(self.sizes.keys - key), each);
            let weights = &weights[block.line(key) + start..];
            let seeing = (dims.0, end - start);
            let (numbers, row) = along_queries(weights, seeing, self.products, memory);
            let left = LeftMatrix {
                numbers,
                row,
                steps: (0, 1),
            };
            let right = Right {
                numbers: vectors.from(self.products.words(block.first + start)),
                panel: PANEL,
                steps: (0, vectors.step),
            };
            let first = own.start + key * own.step;
            // SAFETY: the rows are positions of this head of keys, `own`, and the columns its elements there, in which no
            // other head has any; the blocks of all heads that it serves are processed one after the other, and this
            // target ends with the loop body.
            #[expect(unsafe_code, reason = "each head has its own elements")]
            let target = unsafe { TargetMatrix::shared(shared, first, dims, own.step) };
            #[expect(unsafe_code, reason = "they are written")]
            let mut target = if written[key / PANEL] {
                // SAFETY: a block before has written the rows of this panel of keys: it was noted after its sums.
                unsafe { target.added() }
            } else {
                target
            };
            let depth = Depth::of(end - start, self.products);
            multiply_tiles(&mut target, depth, left, right);
        }
    }

    /// Writes zeros for some positions of a head, the first of which begins at `first`.
    fn write_zeros(
        &self,
        shared: &SharedSlice<'_, MaybeUninit<f32>>,
        (first, step): (usize, usize),
        count: usize,
    ) {
        for index in 0..count {
            let start = first + index * step;
            // SAFETY: these are a head's own elements at one position, and its positions are written one after the other.
            #[expect(unsafe_code, reason = "each head has its own elements")]
            let slots = unsafe { shared.part(start..start + self.sizes.each) };
            zeros(slots);
        }
    }

    /// Turns the gradients of a head's queries or keys back where they lie.
    ///
    /// # Safety
    ///
    /// All of this head's positions are written, and nothing else accesses them.
    #[expect(unsafe_code, reason = "the caller knows what is written")]
    unsafe fn turn_back(&self, turning: &Turning<'_, f32>, row: usize, (shared, own): Target<'_>) {
        for index in 0..self.sizes.queries {
            let start = own.start + index * own.step;
            // SAFETY: by this function's contract nothing else accesses these elements, and they are written.
            let vector = unsafe { written(shared.part(start..start + self.sizes.each)) };
            turning.turn(vector, row, index, true);
        }
    }

    pub(super) fn forward(&self, [q, k, v]: [Part<'_, f32>; 3]) -> Vec<f32> {
        let AttentionSizes {
            batch,
            queries,
            keys,
            heads,
            each,
            ..
        } = self.sizes;
        let (counts, products) = ((keys, each), self.products);
        let mut y = UninitBuffer::new(batch * queries * heads * each);
        let shared = SharedSlice::new(y.slots());
        let layout = self.sizes.output_layout();
        let scratch = || HeadScratch::new(self.sizes, false);
        region::distribute(
            self.sizes.parts(),
            batch * heads,
            scratch,
            |scratch, index| {
                let head = self.sizes.head(index);
                let HeadScratch {
                    queries,
                    keys,
                    words,
                    block: block_scratch,
                    ..
                } = scratch;
                let q = self.turned(q.head(head.row, head.of_queries, each), head.row, queries);
                let k = self.turned(k.head(head.row, head.of_keys, each), head.row, keys);
                let v = v.head(head.row, head.of_keys, each);
                let k = along_width(k, counts, products, &mut words.keys);
                let v = along_positions(v, counts, products, &mut words.values);
                let own = layout.head(head.row, head.of_queries, each);
                for block in self.blocks(head.row) {
                    block_scratch.make_room(&block);
                    self.weights([q, k], &block, block_scratch);
                    if let Some(dropped) = self.dropped(head, &block) {
                        dropped.drop_weights(&block, &mut block_scratch.weights);
                    }
                    let BlockScratch { weights, words, .. } = &mut *block_scratch;
                    self.sums((weights, words), v, &block, (&shared, own));
                }
            },
        );
        // SAFETY: the region goes through all queries of all heads of all rows of the batch, and `sums` has written the
        // elements of each query in its head: together (batch, queries, heads, width of a head), which is all of `y`.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            y.written()
        }
    }

    /// Writes the gradients of queries, keys and values, all elements of these layouts, into `shared`.
    pub(super) fn backward(
        &self,
        [q, k, v]: [Part<'_, f32>; 3],
        g: &[f32],
        (shared, layouts): ([&SharedSlice<'_, MaybeUninit<f32>>; 3], [PartLayout; 3]),
    ) {
        let AttentionSizes {
            batch,
            queries,
            keys,
            kv_heads,
            each,
            ..
        } = self.sizes;
        let (counts, products) = ([(queries, each), (keys, each)], self.products);
        let g = Part {
            numbers: g,
            layout: self.sizes.output_layout(),
        };
        let scratch = || HeadScratch::new(self.sizes, true);
        region::distribute(
            self.sizes.parts(),
            batch * kv_heads,
            scratch,
            |scratch, index| {
                let (row, kv_head) = (index / kv_heads, index % kv_heads);
                let HeadScratch {
                    queries,
                    keys,
                    words,
                    written,
                    block: block_scratch,
                } = scratch;
                written.fill(false);
                let k = self.turned(k.head(row, kv_head, each), row, keys);
                let v = v.head(row, kv_head, each);
                let k_by_positions =
                    along_positions(k, counts[1], products, &mut words.keys_by_positions);
                let k = along_width(k, counts[1], products, &mut words.keys);
                let v = along_width(v, counts[1], products, &mut words.values);
                let of_keys = (shared[1], layouts[1].head(row, kv_head, each));
                let of_values = (shared[2], layouts[2].head(row, kv_head, each));
                for head in self.sizes.served(index) {
                    let q = self.turned(q.head(row, head.of_queries, each), row, queries);
                    let g = g.head(row, head.of_queries, each);
                    let q_by_positions =
                        along_positions(q, counts[0], products, &mut words.queries);
                    let g_by_positions =
                        along_positions(g, counts[0], products, &mut words.gradients);
                    let of_queries = (shared[0], layouts[0].head(row, head.of_queries, each));
                    for block in self.blocks(row) {
                        block_scratch.make_room(&block);
                        self.weights([q, k], &block, block_scratch);
                        let dropped = self.dropped(head, &block);
                        self.gradients_of_scores([v, g], &block, dropped.as_ref(), block_scratch);
                        let BlockScratch {
                            weights,
                            gradients,
                            words,
                            ..
                        } = &mut *block_scratch;
                        let of_scores = (&gradients[..], &mut *words);
                        self.sums(of_scores, k_by_positions, &block, of_queries);
                        let of_scores = (&gradients[..], &mut *words);
                        self.sums_of_queries(of_scores, q_by_positions, &block, of_keys, written);
                        let weights = (&weights[..], &mut *words);
                        self.sums_of_queries(weights, g_by_positions, &block, of_values, written);
                        block.note_written(written);
                    }
                    if let Some(turning) = &self.turning {
                        // SAFETY: `sums` has written all queries of this head, which only this thread has.
                        #[expect(unsafe_code, reason = "they are written")]
                        unsafe {
                            self.turn_back(turning, row, of_queries);
                        }
                    }
                }
                for (panel, _) in written.iter().enumerate().filter(|(_, written)| !**written) {
                    let count = PANEL.min(self.sizes.keys - panel * PANEL);
                    for (shared, own) in [of_keys, of_values] {
                        let first = own.start + panel * PANEL * own.step;
                        self.write_zeros(shared, (first, own.step), count);
                    }
                }
                if let Some(turning) = &self.turning {
                    // SAFETY: `sums_of_queries` and the loop above have written all keys of this head, which only this thread
                    // has.
                    #[expect(unsafe_code, reason = "they are written")]
                    unsafe {
                        self.turn_back(turning, row, of_keys);
                    }
                }
            },
        );
    }

    /// Computes the gradients of a block's scores, and replaces its weights by those that remain after dropout.
    fn gradients_of_scores(
        &self,
        [v, g]: [HeadPart<'_, f32>; 2],
        block: &Block,
        dropped: Option<&DroppedColumns>,
        scratch: &mut BlockScratch,
    ) {
        let BlockScratch {
            transposed,
            weights,
            gradients,
            words,
            ..
        } = scratch;
        if let Some(dropped) = dropped {
            dropped.mark_weights(block, weights);
        }
        self.with_queries(v, g, block, (transposed, gradients, words));
        for panel in block.panels() {
            let start = block.line(panel.begin) + panel.start;
            let (p, g) = (&mut weights[start..], &mut gradients[start..]);
            match dropped {
                None => softmax_gradient(p, g, panel.keys(), self.scale()),
                Some(dropped) => {
                    softmax_gradient_dropped(p, g, panel.keys(), self.scale(), dropped.factor());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
