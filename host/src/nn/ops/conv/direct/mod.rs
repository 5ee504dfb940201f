//! Convolutions without a matrix of windows: images with their channels side by side, and products in tiles
//! that read them where they lie.
//!
//! With channels side by side, what a row of the kernel sees of a window is one stretch of numbers, and the next
//! window's begins a column further on. So products need no copy of the windows, neither of inputs nor of
//! gradients, and all that an image's products read stays in the nearest cache. Pooling takes whole registers of
//! channels.

mod squares;
mod weights;

use std::mem::MaybeUninit;

use self::squares::{add_lines, keep_positive, largest, spread};
use super::Conv;
use super::after::After;
use crate::kernels::region::{self, Shared};
use crate::kernels::{
    Depth, Fresh, Left, PANEL, Right, Target, has_tiles, multiply_tiles, transpose, written, zeros,
};
use crate::nn::ops::unfold::Sizes;

/// Bytes of a panel up to which it is walked through at once: half of a core's nearest cache. Beyond, each row
/// of the kernel is a product of its own, that is added to what is there.
const NEAR: usize = 24 << 10;

/// Shares of a batch for each thread on the way back, and the least images of one.
const SHARES: usize = 4;
const LEAST: usize = 4;

/// A convolution that is done so.
#[derive(Clone, Copy)]
pub(super) struct Direct {
    conv: Conv,
    /// An image with its padding.
    height: usize,
    width: usize,
    /// Outputs of one group.
    outputs: usize,
    after: After,
}

impl Direct {
    /// Where products in tiles are there, and pay: registers are filled with outputs, and tiles with the windows
    /// of a row.
    pub(super) fn of(conv: &Conv, after: After) -> Option<Direct> {
        let Sizes {
            height,
            width,
            columns,
            window,
            ..
        } = conv.image;
        let outputs = conv.group_outputs();
        let is_dense = window.dilation.1 == 1 || window.kernel.1 == 1;
        let pays = outputs >= PANEL / 2 && columns >= 4 && conv.image.channels > 0;
        (has_tiles() && is_dense && pays).then_some(Direct {
            conv: *conv,
            height: height + 2 * window.padding.0,
            width: width + 2 * window.padding.1,
            outputs,
            after,
        })
    }

    /// Input channels of one group.
    fn channels(&self) -> usize {
        self.conv.image.channels
    }

    fn windows(&self) -> usize {
        self.conv.image.rows * self.conv.image.columns
    }

    /// Outputs of one channel of an image.
    fn kept(&self) -> usize {
        self.conv.kept(self.after)
    }

    /// What one row of the kernel sees of a window.
    fn stretch(&self) -> usize {
        self.conv.image.window.kernel.1 * self.channels()
    }

    /// From a window's first number to that of the window below, the one beside it, and what the next row of the
    /// kernel sees of it.
    fn steps(&self) -> Steps {
        let line = self.width * self.channels();
        let window = self.conv.image.window;
        Steps {
            down: window.stride.0 * line,
            across: window.stride.1 * self.channels(),
            kernel: window.dilation.0 * line,
        }
    }

    /// An image of one group with its channels side by side and its padding around it: `x` itself where that
    /// changes nothing. `room` is zero in the padding, and stays so.
    fn channels_last<'a>(&self, x: &'a [f32], room: &'a mut Vec<f32>) -> &'a [f32] {
        let Sizes {
            channels,
            height,
            width,
            window,
            ..
        } = self.conv.image;
        if channels == 1 && window.padding == (0, 0) {
            return x;
        }
        room.resize(self.height * self.width * channels, 0.0);
        self.each_stretch(|place, padded, count| {
            let to = &mut room[padded * channels..];
            transpose(&x[place..], height * width, (channels, count), to, channels);
        });
        room
    }

    /// The outputs, and where in their squares those are that were pooled: of each window all channels.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        let Conv { batch, groups, .. } = self.conv;
        let columns = self.conv.image.columns;
        let (outputs, windows, kept) = (self.outputs, self.windows(), self.kept());
        let weight = self.weight(weight);
        let mut y = Fresh::new(batch * groups * outputs * kept);
        let pooled = if self.after.pool { outputs * kept } else { 0 };
        let mut squares = vec![0; batch * groups * pooled];
        let (places, square_places) = (Shared::new(y.places()), Shared::new(&mut squares));
        let room = || Room {
            image: Vec::new(),
            whole: Fresh::new(windows * outputs),
            most: vec![0.0; pooled],
        };
        region::share_out(self.conv.parts(), batch * groups, room, |room, index| {
            let Room { image, whole, most } = room;
            let group = index % groups;
            let size = self.conv.input_size();
            let image = self.channels_last(&x[index * size..(index + 1) * size], image);
            let bias = bias.map(|bias| &bias[group * outputs..(group + 1) * outputs]);
            self.products(image, &weight, group, bias, whole.places());
            let own = index * outputs * kept..(index + 1) * outputs * kept;
            // SAFETY: the products have written all; each image is done by one thread.
            #[expect(unsafe_code, reason = "each image has its own outputs")]
            let (whole, y, squares) = unsafe {
                (
                    whole.all_written(),
                    zeros(places.part(own)),
                    square_places.part(index * pooled..(index + 1) * pooled),
                )
            };
            if self.after.relu {
                keep_positive(whole);
            }
            let left = if self.after.pool {
                largest(whole, columns * outputs, outputs, most, squares);
                &most[..]
            } else {
                whole
            };
            transpose(left, outputs, (kept, outputs), y, kept);
        });
        // SAFETY: every image's outputs were written.
        #[expect(unsafe_code, reason = "they are written")]
        let y = unsafe { y.written() };
        (y, squares)
    }

    /// One image's outputs, (windows, outputs).
    fn products(
        &self,
        image: &[f32],
        weight: &[f32],
        group: usize,
        bias: Option<&[f32]>,
        y: &mut [MaybeUninit<f32>],
    ) {
        let Sizes {
            rows,
            columns,
            window,
            ..
        } = self.conv.image;
        let (outputs, stretch, steps) = (self.outputs, self.stretch(), self.steps());
        let down = window.kernel.0;
        let panels = outputs.div_ceil(PANEL);
        let size = down * stretch * PANEL;
        // Rows of the kernel that one product takes.
        let at_once = if size * size_of::<f32>() <= NEAR {
            down
        } else {
            1
        };
        for panel in 0..panels {
            let first = panel * PANEL;
            let count = PANEL.min(outputs - first);
            let weight = &weight[(group * panels + panel) * size..][..size];
            for i in (0..down).step_by(at_once) {
                let right = Right {
                    numbers: &weight[i * stretch * PANEL..],
                    panel: 0,
                    steps: (stretch * PANEL, PANEL),
                };
                for row in 0..rows {
                    let left = Left {
                        numbers: &image[row * steps.down + i * steps.kernel..],
                        row: steps.across,
                        steps: (steps.kernel, 1),
                    };
                    let places = &mut y[row * columns * outputs + first..];
                    let mut target = if i == 0 {
                        let bias = bias.map(|bias| &bias[first..first + count]);
                        Target::fresh_with_steps(places, columns, count, (outputs, 1))
                            .with_row(bias)
                    } else {
                        // SAFETY: the first row of the kernel has written all that is added to; what is
                        // between is not touched.
                        #[expect(unsafe_code, reason = "it is written")]
                        let sums = unsafe { written(places) };
                        Target::adding_with_step(sums, columns, count, outputs)
                    };
                    let depth = Depth {
                        outer: at_once,
                        inner: stretch,
                    };
                    multiply_tiles(&mut target, depth, left, right);
                }
            }
        }
    }

    /// The gradients of input (where it is wanted), weight and bias, from outputs and their gradient.
    pub(super) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (y, g): (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        let Conv { batch, groups, .. } = self.conv;
        let (outputs, windows, kept) = (self.outputs, self.windows(), self.kept());
        let turned = if of_input {
            self.turned_weight(weight)
        } else {
            Vec::new()
        };
        let mut x_slopes = Fresh::new(if of_input { x.len() } else { 0 });
        // The sums of some images each: of the weight, (groups, kernel, inputs, outputs), and of the bias. Where they
        // take no more memory than twice the images, there are more of them than threads. How many depends on nothing
        // but the convolution and the number of threads: not on what follows it, which must not change a bit.
        let parts = self.conv.parts();
        let size = weight.len() + self.conv.outputs;
        let shares = (SHARES * parts).min(batch / LEAST).max(parts);
        let images = x.len() + batch * groups * outputs * windows;
        let shares = if shares * size <= 2 * images {
            shares
        } else {
            parts
        };
        let mut sums = Fresh::new(shares * size);
        let (x_places, sum_places) = (Shared::new(x_slopes.places()), Shared::new(sums.places()));
        let room = || RoomBack {
            image: Vec::new(),
            gradient: Gradient::new(self),
            slopes: Vec::new(),
            bias_sums: vec![0.0; outputs],
        };
        region::share_out(parts, shares, room, |room, share| {
            // SAFETY: each share is done by one thread.
            #[expect(unsafe_code, reason = "each share has its own sums")]
            let sums = zeros(unsafe { sum_places.part(share * size..(share + 1) * size) });
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            for index in region::range(batch * groups, groups, share, shares) {
                let group = index % groups;
                let inputs = index * self.conv.input_size()..(index + 1) * self.conv.input_size();
                let image = self.channels_last(&x[inputs.clone()], &mut room.image);
                let own = index * outputs * kept..(index + 1) * outputs * kept;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let g = room.gradient.of(self, &y[own.clone()], &g[own], squares);
                let each = weight.len() / groups;
                self.add_weight_slopes(image, g, &mut weight_sums[group * each..][..each]);
                // Of one image first, so that sums stay of one size with what is added to them.
                room.bias_sums.fill(0.0);
                add_lines(&mut room.bias_sums, &g[..windows * outputs]);
                add_lines(
                    &mut bias_sums[group * outputs..][..outputs],
                    &room.bias_sums,
                );
                if of_input {
                    // SAFETY: each image is in one share.
                    #[expect(unsafe_code, reason = "each image has its own inputs")]
                    let slopes = unsafe { x_places.part(inputs) };
                    self.input_slopes(&turned, group, g, &mut room.slopes, zeros(slopes));
                }
            }
        });
        // SAFETY: every share's sums, and every image's gradient where it is wanted, were written.
        #[expect(unsafe_code, reason = "they are written")]
        let (x_slopes, sums) = unsafe { (x_slopes.written(), sums.written()) };
        let weight_slopes = self.weight_of(&sums, size);
        let mut bias_slopes = vec![0.0; self.conv.outputs];
        for sums in sums.chunks_exact(size) {
            add_lines(&mut bias_slopes, &sums[weight.len()..]);
        }
        [x_slopes, weight_slopes, bias_slopes]
    }

    /// Adds one image's gradient of the weight: of what each row of the kernel sees, for each output.
    fn add_weight_slopes(&self, image: &[f32], g: &[f32], sums: &mut [f32]) {
        let Sizes { rows, columns, .. } = self.conv.image;
        let (outputs, stretch, steps) = (self.outputs, self.stretch(), self.steps());
        let right = Right {
            numbers: g,
            panel: PANEL,
            steps: (columns * outputs, outputs),
        };
        for (i, sums) in sums.chunks_exact_mut(stretch * outputs).enumerate() {
            let left = Left {
                numbers: &image[i * steps.kernel..],
                row: 1,
                steps: (steps.down, steps.across),
            };
            let depth = Depth {
                outer: rows,
                inner: columns,
            };
            let mut target = Target::adding(sums, stretch, outputs);
            multiply_tiles(&mut target, depth, left, right);
        }
    }

    /// One image's gradient of its inputs, into `slopes`, by way of one with channels side by side in `room`.
    fn input_slopes(
        &self,
        turned: &[f32],
        group: usize,
        g: &[f32],
        room: &mut Vec<f32>,
        slopes: &mut [f32],
    ) {
        let Sizes {
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
                let left = Left {
                    numbers: &g[row * columns * outputs..],
                    row: outputs,
                    steps: (0, 1),
                };
                let start = row * steps.down + i * steps.kernel + j * channels;
                let places = &mut room[start..];
                let mut target = Target::adding_with_step(places, columns, channels, steps.across);
                multiply_tiles(&mut target, Depth::new(outputs), left, right);
            }
        }
        self.each_stretch(|place, padded, count| {
            let from = &room[padded * channels..];
            let to = &mut slopes[place..];
            transpose(from, channels, (count, channels), to, height * width);
        });
    }

    /// Calls `at(place in an image, place with the padding around it, count)` for the places of an image that
    /// follow each other in both: rows, or all of it.
    fn each_stretch(&self, mut at: impl FnMut(usize, usize, usize)) {
        let Sizes {
            height,
            width,
            window,
            ..
        } = self.conv.image;
        if window.padding == (0, 0) {
            at(0, 0, height * width);
            return;
        }
        for row in 0..height {
            let padded = (row + window.padding.0) * self.width + window.padding.1;
            at(row * width, padded, width);
        }
    }
}

/// What a thread needs on the way forward: an image with its channels side by side, its outputs, (windows,
/// outputs), and what pooling leaves of them.
struct Room {
    image: Vec<f32>,
    whole: Fresh<f32>,
    most: Vec<f32>,
}

/// What it needs on the way back: the same image, the gradient of its outputs, and that of its inputs.
struct RoomBack {
    image: Vec<f32>,
    gradient: Gradient,
    slopes: Vec<f32>,
    bias_sums: Vec<f32>,
}

/// From one window's numbers to others.
#[derive(Clone, Copy)]
struct Steps {
    down: usize,
    across: usize,
    kernel: usize,
}

/// Room for the gradient of one image's outputs before they were pooled, (windows, outputs).
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

    /// From that of what was kept of them, (outputs, kept). A last line or column that is in no square has zeros.
    fn of(&mut self, direct: &Direct, y: &[f32], g: &[f32], squares: &[u8]) -> &[f32] {
        let (outputs, kept) = (direct.outputs, direct.kept());
        let g = if direct.after.relu {
            super::after::mask(g, y, &mut self.masked);
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

#[cfg(test)]
mod tests;
