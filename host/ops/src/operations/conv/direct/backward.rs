//! Backward pass: partitions of a batch, each with sums of its own.

use std::mem::MaybeUninit;

use super::Direct;
use super::squares::spread;
use super::words::{Windows, panels_in_words};
use crate::kernels::fill::{Schedule, UninitRows, fill_parts_with};
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, add_rows, multiply_tiles, transpose,
    transpose_uninit, write_rows, written, zeros,
};
use crate::operations::conv::Conv;
use crate::operations::conv::after::mask;
use crate::options::UnfoldSizes;

/// Minimum average number of images in a partition of a batch.
const LEAST: usize = 4;

/// Bytes of the outputs' gradient that all rows of the kernel process before the next ones: half of a core's L1 cache.
const NEAR: usize = 24 << 10;

/// A thread's scratch memory: an image with channels last, and the gradients of its outputs, inputs and bias.
struct RoomBack {
    image: Vec<f32>,
    gradient: Gradient,
    input_gradient: Vec<f32>,
    bias_sums: Vec<f32>,
    /// Of windows: images and gradients; and gradients along the outputs.
    words: [Vec<f32>; 3],
}

/// Scratch memory for the gradient of one image's outputs before pooling, (windows, outputs).
pub(in crate::operations::conv) struct Gradient {
    masked: Vec<f32>,
    transposed: Vec<f32>,
    spread: Vec<f32>,
}

impl Gradient {
    pub(in crate::operations::conv) fn new(direct: &Direct) -> Gradient {
        let kept = direct.outputs * direct.kept();
        let room = |is_wanted: bool, count: usize| vec![0.0; if is_wanted { count } else { 0 }];
        Gradient {
            masked: room(direct.after.relu, kept),
            transposed: vec![0.0; kept],
            spread: room(direct.after.pool, direct.outputs * direct.windows()),
        }
    }

    /// Computes it from that of the kept outputs, (outputs, kept).
    ///
    /// A last row or column that is in no square has zeros.
    pub(in crate::operations::conv) fn of(
        &mut self,
        direct: &Direct,
        y: &[f32],
        g: &[f32],
        squares: &[u8],
    ) -> &[f32] {
        let (outputs, kept) = (direct.outputs, direct.kept());
        let g = if direct.after.relu {
            mask(g, y, &mut self.masked);
            &self.masked
        } else {
            g
        };
        transpose(g, kept, (outputs, kept), &mut self.transposed, outputs);
        if !direct.after.pool {
            return &self.transposed;
        }
        let line = direct.conv.image.columns * outputs;
        spread(&self.transposed, squares, line, outputs, &mut self.spread);
        &self.spread
    }
}

impl Direct {
    /// Computes the gradients of input (if wanted), weight and bias from the outputs and their gradient.
    pub(in crate::operations::conv) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (y, g): (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        let Conv { batch, groups, .. } = self.conv;
        let (outputs, windows, kept) = (self.outputs, self.windows(), self.kept());
        let transposed = if of_input {
            panels_in_words(self.transposed_weight(weight), self.outputs, self.terms)
        } else {
            Vec::new()
        };
        let (schedule, size) = self.partial_sums(x.len());
        let inputs = self.conv.input_size();
        let memory = (
            UninitRows::new(batch * groups, if of_input { inputs } else { 0 }),
            UninitRows::per_chunk(schedule.chunks(), size),
        );
        let room = || RoomBack {
            image: Vec::new(),
            gradient: Gradient::new(self),
            input_gradient: Vec::new(),
            bias_sums: vec![0.0; outputs],
            words: [const { Vec::new() }; 3],
        };
        let (x_gradient, sums) = fill_parts_with(schedule, memory, room, |room, images, parts| {
            let (x_gradient, sums) = parts;
            let sums = zeros(sums);
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            let x_gradient = write_rows(x_gradient, images, |index, slots| {
                let group = index % groups;
                let image = &x[index * inputs..(index + 1) * inputs];
                let image = self.channels_last(image, &mut room.image);
                let own = index * outputs * kept..(index + 1) * outputs * kept;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let g = room.gradient.of(self, &y[own.clone()], &g[own], squares);
                let each = weight.len() / groups;
                let [of_image, of_windows, of_outputs] = &mut room.words;
                let words = self.windows_in_words((image, g), (of_image, of_windows));
                self.add_weight_gradient(words, &mut weight_sums[group * each..][..each]);
                // Of one image first, so that sums and what is added to them stay of similar magnitude.
                room.bias_sums.fill(0.0);
                add_rows(&mut room.bias_sums, &g[..windows * outputs], outputs, 0);
                let sums = &mut bias_sums[group * outputs..][..outputs];
                add_rows(sums, &room.bias_sums, outputs, 0);
                if of_input {
                    let g = self.outputs_in_words(g, of_outputs);
                    self.input_gradient(&transposed, group, g, &mut room.input_gradient, slots)
                } else {
                    zeros(slots)
                }
            });
            (x_gradient, sums)
        });
        self.sum_up(&sums, size, x_gradient)
    }

    /// How images are divided for sums over some of them each, and the number of sums: of the weight's gradient,
    /// (groups, kernel, inputs, outputs), and of the bias's.
    ///
    /// Where they take at most twice the memory of the images, there are more of them than threads. Their number depends
    /// only on the convolution and the number of threads, not on the operations after it, which must not change a bit.
    pub(in crate::operations::conv) fn partial_sums(&self, of_inputs: usize) -> (Schedule, usize) {
        let Conv {
            image,
            batch,
            groups,
            outputs,
            ..
        } = self.conv;
        let threads = self.conv.parts();
        let (depth, _) = image.matrix();
        let size = outputs * depth + outputs;
        let elements = of_inputs + batch * outputs * self.windows();
        let in_chunks = Schedule::in_chunks(threads, batch * groups, groups);
        let are_large =
            in_chunks.chunks() * LEAST <= batch && in_chunks.chunks() * size <= 2 * elements;
        let schedule = if are_large {
            in_chunks
        } else {
            Schedule::per_thread(threads, batch * groups, groups)
        };
        (schedule, size)
    }

    /// The gradients of input, weight and bias, from all partial sums.
    pub(in crate::operations::conv) fn sum_up(
        &self,
        sums: &[f32],
        size: usize,
        x_gradient: Vec<f32>,
    ) -> [Vec<f32>; 3] {
        let outputs = self.conv.outputs;
        let mut bias_gradient = vec![0.0; outputs];
        for sums in sums.chunks_exact(size) {
            add_rows(&mut bias_gradient, &sums[size - outputs..], outputs, 0);
        }
        [x_gradient, self.weight_of(sums, size), bias_gradient]
    }

    /// Adds one image's gradient of the weight: for each row of the kernel, of the elements it sees and each output.
    fn add_weight_gradient(&self, windows: Windows<'_>, sums: &mut [f32]) {
        let UnfoldSizes {
            rows,
            columns,
            window,
            ..
        } = self.conv.image;
        let Windows {
            image,
            line: image_line,
            next,
            g,
        } = windows;
        let (outputs, stretch) = (self.outputs, self.stretch(self.channels()));
        let count = self.terms.words(columns);
        let line = count * outputs;
        let right = Right {
            numbers: g,
            panel: PANEL,
            steps: (line, outputs),
        };
        let at_once = (NEAR / (line * size_of::<f32>())).clamp(1, rows);
        for first in (0..rows).step_by(at_once) {
            let depth = Depth {
                outer: at_once.min(rows - first),
                inner: count,
                terms: self.terms,
            };
            let right = Right {
                numbers: &g[first * line..],
                ..right
            };
            for (i, sums) in sums.chunks_exact_mut(stretch * outputs).enumerate() {
                let left = LeftMatrix {
                    numbers: &image
                        [(first * window.stride.0 + i * window.dilation.0) * image_line..],
                    row: 1,
                    steps: (window.stride.0 * image_line, next),
                };
                let mut target = TargetMatrix::adding(sums, stretch, outputs);
                multiply_tiles(&mut target, depth, left, right);
            }
        }
    }

    /// Computes the gradient of one image's inputs into `slots`, by way of a channels-last one in `room`, from words of the outputs'.
    fn input_gradient<'a>(
        &self,
        transposed: &[f32],
        group: usize,
        g: &[f32],
        room: &mut Vec<f32>,
        slots: &'a mut [MaybeUninit<f32>],
    ) -> &'a mut [f32] {
        let UnfoldSizes {
            rows,
            columns,
            window,
            ..
        } = self.conv.image;
        let (outputs, channels) = (self.terms.words(self.outputs), self.channels());
        let steps = self.steps(channels);
        let (down, across) = window.kernel;
        let panels = channels.div_ceil(PANEL);
        room.clear();
        room.resize(self.height * self.width * channels, 0.0);
        for tap in 0..down * across {
            let (i, j) = (tap / across, tap % across);
            let first = (group * down * across + tap) * panels * outputs * PANEL;
            let right = Right {
                numbers: &transposed[first..][..panels * outputs * PANEL],
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
                let sums = &mut room[start..];
                let mut target =
                    TargetMatrix::adding_with_step(sums, columns, channels, steps.across);
                multiply_tiles(
                    &mut target,
                    Depth::of(self.outputs, self.terms),
                    left,
                    right,
                );
            }
        }
        self.planes_of(room, channels, slots)
    }

    /// Copies a padded image of some channels, channels last, to its planes.
    pub(in crate::operations::conv) fn planes_of<'a>(
        &self,
        image: &[f32],
        channels: usize,
        slots: &'a mut [MaybeUninit<f32>],
    ) -> &'a mut [f32] {
        let UnfoldSizes { height, width, .. } = self.conv.image;
        assert!(
            slots.len() == channels * height * width,
            "an image is not of its size"
        );
        self.each_stretch(|start, padded, count| {
            let from = &image[padded * channels..];
            let to = &mut slots[start..];
            transpose_uninit(from, channels, (count, channels), to, height * width);
        });
        // SAFETY: `each_stretch` goes through all of an image, (height, width), and each transposed copy has written
        // its stretch of every channel, `height * width` apart: together (channels, height, width), which is all of the
        // memory.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            written(slots)
        }
    }
}
