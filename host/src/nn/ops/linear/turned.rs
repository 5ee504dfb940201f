//! A linear layer of few rows on its way forward: its outputs as rows, in products of tiles.
//!
//! The weight is larger than the rows here, and is read where it lies: the rows are brought into panels instead,
//! and what comes out is turned at the end, with bias and function.

use super::Sizes;
use super::tiled::panels;
use crate::kernels::region::{self, Shared};
use crate::kernels::{
    Depth, Fresh, Left, PANEL, Right, Target, has_tiles, multiply_tiles, transpose, vectorised,
    zeros,
};
use crate::nn::ops::elementwise::Function;

/// Outputs that are done at once: whole tiles, and few enough for threads to end at about the same time.
const AT_ONCE: usize = 48;

/// Rows that are turned at once.
const TURNED: usize = 16;

/// A linear layer that is done so.
#[derive(Clone, Copy)]
pub(super) struct Turned {
    sizes: Sizes,
    threads: usize,
}

impl Turned {
    /// Where products in tiles are there, and pay.
    pub(super) fn of(sizes: Sizes) -> Option<Turned> {
        let Sizes {
            rows,
            outputs,
            inputs,
        } = sizes;
        let pays = rows > PANEL / 2 && outputs >= 2 * rows.max(PANEL) && inputs >= PANEL;
        (pays && has_tiles()).then_some(Turned {
            sizes,
            threads: region::parts(2 * rows * outputs * inputs),
        })
    }

    /// The outputs, and what the function was given, where its gradient can't be told from what it gave.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        function: Option<Function>,
    ) -> (Vec<f32>, Option<Vec<f32>>) {
        let Sizes { rows, outputs, .. } = self.sizes;
        let turned = self.product(x, weight);
        let is_kept = function.is_some_and(|function| function != Function::Relu);
        let mut y = Fresh::new(rows * outputs);
        let mut before = Fresh::new(if is_kept { rows * outputs } else { 0 });
        let (places, before_places) = (Shared::new(y.places()), Shared::new(before.places()));
        let scratch_size = if function.is_some() && !is_kept {
            TURNED * outputs
        } else {
            0
        };
        let room = || vec![0.0; scratch_size];
        let pieces = rows.div_ceil(TURNED);
        let threads = region::parts(8 * rows * outputs);
        region::take_turns(threads, pieces, room, |scratch, piece| {
            let first = piece * TURNED;
            let count = TURNED.min(rows - first);
            let own = first * outputs..(first + count) * outputs;
            // SAFETY: each piece is done by one thread.
            #[expect(unsafe_code, reason = "each row has its own places")]
            let (y, kept) = unsafe { (places.part(own.clone()), before_places.part(own)) };
            let fill = |rows_here: &mut [f32]| {
                transpose(&turned[first..], rows, (outputs, count), rows_here, outputs);
                if let Some(bias) = bias {
                    for row in rows_here.chunks_exact_mut(outputs) {
                        add(row, bias);
                    }
                }
            };
            let Some(function) = function else {
                fill(zeros(y));
                return;
            };
            let product = if is_kept {
                zeros(kept)
            } else {
                &mut scratch[..count * outputs]
            };
            fill(product);
            function.of(product, y);
        });
        // SAFETY: every row was written.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            (y.written(), is_kept.then(|| before.written()))
        }
    }

    /// The weight's product with the rows, (outputs, rows).
    fn product(&self, x: &[f32], weight: &[f32]) -> Vec<f32> {
        let Sizes {
            rows,
            outputs,
            inputs,
        } = self.sizes;
        let columns = panels(x, (rows, inputs), self.threads);
        let right = Right {
            numbers: &columns,
            panel: inputs * PANEL,
            steps: (0, PANEL),
        };
        let mut turned = Fresh::new(outputs * rows);
        let places = Shared::new(turned.places());
        let pieces = outputs.div_ceil(AT_ONCE);
        let work = |piece: usize| {
            let own = piece * AT_ONCE..outputs.min((piece + 1) * AT_ONCE);
            // SAFETY: each piece is done by one thread.
            #[expect(unsafe_code, reason = "each output has its own places")]
            let places = unsafe { places.part(own.start * rows..own.end * rows) };
            let left = Left {
                numbers: &weight[own.start * inputs..own.end * inputs],
                row: inputs,
                steps: (0, 1),
            };
            let mut target = Target::fresh(places, own.len(), rows);
            multiply_tiles(&mut target, Depth::new(inputs), left, right);
        };
        region::take_turns(self.threads, pieces, || (), |(), piece| work(piece));
        // SAFETY: every output was written.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            turned.written()
        }
    }
}

vectorised! {
    fn add(row: &mut [f32], more: &[f32]) {
        for (x, &more) in row.iter_mut().zip(more) {
            *x += more;
        }
    }
}
