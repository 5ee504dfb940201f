//! Kernels from and to transformed squares.

use std::ops::Range;

use super::transforms::{Map, Shape, Steps, transform};
use super::{Square, Winograd};
use crate::kernels::fill::{Schedule, UninitRows, fill_parts_with};
use crate::kernels::{PANEL, region, transpose, write_rows, zeros};

/// The channels that are the columns of kernels as right matrices; the other ones are their rows.
#[derive(Clone, Copy)]
pub(super) enum Columns {
    /// In the forward pass.
    Outputs,
    /// For the gradient of the inputs.
    Inputs,
}

/// Rows of a panel that are transformed at once.
const ROWS: usize = 16;

/// Elements of as many rows.
const BLOCK: usize = ROWS * PANEL;

/// Scratch memory of a thread for some rows of a panel.
#[derive(Default)]
pub(super) struct Scratch {
    /// (rows, taps, [`PANEL`]).
    taps: Vec<f32>,
    /// Kernels transformed in one direction.
    half: Vec<f32>,
}

impl Winograd {
    /// Numbers of rows and columns of the kernels.
    pub(super) fn dims(&self, columns: Columns) -> (usize, usize) {
        match columns {
            Columns::Outputs => (self.image.channels, self.outputs),
            Columns::Inputs => (self.outputs, self.image.channels),
        }
    }

    /// G k Gᵀ of all kernels: (panels, positions, rows, [`PANEL`]).
    pub(super) fn kernels(&self, weight: &[f32], columns: Columns) -> Vec<f32> {
        let (rows, count) = self.dims(columns);
        let panels = count.div_ceil(PANEL);
        let each = rows * PANEL;
        let size = self.square.positions() * each;
        let memory = UninitRows::new(panels, size);
        let schedule = Schedule::of_size(region::parts(8 * panels * size), panels, 1);
        fill_parts_with(schedule, memory, Scratch::default, |scratch, own, slots| {
            write_rows(slots, own, |panel, slots| {
                let kernels = zeros(slots);
                for first in (0..rows).step_by(ROWS) {
                    let own = first..rows.min(first + ROWS);
                    let to = &mut kernels[first * PANEL..];
                    self.kernel_panel((weight, columns), panel, &own, scratch, (to, each));
                }
                kernels
            })
        })
    }

    /// G k Gᵀ of some rows of a panel, (rows, [`PANEL`]) for each position, `each` elements apart.
    pub(super) fn kernel_panel(
        &self,
        (weight, columns): (&[f32], Columns),
        panel: usize,
        rows: &Range<usize>,
        Scratch { taps, half }: &mut Scratch,
        (positions, each): (&mut [f32], usize),
    ) {
        let channels = self.image.channels;
        let (_, all) = self.dims(columns);
        let first = panel * PANEL;
        let count = PANEL.min(all - first);
        if count < PANEL {
            taps.clear();
        }
        taps.resize(rows.len() * 9 * PANEL, 0.0);
        match columns {
            Columns::Outputs => {
                let from = &weight[(first * channels + rows.start) * 9..];
                transpose(from, channels * 9, (count, rows.len() * 9), taps, PANEL);
            }
            Columns::Inputs => {
                for (output, taps) in rows.clone().zip(taps.chunks_exact_mut(9 * PANEL)) {
                    let from = &weight[(output * channels + first) * 9..];
                    transpose(from, 9, (count, 9), taps, PANEL);
                }
            }
        }
        let steps = Steps {
            vector: PANEL,
            row: 9 * PANEL,
        };
        half.resize(3 * self.square.side() * BLOCK, 0.0);
        let taps = (&taps[..], steps);
        transform_kernel(self.square, taps, rows.len(), half, (positions, each));
    }
}

/// G k Gᵀ of rows of [`PANEL`] kernels each, with these steps from tap to tap and from row to row, to positions `each`
/// elements apart.
fn transform_kernel(
    square: Square,
    (taps, steps): (&[f32], Steps),
    rows: usize,
    half: &mut [f32],
    (positions, each): (&mut [f32], usize),
) {
    let side = square.side();
    let map = (square, Map::Kernel);
    for first in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - first);
        let down = Shape {
            rows: count,
            width: PANEL,
            from: Steps {
                vector: 3 * steps.vector,
                ..steps
            },
            to: Steps {
                vector: 3 * BLOCK,
                row: PANEL,
            },
        };
        for j in 0..3 {
            let from = &taps[j * steps.vector + first * steps.row..];
            transform(map, from, &mut half[j * BLOCK..], down, false);
        }
        let across = Shape::line(count * PANEL, BLOCK, each);
        for i in 0..side {
            let to = &mut positions[i * side * each + first * PANEL..];
            transform(map, &half[i * 3 * BLOCK..], to, across, false);
        }
    }
}

/// Gᵀ u G of positions `each` elements apart, of `rows` rows of [`PANEL`] kernels each, to their taps, with these steps from
/// tap to tap and from row to row.
pub(super) fn kernel_gradient(
    square: Square,
    (positions, each): (&[f32], usize),
    rows: usize,
    taps: &mut [f32],
    steps: Steps,
) {
    let side = square.side();
    let map = (square, Map::KernelBack);
    let mut half = vec![0.0; 3 * side * BLOCK];
    for first in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - first);
        let down = Shape::line(count * PANEL, side * each, side * BLOCK);
        for j in 0..side {
            let from = &positions[j * each + first * PANEL..];
            transform(map, from, &mut half[j * BLOCK..], down, false);
        }
        let across = Shape {
            rows: count,
            width: PANEL,
            from: Steps {
                vector: BLOCK,
                row: PANEL,
            },
            to: steps,
        };
        for i in 0..3 {
            let to = &mut taps[i * 3 * steps.vector + first * steps.row..];
            transform(map, &half[i * side * BLOCK..], to, across, false);
        }
    }
}
