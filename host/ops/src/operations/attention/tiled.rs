//! Attention by tiled multiplications that read queries, keys and values, and write gradients, in place.
//!
//! It processes a block of queries at a time, side by side in registers: scores are kept as (keys, queries), so that a
//! softmax works on whole registers and needs no sums within one. Nothing of size (length × length) is ever stored.

use std::mem::MaybeUninit;

use super::sizes::AttentionSizes;
use crate::kernels::fill::SharedSlice;
use crate::kernels::math::Number;
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, UninitBuffer, has_tiles, multiply_tiles, region,
    transpose,
};
use crate::vectorised;

/// Number of queries processed at once.
const BLOCK: usize = 2 * PANEL;

/// Attention by tiled multiplication.
#[derive(Clone, Copy)]
pub(super) struct TiledAttention {
    sizes: AttentionSizes,
    causal: bool,
}

/// A block of queries of a head, from `first` on.
#[derive(Clone, Copy)]
struct Queries {
    head: usize,
    first: usize,
    count: usize,
}

/// Scratch memory for the intermediate results of one block of queries.
struct AttentionScratch {
    /// Transposed queries or gradients of outputs: (width of a head, [`BLOCK`]).
    transposed: Vec<f32>,
    /// Attention weights: (keys, [`BLOCK`]).
    weights: Vec<f32>,
    /// Gradient of the weights.
    gradients: Vec<f32>,
}

/// Start of a head's part of a tensor, and the stride from one position to the next.
///
/// Different heads, and the queries, keys and values of a head, have different elements at every position.
#[derive(Clone, Copy)]
struct HeadLayout {
    start: usize,
    step: usize,
}

impl TiledAttention {
    /// Tiled attention, where the processor supports it.
    pub(super) fn of(sizes: AttentionSizes, causal: bool) -> Option<TiledAttention> {
        has_tiles().then_some(TiledAttention { sizes, causal })
    }

    fn scale(&self) -> f32 {
        (1.0 / (self.sizes.each() as f64).sqrt()) as f32
    }

    /// Queries (0), keys (1) or values (2) of a head.
    fn input(&self, which: usize, head: usize) -> HeadLayout {
        let AttentionSizes {
            length,
            width,
            heads,
            ..
        } = self.sizes;
        let (image, head) = (head / heads, head % heads);
        HeadLayout {
            start: image * length * 3 * width + which * width + head * self.sizes.each(),
            step: 3 * width,
        }
    }

    /// Outputs of a head.
    fn output(&self, head: usize) -> HeadLayout {
        HeadLayout {
            start: self.sizes.output_start(head),
            step: self.sizes.width,
        }
    }

    fn room(&self, with_gradients: bool) -> AttentionScratch {
        let size = self.sizes.length.next_multiple_of(PANEL) * BLOCK;
        AttentionScratch {
            transposed: vec![0.0; self.sizes.each() * BLOCK],
            weights: vec![0.0; size],
            gradients: vec![0.0; if with_gradients { size } else { 0 }],
        }
    }

    /// Calls `work` for all blocks of queries of all heads, those of a head in order on one thread.
    fn each_block(
        &self,
        with_gradients: bool,
        work: impl Fn(Queries, &mut AttentionScratch) + Sync,
    ) {
        let AttentionSizes {
            batch,
            length,
            heads,
            ..
        } = self.sizes;
        let room = || self.room(with_gradients);
        region::distribute(self.sizes.parts(), batch * heads, room, |room, head| {
            for first in (0..length).step_by(BLOCK) {
                let count = BLOCK.min(length - first);
                work(Queries { head, first, count }, room);
            }
        });
    }

    /// Number of keys visible to the queries before `end`.
    fn keys(&self, end: usize) -> usize {
        if self.causal {
            end.min(self.sizes.length)
        } else {
            self.sizes.length
        }
    }

    /// Panels of a block of queries: their start in it, their number of queries, and the number of keys visible to
    /// them.
    fn panels(&self, queries: Queries) -> impl Iterator<Item = (usize, usize, usize)> {
        (0..queries.count).step_by(PANEL).map(move |start| {
            let count = PANEL.min(queries.count - start);
            (start, count, self.keys(queries.first + start + PANEL))
        })
    }

    /// Multiplies a head's keys or values by the queries of a block, or by the gradients of their outputs.
    ///
    /// The latter come from `columns` and are transposed into `transposed`; the result is (keys, [`BLOCK`]).
    fn with_queries(
        &self,
        (positions, of_positions): (&[f32], HeadLayout),
        (columns, of_columns): (&[f32], HeadLayout),
        queries: Queries,
        transposed: &mut [f32],
        products: &mut [f32],
    ) {
        let each = self.sizes.each();
        let Queries { first, count, .. } = queries;
        let from = &columns[of_columns.start + first * of_columns.step..];
        transpose(from, of_columns.step, (count, each), transposed, BLOCK);
        for (start, _, keys) in self.panels(queries) {
            let left = LeftMatrix {
                numbers: &positions[of_positions.start..],
                row: of_positions.step,
                steps: (0, 1),
            };
            let right = Right {
                numbers: &transposed[start..],
                panel: PANEL,
                steps: (0, BLOCK),
            };
            let products = &mut products[start..];
            let mut target = TargetMatrix::replacing_with_step(products, keys, PANEL, BLOCK);
            multiply_tiles(&mut target, Depth::new(each), left, right);
        }
    }

    /// Computes the attention weights of a block of queries, (keys, [`BLOCK`]).
    fn weights(&self, qkv: &[f32], queries: Queries, room: &mut AttentionScratch) {
        let keys = self.input(1, queries.head);
        let own = self.input(0, queries.head);
        let AttentionScratch {
            transposed,
            weights,
            ..
        } = room;
        self.with_queries((qkv, keys), (qkv, own), queries, transposed, weights);
        for (start, _, keys) in self.panels(queries) {
            let seen = if self.causal {
                keys.min(queries.first + start + 1)
            } else {
                keys
            };
            softmax_columns(&mut weights[start..], keys, seen, self.scale());
        }
    }

    /// For each query of a block, the weighted sum of positions: (queries, width of a head).
    fn sums(
        &self,
        weights: &[f32],
        (positions, of_positions): (&[f32], HeadLayout),
        queries: Queries,
        (shared, own): (&SharedSlice<'_, MaybeUninit<f32>>, HeadLayout),
    ) {
        let each = self.sizes.each();
        for (start, count, keys) in self.panels(queries) {
            let left = LeftMatrix {
                numbers: &weights[start..],
                row: 1,
                steps: (0, BLOCK),
            };
            let right = Right {
                numbers: &positions[of_positions.start..],
                panel: PANEL,
                steps: (0, of_positions.step),
            };
            let first = own.start + (queries.first + start) * own.step;
            let dims = (count, each);
            // SAFETY: the rows are positions of this head, `own`, and the columns its elements there, in which no other
            // head has any; a head's blocks are processed one after the other, and this target ends with the loop body.
            #[expect(unsafe_code, reason = "each head has its own elements")]
            let mut target = unsafe { TargetMatrix::shared(shared, first, dims, own.step) };
            multiply_tiles(&mut target, Depth::new(keys), left, right);
        }
    }

    /// For each key visible to a block of queries, the weighted sum over the queries: (keys, width of a head).
    ///
    /// It is added to the sums of the blocks before.
    fn sums_of_queries(
        &self,
        weights: &[f32],
        (numbers, layout): (&[f32], HeadLayout),
        queries: Queries,
        (shared, own): (&SharedSlice<'_, MaybeUninit<f32>>, HeadLayout),
    ) {
        let each = self.sizes.each();
        let all = self.keys(queries.first + queries.count);
        for key in (0..all).step_by(PANEL) {
            let count = PANEL.min(all - key);
            // Queries before these keys don't see them.
            let start = if self.causal {
                key.saturating_sub(queries.first)
            } else {
                0
            };
            let left = LeftMatrix {
                numbers: &weights[key * BLOCK + start..],
                row: BLOCK,
                steps: (0, 1),
            };
            let right = Right {
                numbers: &numbers[layout.start + (queries.first + start) * layout.step..],
                panel: PANEL,
                steps: (0, layout.step),
            };
            let adds = queries.first > if self.causal { key } else { 0 };
            let first = own.start + key * own.step;
            let dims = (count, each);
            // SAFETY: the rows are positions of this head, `own`, and the columns its elements there, in which no other
            // head has any; a head's blocks are processed one after the other, and this target ends with the loop body.
            #[expect(unsafe_code, reason = "each head has its own elements")]
            let target = unsafe { TargetMatrix::shared(shared, first, dims, own.step) };
            #[expect(unsafe_code, reason = "they are written")]
            let mut target = if adds {
                // SAFETY: a head's blocks are processed in order, and there was one before this that saw these keys and
                // wrote their rows: the first one, or with `causal` the one whose queries begin at or before `key`.
                unsafe { target.added() }
            } else {
                target
            };
            multiply_tiles(&mut target, Depth::new(queries.count - start), left, right);
        }
    }

    pub(super) fn forward(&self, qkv: &[f32]) -> Vec<f32> {
        let AttentionSizes {
            batch,
            length,
            width,
            ..
        } = self.sizes;
        let mut y = UninitBuffer::new(batch * length * width);
        let shared = SharedSlice::new(y.slots());
        self.each_block(false, |queries, room| {
            self.weights(qkv, queries, room);
            let values = (qkv, self.input(2, queries.head));
            let own = (&shared, self.output(queries.head));
            self.sums(&room.weights, values, queries, own);
        });
        // SAFETY: `each_block` goes through all queries of all heads of all images, and `sums` has written the elements
        // of each query in its head: together (batch, length, heads, width of a head), which is all of `y`.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            y.written()
        }
    }

    pub(super) fn backward(&self, qkv: &[f32], g: &[f32]) -> Vec<f32> {
        let mut input_gradients = UninitBuffer::new(qkv.len());
        let shared = SharedSlice::new(input_gradients.slots());
        self.each_block(true, |queries, room| {
            let head = queries.head;
            self.weights(qkv, queries, room);
            let [of_queries, of_keys, of_values] = [0, 1, 2].map(|which| self.input(which, head));
            let of_output = self.output(head);
            let AttentionScratch {
                transposed,
                weights,
                gradients,
            } = room;
            self.with_queries(
                (qkv, of_values),
                (g, of_output),
                queries,
                transposed,
                gradients,
            );
            for (start, _, keys) in self.panels(queries) {
                softmax_gradient(
                    &weights[start..],
                    &mut gradients[start..],
                    keys,
                    self.scale(),
                );
            }
            self.sums(gradients, (qkv, of_keys), queries, (&shared, of_queries));
            self.sums_of_queries(gradients, (qkv, of_queries), queries, (&shared, of_keys));
            self.sums_of_queries(weights, (g, of_output), queries, (&shared, of_values));
        });
        // SAFETY: `each_block` goes through all queries of all heads of all images. `sums` has written the gradient of
        // each, and `sums_of_queries` those of the keys and values that any query sees, which are all, since the last
        // query sees all: together (batch, length, 3, heads, width of a head), which is all of the memory.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            input_gradients.written()
        }
    }
}

/// The elements of a panel in one line.
#[inline(always)]
fn line(numbers: &[f32], index: usize) -> [f32; PANEL] {
    let mut line = [0.0; PANEL];
    line.copy_from_slice(&numbers[index * BLOCK..index * BLOCK + PANEL]);
    line
}

vectorised! {
    /// Replaces the columns of a panel of scores, times `scale`, by their softmax.
    ///
    /// Lines are [`BLOCK`] apart. All queries see the first `seen` lines, and each one line more than the query before
    /// it; weights of keys that a query doesn't see are 0.
    fn softmax_columns(scores: &mut [f32], lines: usize, seen: usize, scale: f32) {
        let mut most = [f32::NEG_INFINITY; PANEL];
        for index in 0..lines {
            let mut scores_here = line(scores, index);
            if index >= seen {
                for (lane, x) in scores_here.iter_mut().enumerate() {
                    *x = if lane + seen <= index { f32::NEG_INFINITY } else { *x };
                }
                scores[index * BLOCK..index * BLOCK + PANEL].copy_from_slice(&scores_here);
            }
            for (most, x) in most.iter_mut().zip(scores_here) {
                // A NaN stays: nothing compares as larger.
                *most = if x > *most || x.is_nan() { x } else { *most };
            }
        }
        let mut sums = [0.0; PANEL];
        for index in 0..lines {
            let mut line = line(scores, index);
            for lane in 0..PANEL {
                line[lane] = ((line[lane] - most[lane]) * scale).fast_exp::<FUSED>();
                sums[lane] += line[lane];
            }
            scores[index * BLOCK..index * BLOCK + PANEL].copy_from_slice(&line);
        }
        let sizes = sums.map(|sum| 1.0 / sum);
        for index in 0..lines {
            let line = &mut scores[index * BLOCK..index * BLOCK + PANEL];
            for (x, size) in line.iter_mut().zip(sizes) {
                *x *= size;
            }
        }
    }
}

vectorised! {
    /// Replaces a panel of the gradients g of the weights p by those of the scores, p · (g − Σ g · p) · scale.
    fn softmax_gradient(p: &[f32], g: &mut [f32], lines: usize, scale: f32) {
        let mut means = [0.0; PANEL];
        for index in 0..lines {
            let (p, g) = (line(p, index), line(g, index));
            for lane in 0..PANEL {
                means[lane] += p[lane] * g[lane];
            }
        }
        for index in 0..lines {
            let p = line(p, index);
            let g = &mut g[index * BLOCK..index * BLOCK + PANEL];
            for lane in 0..PANEL {
                g[lane] = p[lane] * (g[lane] - means[lane]) * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Result, Tensor, Var};

    use crate::{attention, normal_numbers};

    #[test]
    fn outputs_and_gradients_are_those_of_double_numbers() -> Result<()> {
        for (batch, length, heads, each, causal) in [
            (2, 64, 4, 32, true),
            (1, 200, 2, 16, true),
            (2, 33, 3, 20, true),
            (1, 150, 1, 40, false),
            (3, 5, 2, 7, false),
            (1, 1, 1, 1, true),
        ] {
            let shape = (batch, length, 3 * heads * each);
            let qkv = normal_numbers(0, shape)?;
            let of = |dtype: DType| -> Result<[Tensor; 2]> {
                let qkv = Var::from_tensor(&qkv.to_dtype(dtype)?)?;
                let y = attention(&qkv, heads, causal)?;
                // Each output has a different weight in the loss.
                let factors =
                    Tensor::arange(0.0, y.elem_count() as f64, &crate::device::for_tests())?
                        .cos()?;
                let factors = factors.reshape(y.shape())?;
                let factors = factors.to_dtype(DType::F32)?.to_dtype(dtype)?;
                let gradients = (&y * factors)?.sum_all()?.backward()?;
                let of_qkv = gradients.get(&qkv).cloned().expect("a gradient");
                Ok([y, of_qkv])
            };
            for (found, exact) in of(DType::F32)?.iter().zip(of(DType::F64)?) {
                let error = (found.to_dtype(DType::F64)? - exact)?;
                let error = error.abs()?.max_all()?.to_scalar::<f64>()?;
                assert!(
                    error < 5e-6,
                    "{length} {heads} {each} {causal}: off by {error}"
                );
            }
        }
        Ok(())
    }
}
