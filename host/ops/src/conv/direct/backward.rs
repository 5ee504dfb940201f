//! Backward pass: partitions of a batch, each with sums of its own.

use std::mem::MaybeUninit;

use super::Direct;
use super::squares::spread;
use crate::conv::Conv;
use crate::conv::after::mask;
use crate::kernels::region::{self, CHUNKS, SharedSlice};
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, UninitBuffer, add_rows, multiply_tiles,
    transpose, transpose_uninit, zeros,
};
use crate::unfold::UnfoldSizes;

/// Minimum average number of images in a partition of a batch.
const LEAST: usize = 4;

/// Bytes of the outputs' gradient that all rows of the kernel process before the next ones: half of a core's L1 cache.
const NEAR: usize = 24 << 10;

/// A thread's scratch memory: an image with channels last, and the gradients of its outputs, inputs and bias.
struct RoomBack {
    image: Vec<f32>,
    gradient: Gradient,
    slopes: Vec<f32>,
    bias_sums: Vec<f32>,
}

/// Scratch memory for the gradient of one image's outputs before pooling, (windows, outputs).
struct Gradient {
    masked: Vec<f32>,
    turned: Vec<f32>,
    spread: Vec<f32>,
}

impl Gradient {
    fn new(direct: &Direct) -> Gradient {
        let kept = direct.outputs * direct.kept();
        let room = |is_wanted: bool, count: usize| vec![0.0; if is_wanted { count } else { 0 }];
        Gradient {
            masked: room(direct.after.relu, kept),
            turned: vec![0.0; kept],
            spread: room(direct.after.pool, direct.outputs * direct.windows()),
        }
    }

    /// Computes it from that of the kept outputs, (outputs, kept).
    ///
    /// A last row or column that is in no square has zeros.
    fn of(&mut self, direct: &Direct, y: &[f32], g: &[f32], squares: &[u8]) -> &[f32] {
        let (outputs, kept) = (direct.outputs, direct.kept());
        let g = if direct.after.relu {
            mask(g, y, &mut self.masked);
            &self.masked
        } else {
            g
        };
        transpose(g, kept, (outputs, kept), &mut self.turned, outputs);
        if !direct.after.pool {
            return &self.turned;
        }
        let line = direct.conv.image.columns * outputs;
        spread(&self.turned, squares, line, outputs, &mut self.spread);
        &self.spread
    }
}

impl Direct {
    /// Computes the gradients of input (if wanted), weight and bias from the outputs and their gradient.
    pub(in crate::conv) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (y, g): (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        let Conv { batch, groups, .. } = self.conv;
        let (outputs, windows, kept) = (self.outputs, self.windows(), self.kept());
        let turned = if of_input {
            self.transposed_weight(weight)
        } else {
            Vec::new()
        };
        let mut x_slopes = UninitBuffer::new(if of_input { x.len() } else { 0 });
        // Sums over some images each: of the weight's gradient, (groups, kernel, inputs, outputs), and of the bias's.
        // Where they take at most twice the memory of the images, there are more of them than threads. Their number
        // depends only on the convolution and the number of threads, not on the operations after it, which must not
        // change a bit.
        let parts = self.conv.parts();
        let size = weight.len() + self.conv.outputs;
        let images = x.len() + batch * groups * outputs * windows;
        let shares = CHUNKS * parts;
        let are_pieces = shares * LEAST <= batch && shares * size <= 2 * images;
        let shares = if are_pieces { shares } else { parts };
        let share_of = |share| {
            if are_pieces {
                region::chunk(batch * groups, groups, share, parts)
            } else {
                region::range(batch * groups, groups, share, shares)
            }
        };
        let mut sums = UninitBuffer::new(shares * size);
        let (x_places, sum_places) = (
            SharedSlice::new(x_slopes.places()),
            SharedSlice::new(sums.places()),
        );
        let room = || RoomBack {
            image: Vec::new(),
            gradient: Gradient::new(self),
            slopes: Vec::new(),
            bias_sums: vec![0.0; outputs],
        };
        region::distribute(parts, shares, room, |room, share| {
            // SAFETY: each partition is processed by one thread, and their sums do not overlap.
            #[expect(unsafe_code, reason = "each share has its own sums")]
            let sums = zeros(unsafe { sum_places.part(share * size..(share + 1) * size) });
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            for index in share_of(share) {
                let group = index % groups;
                let inputs = index * self.conv.input_size()..(index + 1) * self.conv.input_size();
                let image = self.channels_last(&x[inputs.clone()], &mut room.image);
                let own = index * outputs * kept..(index + 1) * outputs * kept;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let g = room.gradient.of(self, &y[own.clone()], &g[own], squares);
                let each = weight.len() / groups;
                self.add_weight_gradient(image, g, &mut weight_sums[group * each..][..each]);
                // Of one image first, so that sums and what is added to them stay of similar magnitude.
                room.bias_sums.fill(0.0);
                add_rows(&mut room.bias_sums, &g[..windows * outputs], outputs, 0);
                let sums = &mut bias_sums[group * outputs..][..outputs];
                add_rows(sums, &room.bias_sums, outputs, 0);
                if of_input {
                    // SAFETY: each image is in one partition, and its range overlaps with no other image's.
                    #[expect(unsafe_code, reason = "each image has its own inputs")]
                    let slopes = unsafe { x_places.part(inputs) };
                    self.input_gradient(&turned, group, g, &mut room.slopes, slopes);
                }
            }
        });
        // SAFETY: the sums of every partition were filled with zeros at least, and the gradient of every image was
        // written; if it is not wanted, there are no elements.
        #[expect(unsafe_code, reason = "they are written")]
        let (x_slopes, sums) = unsafe { (x_slopes.written(), sums.written()) };
        let weight_slopes = self.weight_of(&sums, size);
        let mut bias_slopes = vec![0.0; self.conv.outputs];
        for sums in sums.chunks_exact(size) {
            add_rows(
                &mut bias_slopes,
                &sums[weight.len()..],
                self.conv.outputs,
                0,
            );
        }
        [x_slopes, weight_slopes, bias_slopes]
    }

    /// Adds one image's gradient of the weight: for each row of the kernel, of the elements it sees and each output.
    fn add_weight_gradient(&self, image: &[f32], g: &[f32], sums: &mut [f32]) {
        let UnfoldSizes { rows, columns, .. } = self.conv.image;
        let (outputs, stretch, steps) = (self.outputs, self.stretch(), self.steps());
        let right = Right {
            numbers: g,
            panel: PANEL,
            steps: (columns * outputs, outputs),
        };
        let line = columns * outputs;
        let at_once = (NEAR / (line * size_of::<f32>())).clamp(1, rows);
        for first in (0..rows).step_by(at_once) {
            let depth = Depth {
                outer: at_once.min(rows - first),
                inner: columns,
            };
            let right = Right {
                numbers: &g[first * line..],
                ..right
            };
            for (i, sums) in sums.chunks_exact_mut(stretch * outputs).enumerate() {
                let left = LeftMatrix {
                    numbers: &image[first * steps.down + i * steps.kernel..],
                    row: 1,
                    steps: (steps.down, steps.across),
                };
                let mut target = TargetMatrix::adding(sums, stretch, outputs);
                multiply_tiles(&mut target, depth, left, right);
            }
        }
    }

    /// Computes the gradient of one image's inputs into `slopes`, by way of a channels-last one in `room`.
    fn input_gradient(
        &self,
        turned: &[f32],
        group: usize,
        g: &[f32],
        room: &mut Vec<f32>,
        slopes: &mut [MaybeUninit<f32>],
    ) {
        let UnfoldSizes {
            height,
            width,
            rows,
            columns,
            window,
            ..
        } = self.conv.image;
        let (outputs, channels, steps) = (self.outputs, self.channels(), self.steps());
        let (down, across) = window.kernel;
        let panels = channels.div_ceil(PANEL);
        room.clear();
        room.resize(self.height * self.width * channels, 0.0);
        for place in 0..down * across {
            let (i, j) = (place / across, place % across);
            let first = (group * down * across + place) * panels * outputs * PANEL;
            let right = Right {
                numbers: &turned[first..][..panels * outputs * PANEL],
                panel: outputs * PANEL,
                steps: (0, PANEL),
            };
            for row in 0..rows {
                let left = LeftMatrix {
                    numbers: &g[row * columns * outputs..],
                    row: outputs,
                    steps: (0, 1),
                };
                let start = row * steps.down + i * steps.kernel + j * channels;
                let places = &mut room[start..];
                let mut target =
                    TargetMatrix::adding_with_step(places, columns, channels, steps.across);
                multiply_tiles(&mut target, Depth::new(outputs), left, right);
            }
        }
        self.each_stretch(|place, padded, count| {
            let from = &room[padded * channels..];
            let to = &mut slopes[place..];
            transpose_uninit(from, channels, (count, channels), to, height * width);
        });
    }
}
