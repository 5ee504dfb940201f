//! Backward pass: partitions of a batch, each with sums of its own.

use std::mem::MaybeUninit;

use super::Direct;
use super::input_gradient::{InputGradient, InputGradientScratch};
use super::squares::spread;
use super::words::Windows;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts_with};
use crate::kernels::{
    Ahead, Depth, LeftMatrix, PANEL, Right, TargetMatrix, add_rows, multiply_tiles, transpose,
    transpose_uninit, transpose_whole, write_rows, written, zeros,
};
use crate::operations::conv::Conv;
use crate::operations::conv::after::mask;
use crate::options::UnfoldSizes;

/// Minimum average number of images in a partition of a batch.
const LEAST: usize = 4;

/// Nothing to be prefetched.
const EMPTY: &[f32] = &[];

/// Bytes of the outputs' gradient that all rows of the kernel process before the next ones: half of a core's L1 cache.
const NEAR: usize = 24 << 10;

/// A thread's scratch memory: an image with channels last, and the gradients of its outputs, inputs and bias.
struct RoomBack {
    image: Vec<f32>,
    gradient: Gradient,
    of_inputs: InputGradientScratch,
    bias_sums: Vec<f32>,
    /// Windows of the image, and the gradients of their outputs.
    words: [Vec<f32>; 2],
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
        let of_inputs = of_input.then(|| InputGradient::new(self, weight));
        let (schedule, size) = self.partial_sums(x.len());
        let inputs = self.conv.input_size();
        let memory = (
            UninitRows::new(batch * groups, if of_input { inputs } else { 0 }),
            UninitRows::per_chunk(schedule.chunks(), size),
        );
        let room = || RoomBack {
            image: Vec::new(),
            gradient: Gradient::new(self),
            of_inputs: InputGradientScratch::default(),
            bias_sums: vec![0.0; outputs],
            words: [const { Vec::new() }; 2],
        };
        let (x_gradient, sums) = fill_parts_with(schedule, memory, room, |room, images, parts| {
            let (x_gradient, sums) = parts;
            let sums = zeros(sums);
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            let end = images.end;
            let x_gradient = write_rows(x_gradient, images, |index, slots| {
                let group = index % groups;
                let image = &x[index * inputs..(index + 1) * inputs];
                let image = self.channels_last(image, &mut room.image);
                let each = outputs * kept;
                // The next of the part, if there is one.
                let next = (index + 1).min(end)..(index + 2).min(end);
                let next_image = &x[next.start * inputs..next.end * inputs];
                let next_gradient = &g[next.start * each..next.end * each];
                let own = index * each..(index + 1) * each;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let g = room.gradient.of(self, &y[own.clone()], &g[own], squares);
                let each = weight.len() / groups;
                let sums = &mut weight_sums[group * each..][..each];
                let calls = self.weight_products();
                let [of_image, of_gradient] = &mut room.words;
                let seen = self.windows_in_words((image, g), (of_image, of_gradient));
                if of_input {
                    let written = Ahead::of(slots, EMPTY, calls);
                    self.add_weight_gradient(seen, sums, written);
                } else {
                    let read = Ahead::of(next_image, next_gradient, calls);
                    self.add_weight_gradient(seen, sums, read);
                }
                // Of one image first, so that sums and what is added to them stay of similar magnitude.
                room.bias_sums.fill(0.0);
                add_rows(&mut room.bias_sums, &g[..windows * outputs], outputs, 0);
                let sums = &mut bias_sums[group * outputs..][..outputs];
                add_rows(sums, &room.bias_sums, outputs, 0);
                match &of_inputs {
                    Some(gradient) => {
                        let read = Ahead::of(next_image, next_gradient, gradient.products());
                        let image = gradient.of(group, g, &mut room.of_inputs, read);
                        self.planes(image, slots)
                    }
                    None => zeros(slots),
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

    /// Rows of windows that all rows of the kernel process before the next ones.
    fn window_rows(&self) -> usize {
        let UnfoldSizes { rows, columns, .. } = self.conv.image;
        let line = self.terms.words(columns) * self.outputs * size_of::<f32>();
        let most = (NEAR / line).clamp(1, rows);
        rows.div_ceil(rows.div_ceil(most))
    }

    /// Number of products that an image's gradient of the weight is made of.
    fn weight_products(&self) -> usize {
        let image = self.conv.image;
        image.rows.div_ceil(self.window_rows()) * image.window.kernel.0
    }

    /// Adds one image's gradient of the weight: for each row of the kernel, of the elements it sees and each output. Meanwhile it prefetches
    /// what comes next.
    fn add_weight_gradient<A, B>(
        &self,
        seen: Windows<'_>,
        sums: &mut [f32],
        mut ahead: Ahead<'_, A, B>,
    ) {
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
        } = seen;
        let (outputs, stretch) = (self.outputs, self.stretch(self.channels()));
        let count = self.terms.words(columns);
        let line = count * outputs;
        let right = Right {
            numbers: g,
            panel: PANEL,
            steps: (line, outputs),
        };
        let at_once = self.window_rows();
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
                ahead.some();
                let row = first * window.stride.0 + i * window.dilation.0;
                let left = LeftMatrix {
                    numbers: &image[row * image_line..],
                    row: 1,
                    steps: (window.stride.0 * image_line, next),
                };
                let mut target = TargetMatrix::adding(sums, stretch, outputs);
                multiply_tiles(&mut target, depth, left, right);
            }
        }
    }

    /// Copies an image without padding, channels last, to its planes.
    pub(super) fn planes<'a>(
        &self,
        image: &[f32],
        slots: &'a mut [MaybeUninit<f32>],
    ) -> &'a mut [f32] {
        let channels = self.channels();
        let pixels = image.len() / channels;
        transpose_whole(image, channels, (pixels, channels), slots)
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
