//! A linear layer of many rows, where each thread has rows of its own.
//!
//! What a thread wrote in the forward pass is in its cache in the backward pass. The forward pass uses tiled
//! multiplications, some rows at a time: the weight is packed into panels once for all threads, rows are read in place,
//! and the activation is applied while they are in cache.

use std::ops::Range;

use super::sizes::LinearSizes;
use crate::elementwise::{Function, KeptValues};
use crate::kernels::region::{self, SharedSlice};
use crate::kernels::{
    Depth, Job, LeftMatrix, Matrix, PANEL, Right, TargetMatrix, UninitBuffer, add_rows, has_tiles,
    multiply, multiply_tiles, transpose_uninit, written, zeros,
};

/// Number of rows below which packing the weight costs more than it saves.
const WORTHWHILE: usize = 128;

/// Rows processed at once: whole tiles, and few enough that threads finish at about the same time.
const AT_ONCE: usize = 96;

/// Threads' rows are cut at multiples of this, where the multiplications' blocks end.
const STEP: usize = 16;

/// A linear layer by tiled multiplication.
#[derive(Clone, Copy)]
pub(super) struct TiledLinear {
    sizes: LinearSizes,
    threads: usize,
}

impl TiledLinear {
    /// A tiled layer, where tiles are supported and pay.
    pub(super) fn of(sizes: LinearSizes) -> Option<TiledLinear> {
        let LinearSizes {
            rows,
            outputs,
            inputs,
        } = sizes;
        let pays = rows >= WORTHWHILE.max(outputs.min(inputs)) && outputs.min(inputs) >= PANEL / 2;
        (pays && has_tiles()).then_some(TiledLinear {
            sizes,
            threads: region::parts(2 * rows * outputs * inputs),
        })
    }

    /// Number of chunks that the rows are processed in.
    fn chunks(&self) -> usize {
        self.sizes.rows.div_ceil(AT_ONCE)
    }

    fn rows(&self, piece: usize) -> Range<usize> {
        piece * AT_ONCE..self.sizes.rows.min((piece + 1) * AT_ONCE)
    }

    /// Packs the weight into panels of outputs, (panels, inputs, [`PANEL`]).
    fn panels(&self, weight: &[f32]) -> Vec<f32> {
        let LinearSizes {
            outputs, inputs, ..
        } = self.sizes;
        let size = inputs * PANEL;
        let count = outputs.div_ceil(PANEL);
        let mut panels = UninitBuffer::new(count * size);
        let places = SharedSlice::new(panels.places());
        let fill = |panel: usize| {
            // SAFETY: each panel is packed by one thread, and panels do not overlap.
            #[expect(unsafe_code, reason = "each panel has its own places")]
            let place = unsafe { places.part(panel * size..(panel + 1) * size) };
            let columns = PANEL.min(outputs - panel * PANEL);
            if columns < PANEL {
                zeros(place);
            }
            let from = &weight[panel * PANEL * inputs..];
            transpose_uninit(from, inputs, (columns, inputs), place, PANEL);
        };
        region::distribute(self.threads, count, || (), |(), panel| fill(panel));
        // SAFETY: every panel was written, with zeros where it has no outputs.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            panels.written()
        }
    }

    /// Computes the outputs, and the function's derivatives where the backward pass needs them.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        function: Option<Function>,
    ) -> (Vec<f32>, Option<Vec<f32>>) {
        let LinearSizes {
            rows,
            outputs,
            inputs,
        } = self.sizes;
        let panels = self.panels(weight);
        let right = Right {
            numbers: &panels,
            panel: inputs * PANEL,
            steps: (0, PANEL),
        };
        let leaves = function.is_some_and(|function| function != Function::Relu);
        let mut y = UninitBuffer::new(rows * outputs);
        let mut kept = UninitBuffer::new(if leaves { rows * outputs } else { 0 });
        let (places, kept_places) = (
            SharedSlice::new(y.places()),
            SharedSlice::new(kept.places()),
        );
        let scratch_size = if function.is_some() && !leaves {
            AT_ONCE * outputs
        } else {
            0
        };
        let room = || UninitBuffer::new(scratch_size);
        region::distribute(self.threads, self.chunks(), room, |scratch, piece| {
            let piece = self.rows(piece);
            let own = piece.start * outputs..piece.end * outputs;
            // SAFETY: each chunk of rows is processed by one thread, and chunks do not overlap.
            #[expect(unsafe_code, reason = "each row has its own places")]
            let (y, kept) = unsafe { (places.part(own.clone()), kept_places.part_if_any(own)) };
            let seen = LeftMatrix {
                numbers: &x[piece.start * inputs..piece.end * inputs],
                row: inputs,
                steps: (0, 1),
            };
            let multiply = |places| {
                let mut target = TargetMatrix::uninit(places, piece.len(), outputs).with_row(bias);
                multiply_tiles(&mut target, Depth::new(inputs), seen, right);
            };
            let Some(function) = function else {
                multiply(y);
                return;
            };
            let product = if leaves {
                kept
            } else {
                &mut scratch.places()[..y.len()]
            };
            multiply(product);
            // SAFETY: the multiplication has written every element.
            #[expect(unsafe_code, reason = "it is written")]
            function.keeping_derivatives(unsafe { written(product) }, y);
        });
        // SAFETY: the chunks cover all rows, each of which was written in `y`, and in `kept` where the function leaves
        // derivatives; elsewhere `kept` is not read.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            (y.written(), leaves.then(|| kept.written()))
        }
    }

    /// Number of threads with rows of their own in the backward pass.
    ///
    /// `None` where a weight's gradient for each takes more memory than the rows do.
    pub(super) fn shares(&self) -> Option<usize> {
        let LinearSizes {
            rows,
            outputs,
            inputs,
        } = self.sizes;
        let shares = self.threads.min(rows / STEP);
        (shares * outputs * inputs <= rows * (outputs + inputs)).then_some(shares)
    }

    /// Computes the gradients of input and weight (each empty if not wanted) and bias.
    ///
    /// There are as many partitions as [`TiledLinear::shares`] says: each thread sums the weight's gradient over its own
    /// rows, which it has read and written before.
    pub(super) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (g, kept): (&[f32], Option<KeptValues<'_, f32>>),
        [of_input, of_weight]: [bool; 2],
        shares: usize,
    ) -> [Vec<f32>; 3] {
        let LinearSizes {
            rows,
            outputs,
            inputs,
        } = self.sizes;
        let size = if of_weight { outputs * inputs } else { 0 };
        let mut x_slopes = UninitBuffer::new(if of_input { rows * inputs } else { 0 });
        // The sums of the first partition become those of all.
        let mut weight_slopes = UninitBuffer::new(size);
        let mut other_sums = UninitBuffer::new(shares.saturating_sub(1) * size);
        let mut bias_sums = vec![0.0; shares * outputs];
        let x_places = SharedSlice::new(x_slopes.places());
        let first_places = SharedSlice::new(weight_slopes.places());
        let other_places = SharedSlice::new(other_sums.places());
        let bias_places = SharedSlice::new(&mut bias_sums);
        region::run(shares, |share| {
            let own = region::range(rows, STEP, share, shares);
            let numbers = own.start * outputs..own.end * outputs;
            let mut g = &g[numbers.clone()];
            let mut before = UninitBuffer::new(if kept.is_some() { g.len() } else { 0 });
            if let Some(kept) = kept {
                kept.gradients(&kept.numbers()[numbers], g, before.places());
                // SAFETY: `gradients` has written every element.
                #[expect(unsafe_code, reason = "they are written")]
                let before = unsafe { before.all_written() };
                g = before;
            }
            let of_output = Matrix::new(g, own.len(), outputs);
            // SAFETY: each partition is processed once, and its sums and rows overlap with no other's.
            #[expect(unsafe_code, reason = "each share has its own sums and rows")]
            let (sums, bias_sums, x_slopes) = unsafe {
                let sums = match share.checked_sub(1) {
                    None => first_places.part(0..size),
                    Some(other) => other_places.part(other * size..(other + 1) * size),
                };
                let bias_sums = bias_places.part_if_any(share * outputs..(share + 1) * outputs);
                let x_slopes =
                    of_input.then(|| x_places.part(own.start * inputs..own.end * inputs));
                (sums, bias_sums, x_slopes)
            };
            let seen = Matrix::new(&x[own.start * inputs..own.end * inputs], own.len(), inputs);
            if of_weight {
                let target = TargetMatrix::uninit(sums, outputs, inputs);
                multiply(&mut Job::new(target, of_output.t(), seen));
            }
            if let Some(x_slopes) = x_slopes {
                let target = TargetMatrix::uninit(x_slopes, own.len(), inputs);
                let weight = Matrix::new(weight, outputs, inputs);
                multiply(&mut Job::new(target, of_output, weight));
            }
            add_rows(bias_sums, g, outputs, 0);
        });
        // SAFETY: every partition has written its sums and rows, which together are all; those not wanted have no
        // elements.
        #[expect(unsafe_code, reason = "they are written")]
        let (x_slopes, mut weight_slopes, other_sums) = unsafe {
            (
                x_slopes.written(),
                weight_slopes.written(),
                other_sums.written(),
            )
        };
        let places = SharedSlice::new(&mut weight_slopes);
        let sharing = if of_weight { shares } else { 0 };
        region::run(sharing, |share| {
            let own = region::range(size, 64, share, shares);
            // SAFETY: `region::range` gives different partitions disjoint ranges.
            #[expect(unsafe_code, reason = "each share has its own places")]
            let sums = unsafe { places.part(own.clone()) };
            if !own.is_empty() {
                add_rows(sums, &other_sums[..], size, own.start);
            }
        });
        let mut bias_slopes = vec![0.0; outputs];
        add_rows(&mut bias_slopes, &bias_sums, outputs, 0);
        [x_slopes, weight_slopes, bias_slopes]
    }
}
