//! 3 × 3 convolutions with a stride of 1 by Winograd's algorithms F(2 × 2, 3 × 3) and F(4 × 4, 3 × 3) (Lavin and Gray,
//! 2016).
//!
//! A square of 2 × 2 outputs depends on 4 × 4 inputs. With d these inputs, k the kernel and M = Σ over the inputs'
//! channels of (G k Gᵀ) ⊙ (Bᵀ d B), the outputs are Aᵀ M A, by 16 multiplications where the direct sum takes 36. So each
//! of the 16 positions in a square is a matrix multiplication of its own: (squares, inputs) · (inputs, outputs). A square
//! of 4 × 4 outputs has 36 positions, where the direct sum takes 144 multiplications.
//!
//! The gradients are those of exactly this computation: with N = A g Aᵀ of the outputs' gradient g, that of a kernel is
//! Gᵀ (Σ N ⊙ Bᵀ d B) G, and that of the inputs is the sum of B (N ⊙ G k Gᵀ) Bᵀ over overlapping squares. Both take N from
//! the same memory.
//!
//! Images have channels last, so transformations add vectors of channels with factors ([`transforms`]). They add to the
//! error, but sums over channels have a ninth of a direct sum's terms. The largest errors against `f64`, as multiples of
//! those of direct sums (32 and 128 channels; see the tests):
//!
//! | squares | outputs | gradient of the inputs | gradient of the weight |
//! |---|---|---|---|
//! | 2 × 2 | 0.36 to 0.39 | 0.36 to 0.38 | 0.66 to 1.1 |
//! | 4 × 4 | 1.9 to 2.5 | 1.5 to 1.9 | 1.3 to 1.6 |
//!
//! **Parts.** This file: sizes and the forward pass, by images. `backward`: gradients, by images. `batch`: both passes, by
//! panels of channels. `kernels`: kernels from and to transformed squares. `squares`: images from and to transformed
//! squares. `transforms`: the matrices and the loop that applies them.
//!
//! **Flow.** By images: a thread takes as many images as have about [`SQUARES`] squares, or lines of squares of a larger
//! image. It transforms the inputs, does the multiplications and transforms their results, while all of it is in the
//! core's L2 cache. Where a batch has few squares and many channels, so that each image would read all kernels from
//! memory, by panels: all images' inputs are transformed first; then a thread takes a panel of channels of all images.

mod backward;
mod batch;
mod kernels;
mod squares;
#[cfg(test)]
mod tests;
mod transforms;

use super::after::add_to_rows;
use super::direct::{Direct, largest};
use super::sizes::Conv;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts_with};
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, multiply_tiles, transpose_whole, write_rows,
};
use crate::options::{After, UnfoldSizes, Window};
use kernels::Columns;

/// Number of squares whose transformed inputs and outputs are in the cache together.
const SQUARES: usize = 64;

/// Squares of 4 × 4 outputs in a batch from which on they are used.
const ENOUGH: usize = 64;

/// Channels from which on transformations cost less than they save.
const LEAST_CHANNELS: usize = 32;

/// The numbers of channels are multiples of this, so that vectors have whole blocks and panels whole registers.
const STEP: usize = 16;

/// The outputs of a square.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Square {
    /// 2 × 2, by 16 multiplications.
    Two,
    /// 4 × 4, by 36 multiplications.
    Four,
}

impl Square {
    /// Number of outputs along each side.
    fn outputs(self) -> usize {
        match self {
            Square::Two => 2,
            Square::Four => 4,
        }
    }

    /// Number of positions along each side: the inputs that the outputs depend on.
    fn side(self) -> usize {
        self.outputs() + 2
    }

    fn positions(self) -> usize {
        self.side() * self.side()
    }

    /// Lines of squares of an image, and squares in each.
    fn cover(self, image: &UnfoldSizes) -> (usize, usize) {
        let of = |outputs: usize| outputs.div_ceil(self.outputs());
        (of(image.rows), of(image.columns))
    }

    /// The square with the fewest multiplications for a batch of images, where that has enough squares to make up for
    /// transforming the kernels.
    fn of(image: &UnfoldSizes, batch: usize) -> Square {
        let cost = |square: Square| {
            let (down, across) = square.cover(image);
            down * across * square.positions()
        };
        let (down, across) = Square::Four.cover(image);
        let are_enough = batch * down * across >= ENOUGH;
        if are_enough && cost(Square::Four) < cost(Square::Two) {
            Square::Four
        } else {
            Square::Two
        }
    }
}

/// A convolution by squares of outputs.
#[derive(Clone, Copy)]
pub(super) struct Winograd {
    /// The same convolution, whose padded images are large enough for complete squares.
    direct: Direct,
    square: Square,
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
    /// Outputs of these images in whole squares, channels last.
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
        let enough = |channels: usize| channels >= LEAST_CHANNELS && channels.is_multiple_of(STEP);
        if !fits || !enough(image.channels) || !enough(conv.outputs) {
            return None;
        }
        Winograd::by(Square::of(&image, conv.batch), conv, after)
    }

    /// The algorithm by these squares, where tiles are supported.
    fn by(square: Square, conv: &Conv, after: After) -> Option<Winograd> {
        let image = conv.image;
        let (down, across) = square.cover(&image);
        let reach = |squares: usize| squares * square.outputs() + 2;
        Some(Winograd {
            direct: Direct::of(conv, after)?.at_least(reach(down), reach(across)),
            square,
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

    /// Number of an image's outputs in whole squares, of this many channels.
    fn whole(&self, channels: usize) -> usize {
        self.down * self.square.outputs() * self.whole_line(channels)
    }

    /// Number of elements of a line of an image's outputs in whole squares.
    fn whole_line(&self, channels: usize) -> usize {
        self.across * self.square.outputs() * channels
    }

    /// Moves the outputs of an image in whole squares together, without those beyond its end.
    fn crop<'a>(&self, whole: &'a mut [f32], channels: usize) -> &'a mut [f32] {
        let (line, kept) = (self.whole_line(channels), self.image.columns * channels);
        if line != kept {
            for row in 1..self.image.rows {
                whole.copy_within(row * line..row * line + kept, row * kept);
            }
        }
        &mut whole[..self.windows() * channels]
    }

    /// Number of images that are processed together.
    fn together(&self) -> usize {
        (SQUARES / (self.down * self.across)).max(1)
    }

    /// Number of lines of squares that are processed together.
    fn lines(&self) -> usize {
        (SQUARES / self.across).clamp(1, self.together() * self.down)
    }

    /// Computes the outputs and, with pooling, their positions in the squares of the pooling, channels last.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        if self.is_by_panels() {
            return self.forward_by_panels(x, weight, bias);
        }
        let (batch, outputs) = (self.batch, self.outputs);
        let kept = self.direct.kept();
        let inputs = self.image.channels * self.image.height * self.image.width;
        let together = self.together();
        let kernels = self.kernels(weight, Columns::Outputs);
        let pooled = if self.after.pool { outputs * kept } else { 0 };
        let mut squares = vec![0; batch * pooled];
        let memory = (
            UninitRows::new(batch, outputs * kept),
            Rows::new(&mut squares, pooled),
        );
        let room = || Room {
            images: vec![Vec::new(); together],
            squares: squares::Room::new(self, self.lines()),
            whole: vec![0.0; together * self.whole(outputs)],
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
            let mut each = room.whole.chunks_exact_mut(self.whole(outputs));
            let mut positions = squares.chunks_exact_mut(pooled.max(1));
            let y = write_rows(y, images, |_, y| {
                let whole = self.crop(each.next().unwrap_or_default(), outputs);
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
        let positions = self.square.positions();
        let panel = positions * channels * PANEL;
        for lines in self.blocks(count) {
            let squares = lines.len() * self.across;
            let Room {
                images,
                squares: memory,
                whole,
                ..
            } = room;
            self.transform_inputs(lines.clone(), images, memory);
            for position in 0..positions {
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
