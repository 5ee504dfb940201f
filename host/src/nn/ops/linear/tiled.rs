//! A linear layer of many rows on its way forward: some rows at a time in products of tiles, by whichever thread is ready.
//!
//! The weight is brought into panels once for all threads; rows are read where they lie, and what follows the
//! product is done while they are in a core's own cache.

use std::ops::Range;

use super::Sizes;
use crate::kernels::region::{self, Shared};
use crate::kernels::{
    Depth, Fresh, Left, PANEL, Right, Target, has_tiles, multiply_tiles, transpose, written, zeros,
};
use crate::nn::ops::elementwise::Function;

/// Rows below which the weight's panels cost more than they bring.
const WORTHWHILE: usize = 128;

/// Rows that are done at once: whole tiles, and few enough for threads to end at about the same time.
const AT_ONCE: usize = 96;

/// A linear layer that is done so.
#[derive(Clone, Copy)]
pub(super) struct Tiled {
    sizes: Sizes,
    threads: usize,
}

impl Tiled {
    /// Where products in tiles are there, and pay.
    pub(super) fn of(sizes: Sizes) -> Option<Tiled> {
        let Sizes {
            rows,
            outputs,
            inputs,
        } = sizes;
        let pays = rows >= WORTHWHILE.max(outputs.min(inputs)) && outputs.min(inputs) >= PANEL / 2;
        (pays && has_tiles()).then_some(Tiled {
            sizes,
            threads: region::parts(2 * rows * outputs * inputs),
        })
    }

    /// How many pieces the rows are done in.
    fn pieces(&self) -> usize {
        self.sizes.rows.div_ceil(AT_ONCE)
    }

    fn rows(&self, piece: usize) -> Range<usize> {
        piece * AT_ONCE..self.sizes.rows.min((piece + 1) * AT_ONCE)
    }

    /// The weight as panels of outputs, (panels, inputs, [`PANEL`]).
    fn panels(&self, weight: &[f32]) -> Vec<f32> {
        let Sizes {
            outputs, inputs, ..
        } = self.sizes;
        let size = inputs * PANEL;
        let count = outputs.div_ceil(PANEL);
        let mut panels = Fresh::new(count * size);
        let places = Shared::new(panels.places());
        let fill = |panel: usize| {
            // SAFETY: each panel is filled by one thread.
            #[expect(unsafe_code, reason = "each panel has its own places")]
            let place = zeros(unsafe { places.part(panel * size..(panel + 1) * size) });
            let columns = PANEL.min(outputs - panel * PANEL);
            let from = &weight[panel * PANEL * inputs..];
            transpose(from, inputs, (columns, inputs), place, PANEL);
        };
        region::share_out(self.threads, count, || (), |(), panel| fill(panel));
        // SAFETY: every panel was written.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            panels.written()
        }
    }

    /// The outputs, and what the function was given, where its gradient can't be told from what it gave.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
        function: Option<Function>,
    ) -> (Vec<f32>, Option<Vec<f32>>) {
        let Sizes {
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
        let is_kept = function.is_some_and(|function| function != Function::Relu);
        let mut y = Fresh::new(rows * outputs);
        let mut before = Fresh::new(if is_kept { rows * outputs } else { 0 });
        let (places, before_places) = (Shared::new(y.places()), Shared::new(before.places()));
        let scratch_size = if function.is_some() && !is_kept {
            AT_ONCE * outputs
        } else {
            0
        };
        let room = || Fresh::new(scratch_size);
        region::share_out(self.threads, self.pieces(), room, |scratch, piece| {
            let piece = self.rows(piece);
            let own = piece.start * outputs..piece.end * outputs;
            // SAFETY: each piece is done by one thread.
            #[expect(unsafe_code, reason = "each row has its own places")]
            let (y, kept) = unsafe { (places.part(own.clone()), before_places.part(own)) };
            let left = Left {
                numbers: &x[piece.start * inputs..piece.end * inputs],
                row: inputs,
                steps: (0, 1),
            };
            let multiply = |places| {
                let mut target = Target::fresh(places, piece.len(), outputs).with_row(bias);
                multiply_tiles(&mut target, Depth::new(inputs), left, right);
            };
            let Some(function) = function else {
                multiply(y);
                return;
            };
            let product = if is_kept {
                kept
            } else {
                &mut scratch.places()[..y.len()]
            };
            multiply(product);
            // SAFETY: the product has written all.
            #[expect(unsafe_code, reason = "it is written")]
            function.of(unsafe { written(product) }, y);
        });
        // SAFETY: every row was written.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            (y.written(), is_kept.then(|| before.written()))
        }
    }
}
