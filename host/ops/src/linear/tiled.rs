//! A linear layer of many rows, where each thread has rows of its own.
//!
//! What a thread wrote in the forward pass is in its cache in the backward pass. The forward pass uses tiled
//! multiplications, some rows at a time: the weight is packed into panels once for all threads, rows are read in place,
//! and the activation is applied while they are in cache.

use super::sizes::LinearSizes;
use crate::elementwise::{Function, KeptValues};
use crate::kernels::fill::{Rows, Schedule, UninitChunks, UninitRows, fill_parts, fill_parts_with};
use crate::kernels::{
    Depth, LeftMatrix, Matrix, PANEL, Right, UninitBuffer, add_rows, has_tiles,
    multiply_tiles_uninit, multiply_uninit, region, transpose, transpose_whole, write_rows, zeros,
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

    /// Packs the weight into panels of outputs, (panels, inputs, [`PANEL`]).
    fn panels(&self, weight: &[f32]) -> Vec<f32> {
        let LinearSizes {
            outputs, inputs, ..
        } = self.sizes;
        let size = inputs * PANEL;
        let count = outputs.div_ceil(PANEL);
        let schedule = Schedule::of_size(self.threads, count, 1);
        fill_parts(schedule, UninitRows::new(count, size), |panels, slots| {
            write_rows(slots, panels, |panel, slots| {
                let first = panel * PANEL;
                let columns = PANEL.min(outputs - first);
                let (from, dims) = (&weight[first * inputs..], (columns, inputs));
                if columns == PANEL {
                    return transpose_whole(from, inputs, dims, slots);
                }
                let panel = zeros(slots);
                transpose(from, inputs, dims, panel, PANEL);
                panel
            })
        })
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
        let memory = (
            UninitRows::new(rows, outputs),
            UninitRows::new(rows, if leaves { outputs } else { 0 }),
        );
        let scratch_size = if function.is_some() && !leaves {
            AT_ONCE * outputs
        } else {
            0
        };
        let room = || UninitBuffer::new(scratch_size);
        let schedule = Schedule::of_size(self.threads, rows, AT_ONCE);
        let (y, kept) = fill_parts_with(schedule, memory, room, |scratch, rows, (y, kept)| {
            let seen = LeftMatrix {
                numbers: &x[rows.start * inputs..rows.end * inputs],
                row: inputs,
                steps: (0, 1),
            };
            let (dims, depth) = ((rows.len(), outputs), Depth::new(inputs));
            let Some(function) = function else {
                return (
                    multiply_tiles_uninit(y, dims, bias, depth, seen, right),
                    zeros(kept),
                );
            };
            if leaves {
                let kept = multiply_tiles_uninit(kept, dims, bias, depth, seen, right);
                return (function.keeping_derivatives(kept, y), kept);
            }
            let product = &mut scratch.slots()[..y.len()];
            let product = multiply_tiles_uninit(product, dims, bias, depth, seen, right);
            (function.keeping_derivatives(product, y), zeros(kept))
        });
        (y, leaves.then_some(kept))
    }

    /// Number of threads with rows of their own in the backward pass.
    ///
    /// `None` where a weight's gradient for each takes more memory than the rows do.
    pub(super) fn partitions(&self) -> Option<usize> {
        let LinearSizes {
            rows,
            outputs,
            inputs,
        } = self.sizes;
        let partitions = self.threads.min(rows / STEP);
        (partitions * outputs * inputs <= rows * (outputs + inputs)).then_some(partitions)
    }

    /// Computes the gradients of input and weight (each empty if not wanted) and bias.
    ///
    /// There are as many partitions as [`TiledLinear::partitions`] says: each thread sums the weight's gradient over
    /// its own rows, which it has read and written before.
    pub(super) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (g, kept): (&[f32], Option<KeptValues<'_, f32>>),
        [of_input, of_weight]: [bool; 2],
        partitions: usize,
    ) -> [Vec<f32>; 3] {
        let LinearSizes {
            rows,
            outputs,
            inputs,
        } = self.sizes;
        let size = if of_weight { outputs * inputs } else { 0 };
        let mut bias_sums = vec![0.0; partitions * outputs];
        let memory = (
            UninitRows::new(rows, if of_input { inputs } else { 0 }),
            UninitChunks::new(partitions, size),
            Rows::per_chunk(&mut bias_sums, outputs),
        );
        let schedule = Schedule::per_thread(partitions, rows, STEP);
        let (x_gradient, weight_sums, ()) = fill_parts(schedule, memory, |own, parts| {
            let (x_gradient, weight_sums, bias_sums) = parts;
            let outputs_range = own.start * outputs..own.end * outputs;
            let mut g = &g[outputs_range.clone()];
            let mut before = UninitBuffer::new(if kept.is_some() { g.len() } else { 0 });
            if let Some(kept) = kept {
                g = kept.gradients(&kept.numbers()[outputs_range], g, before.slots());
            }
            let of_output = Matrix::new(g, own.len(), outputs);
            let seen = Matrix::new(&x[own.start * inputs..own.end * inputs], own.len(), inputs);
            let weight_sums = if of_weight {
                multiply_uninit(weight_sums, of_output.t(), seen)
            } else {
                zeros(weight_sums)
            };
            let x_gradient = if of_input {
                multiply_uninit(x_gradient, of_output, Matrix::new(weight, outputs, inputs))
            } else {
                zeros(x_gradient)
            };
            add_rows(bias_sums, g, outputs, 0);
            (x_gradient, weight_sums, ())
        });
        // The sums of the first partition become those of all.
        let mut weight_sums = weight_sums.into_iter();
        let mut weight_gradient = weight_sums.next().unwrap_or_default();
        let other_sums = weight_sums.as_slice();
        if of_weight {
            let schedule = Schedule::per_thread(partitions, size, 64);
            fill_parts(schedule, Rows::new(&mut weight_gradient, 1), |own, sums| {
                for other in other_sums.iter().filter(|_| !own.is_empty()) {
                    add_rows(sums, other, size, own.start);
                }
            });
        }
        let mut bias_gradient = vec![0.0; outputs];
        add_rows(&mut bias_gradient, &bias_sums, outputs, 0);
        [x_gradient, weight_gradient, bias_gradient]
    }
}
