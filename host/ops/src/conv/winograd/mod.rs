//! 3 × 3 convolutions with a stride of 1 by Winograd's algorithm F(2 × 2, 3 × 3) (Lavin and Gray, 2016).
//!
//! A square of 2 × 2 outputs depends on 4 × 4 inputs. With d these inputs, k the kernel and M = Σ over the inputs'
//! channels of (G k Gᵀ) ⊙ (Bᵀ d B), the outputs are Aᵀ M A, by 16 multiplications where the direct sum takes 36. So each
//! of the 16 positions in a square is a matrix multiplication of its own: (squares, inputs) · (inputs, outputs).
//!
//! The gradients are those of exactly this computation: with N = A g Aᵀ of the outputs' gradient g, that of a kernel is
//! Gᵀ (Σ N ⊙ Bᵀ d B) G, and that of the inputs is the sum of B (N ⊙ G k Gᵀ) Bᵀ over overlapping squares. Both take N from
//! the same memory.
//!
//! Images have channels last, so transformations add and subtract whole vectors of channels ([`transforms`]). Factors of
//! the transformations are 0, ±½ and ±1, and sums are shorter: against `f64`, outputs and the inputs' gradient are off by
//! 0.36 to 0.39 times as much as direct sums, the weight's gradient by 0.68 to 0.70 times (32 and 128 channels; see the
//! tests).
//!
//! **Parts.** This file: sizes, the kernel's transformation and the forward pass. `backward`: gradients. `squares`:
//! images from and to transformed squares. `transforms`: the matrices and the loop that applies them.
//!
//! **Flow.** A thread takes as many images as have about [`SQUARES`] squares, or lines of squares of a larger image. It
//! transforms the inputs, does the 16 multiplications and transforms their results, while all of it is in the core's L2
//! cache.

mod backward;
mod squares;
#[cfg(test)]
mod tests;
mod transforms;

use super::after::After;
use super::direct::{Direct, largest};
use super::sizes::Conv;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts, fill_parts_with};
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, multiply_tiles, region, transpose_whole,
    write_rows, zeros,
};
use crate::unfold::{UnfoldSizes, Window};
use crate::vectorised;
use transforms::{LANES, transform_kernel};

/// Number of squares whose transformed inputs and outputs are in the cache together.
const SQUARES: usize = 64;

/// Positions in a square of 4 × 4.
const POSITIONS: usize = 16;

/// Channels from which on transformations cost less than they save.
const LEAST_CHANNELS: usize = 32;

/// A convolution by squares of 2 × 2 outputs.
#[derive(Clone, Copy)]
pub(super) struct Winograd {
    /// The same convolution, whose padded images are large enough for complete squares.
    direct: Direct,
    after: After,
    image: UnfoldSizes,
    batch: usize,
    outputs: usize,
    /// Number of squares of an image: lines of squares, and squares in each.
    down: usize,
    across: usize,
    threads: usize,
}

/// A thread's scratch memory in the forward pass.
struct Room {
    /// Channels-last images with their padding.
    images: Vec<Vec<f32>>,
    squares: squares::Room,
    /// Outputs of these images, (images, windows, outputs).
    whole: Vec<f32>,
    pooled: Vec<f32>,
}

impl Winograd {
    /// A convolution for which this is less work, where tiles are supported.
    pub(super) fn of(conv: &Conv, after: After) -> Option<Winograd> {
        let image = conv.image;
        let Window {
            kernel,
            stride,
            dilation,
            ..
        } = image.window;
        let fits = (kernel, stride, dilation) == ((3, 3), (1, 1), (1, 1)) && conv.groups == 1;
        let enough = |channels: usize| channels >= LEAST_CHANNELS && channels.is_multiple_of(LANES);
        if !fits || !enough(image.channels) || !enough(conv.outputs) {
            return None;
        }
        let (down, across) = (image.rows.div_ceil(2), image.columns.div_ceil(2));
        Some(Winograd {
            direct: Direct::of(conv, after)?.at_least(2 * down + 2, 2 * across + 2),
            after,
            image,
            batch: conv.batch,
            outputs: conv.outputs,
            down,
            across,
            threads: conv.parts(),
        })
    }

    fn windows(&self) -> usize {
        self.image.rows * self.image.columns
    }

    /// Number of images that are processed together.
    fn together(&self) -> usize {
        (SQUARES / (self.down * self.across)).max(1)
    }

    /// Number of lines of squares that are processed together.
    fn lines(&self) -> usize {
        (SQUARES / self.across).max(1)
    }

    /// Computes the outputs and, with pooling, their positions in the squares of the pooling, channels last.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        let (batch, outputs, windows) = (self.batch, self.outputs, self.windows());
        let kept = self.direct.kept();
        let inputs = self.image.channels * self.image.height * self.image.width;
        let together = self.together();
        let packed = self.direct.weight(weight);
        let panels = outputs.div_ceil(PANEL);
        let kernels = kernels(&packed, panels, (1, 9));
        let pooled = if self.after.pool { outputs * kept } else { 0 };
        let mut squares = vec![0; batch * pooled];
        let memory = (
            UninitRows::new(batch, outputs * kept),
            Rows::new(&mut squares, pooled),
        );
        let room = || Room {
            images: vec![Vec::new(); together],
            squares: squares::Room::new(self, false),
            whole: vec![0.0; together * windows * outputs],
            pooled: vec![0.0; pooled],
        };
        let schedule = Schedule::of_size(self.threads, batch, together);
        let (y, ()) = fill_parts_with(schedule, memory, room, |room, images, (y, squares)| {
            let count = images.len();
            for (image, index) in room.images.iter_mut().zip(images.clone()) {
                self.direct
                    .channels_last(&x[index * inputs..][..inputs], image);
            }
            self.multiply(&kernels, bias, count, room);
            let mut each = room.whole.chunks_exact_mut(windows * outputs);
            let mut positions = squares.chunks_exact_mut(pooled.max(1));
            let y = write_rows(y, images, |_, y| {
                let whole = each.next().unwrap_or_default();
                self.after.finish(whole, None, outputs);
                let left = if self.after.pool {
                    let line = self.image.columns * outputs;
                    let positions = positions.next().unwrap_or_default();
                    largest(whole, line, outputs, &mut room.pooled, positions);
                    &room.pooled[..]
                } else {
                    whole
                };
                transpose_whole(left, outputs, (kept, outputs), y)
            });
            (y, ())
        });
        (y, squares)
    }

    /// Computes the outputs of the images in `room`, `count` of them, channels last.
    fn multiply(&self, kernels: &[f32], bias: Option<&[f32]>, count: usize, room: &mut Room) {
        let (channels, outputs) = (self.image.channels, self.outputs);
        let panel = POSITIONS * channels * PANEL;
        for lines in self.blocks(count) {
            let squares = lines.len() * self.across;
            let Room {
                images,
                squares: memory,
                whole,
                ..
            } = room;
            self.transform_inputs(lines.clone(), images, memory);
            for position in 0..POSITIONS {
                let left = LeftMatrix {
                    numbers: &memory.inputs[position * memory.of_inputs..],
                    row: channels,
                    steps: (0, 1),
                };
                let right = Right {
                    numbers: &kernels[position * channels * PANEL..],
                    panel,
                    steps: (0, PANEL),
                };
                let sums = &mut memory.outputs[position * memory.of_outputs..];
                let mut target = TargetMatrix::replacing(sums, squares, outputs);
                multiply_tiles(&mut target, Depth::new(channels), left, right);
            }
            self.transform_outputs(lines, memory, whole);
        }
        if let Some(bias) = bias {
            add_to_rows(&mut room.whole, bias);
        }
    }

    /// Lines of squares that are processed together, of all lines of `count` images.
    fn blocks(&self, count: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (all, step) = (count * self.down, self.lines());
        (0..all)
            .step_by(step)
            .map(move |first| first..all.min(first + step))
    }
}

/// Transforms a packed weight, whose taps are `tap_step` lines of panels apart and panels `panel_step`.
///
/// The result is (panels, positions, depth, [`PANEL`]).
fn kernels(packed: &[f32], panels: usize, (tap_step, panel_step): (usize, usize)) -> Vec<f32> {
    let each = packed.len() / (9 * panels);
    let memory = UninitRows::new(panels, POSITIONS * each);
    let threads = region::parts(8 * panels * POSITIONS * each);
    let schedule = Schedule::of_size(threads, panels, 1);
    fill_parts(schedule, memory, |own, slots| {
        write_rows(slots, own, |panel, slots| {
            let taps: [&[f32]; 9] = std::array::from_fn(|tap| {
                let first = tap * tap_step + panel * panel_step;
                &packed[first * each..][..each]
            });
            let kernels = zeros(slots);
            transform_kernel(taps, kernels, each);
            kernels
        })
    })
}

vectorised! {
    /// Adds a row to each row of a matrix.
    fn add_to_rows(matrix: &mut [f32], row: &[f32]) {
        for line in matrix.chunks_exact_mut(row.len().max(1)) {
            for (x, &y) in line.iter_mut().zip(row) {
                *x += y;
            }
        }
    }
}
