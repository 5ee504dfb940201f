//! Both passes by panels of channels, for batches with few squares.
//!
//! The kernels of many channels don't fit a cache, and there are too few squares to make up for reading them for each
//! image. So a panel of kernels is transformed and multiplied with the squares of all images at once, [`depth`] rows at a
//! time, while it is in the L2 cache. Each thread takes panels of its own, so the sums don't depend on the number of
//! threads.

use std::mem::MaybeUninit;

use super::kernels::{Columns, Scratch, kernel_gradient};
use super::squares::Room;
use super::transforms::{Map, Steps};
use super::{Winograd, add_to_rows};
use crate::kernels::fill::{Rows, Schedule, UninitInterleaved, UninitRows, fill_parts_with};
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, add_rows, multiply_tiles, region,
    transpose_uninit, transpose_whole, write_all, write_rows, written,
};
use crate::operations::conv::direct::{Gradient, largest};

/// Channels from which on there are enough panels for threads to share.
const LEAST_CHANNELS: usize = 128;

/// Elements of the products of a panel, for all squares and positions, that stay in a core's L2 cache.
const PRODUCTS: usize = 160 << 10;

/// Elements of the kernels of a panel that are transformed at once.
const KERNELS: usize = 64 << 10;

/// A thread's scratch memory for a panel.
struct PanelRoom {
    of_kernels: Scratch,
    /// Some rows of the panel's kernels, (positions, rows, [`PANEL`]), or their gradient.
    kernels: Vec<f32>,
    /// The products of all squares, (positions, squares, [`PANEL`]).
    products: Vec<f32>,
    half: Vec<f32>,
    /// Of one image: the panel's outputs in whole squares or the gradients of its padded inputs, channels last.
    whole: Vec<f32>,
    pooled: Vec<f32>,
    /// Positions of the pooled outputs of all images, (images, outputs, [`PANEL`]).
    squares: Vec<u8>,
}

impl PanelRoom {
    fn new(winograd: &Winograd) -> PanelRoom {
        let positions = winograd.square.positions();
        let kept = if winograd.after.pool {
            winograd.direct.kept() * PANEL
        } else {
            0
        };
        PanelRoom {
            of_kernels: Scratch::default(),
            kernels: vec![0.0; positions * depth(positions) * PANEL],
            products: vec![0.0; positions * winograd.squares() * PANEL],
            half: vec![0.0; positions * winograd.across * PANEL],
            whole: vec![0.0; winograd.whole(PANEL)],
            pooled: vec![0.0; kept],
            squares: vec![0; winograd.batch * kept],
        }
    }
}

/// Rows of kernels that are transformed at once.
fn depth(positions: usize) -> usize {
    KERNELS / (positions * PANEL) / 16 * 16
}

impl Winograd {
    /// Number of squares of all images.
    fn squares(&self) -> usize {
        self.batch * self.down * self.across
    }

    /// Whether the passes go by panels of channels instead of by images.
    pub(super) fn is_by_panels(&self) -> bool {
        let (channels, outputs) = (self.image.channels, self.outputs);
        self.square.positions() * self.squares() * PANEL <= PRODUCTS
            && channels.min(outputs) >= LEAST_CHANNELS
            && channels.is_multiple_of(PANEL)
            && outputs.is_multiple_of(PANEL)
    }

    /// Number of threads worth using for all multiplications of a pass.
    fn panel_threads(&self) -> usize {
        let products = self.square.positions() * self.squares();
        region::parts(2 * products * self.image.channels * self.outputs)
    }

    /// [`forward`](Winograd::forward) by panels of outputs.
    pub(super) fn forward_by_panels(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        let (batch, panels) = (self.batch, self.outputs / PANEL);
        let BatchSquares { inputs, .. } = self.squares_of_batch(x, None);
        let kept = self.direct.kept();
        let pooled = if self.after.pool { kept } else { 0 };
        let memory = (
            UninitInterleaved::new([1, batch, panels, PANEL * kept]),
            UninitInterleaved::new([1, batch * pooled, panels, PANEL]),
        );
        let schedule = Schedule::of_size(self.panel_threads(), panels, 1);
        let room = || PanelRoom::new(self);
        fill_parts_with(schedule, memory, room, |room, own, (mut y, mut squares)| {
            for panel in own.clone() {
                self.multiply_panel((weight, Columns::Outputs), panel, &inputs, room);
                let bias = bias.map(|bias| &bias[panel * PANEL..(panel + 1) * PANEL]);
                y.write_next(|image, y| self.outputs_of(image, bias, room, y));
                let mut positions = room.squares.chunks_exact(PANEL);
                squares.write_next(|_, slots| {
                    write_all(slots, positions.next().unwrap_or_default().iter().copied())
                });
            }
            (y.finish(), squares.finish())
        })
    }

    /// [`backward`](Winograd::backward) by panels of inputs, and of outputs for the gradient of the weight.
    pub(super) fn backward_by_panels(
        &self,
        (x, weight): (&[f32], &[f32]),
        outputs: (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        let of_image = OutputGradient {
            y: outputs.0,
            g: outputs.1,
            squares,
        };
        let BatchSquares {
            inputs,
            of_outputs,
            sums,
        } = self.squares_of_batch(x, Some(&of_image));
        let of_input = if of_input {
            self.input_gradients(weight, &of_outputs)
        } else {
            Vec::new()
        };
        let of_weight = self.weight_gradient(&inputs, &of_outputs);
        let mut bias_gradient = vec![0.0; self.outputs];
        add_rows(&mut bias_gradient, &sums, self.outputs, 0);
        [of_input, of_weight, bias_gradient]
    }

    /// Transforms the inputs of all images and the gradients of their outputs, if there are any.
    fn squares_of_batch(&self, x: &[f32], gradient: Option<&OutputGradient<'_>>) -> BatchSquares {
        let (channels, batch, positions) =
            (self.image.channels, self.batch, self.square.positions());
        let outputs = if gradient.is_some() { self.outputs } else { 0 };
        let squares = self.down * self.across;
        let mut sums = vec![0.0; batch * outputs];
        let memory = (
            UninitInterleaved::new([1, positions, batch, squares * channels]),
            UninitInterleaved::new([1, positions, batch, squares * outputs]),
            Rows::new(&mut sums, outputs),
        );
        let room = || {
            let of_one = gradient.is_some().then(|| Gradient::new(&self.direct));
            let whole = vec![0.0; self.whole(outputs)];
            (Vec::new(), of_one, whole, Room::new(self, self.down))
        };
        let schedule = Schedule::of_size(self.panel_threads(), batch, 1);
        let size = channels * self.image.height * self.image.width;
        let (inputs, of_outputs, ()) =
            fill_parts_with(schedule, memory, room, |room, own, parts| {
                let (image, of_one, whole, squares) = room;
                let (mut inputs, mut of_outputs, sums) = parts;
                for index in own.clone() {
                    let pixels = &x[index * size..][..size];
                    self.direct.channels_last(pixels, image);
                    self.transform_inputs(0..self.down, std::slice::from_ref(image), squares);
                    let mut each = squares.inputs.chunks_exact(squares.of_inputs);
                    inputs.write_next(|_, slots| {
                        write_all(slots, each.next().unwrap_or_default().iter().copied())
                    });
                    if let (Some(of_one), Some(gradient)) = (&mut *of_one, gradient) {
                        let g = gradient.of(self, index, of_one);
                        // Images of one chunk, of which each has sums of its own: see `schedule`.
                        add_rows(sums, g, outputs, 0);
                        self.spread(g, whole);
                        self.transform_gradients(0..self.down, whole, squares);
                    }
                    let mut each = squares.outputs.chunks_exact(squares.of_outputs);
                    of_outputs.write_next(|_, slots| {
                        let from = each.next().unwrap_or_default();
                        let count = slots.len();
                        write_all(slots, from[..count].iter().copied())
                    });
                }
                (inputs.finish(), of_outputs.finish(), ())
            });
        BatchSquares {
            inputs,
            of_outputs,
            sums,
        }
    }

    /// Multiplies transformed images, (positions, squares, rows), by a panel of kernels.
    fn multiply_panel(
        &self,
        (weight, columns): (&[f32], Columns),
        panel: usize,
        images: &[f32],
        room: &mut PanelRoom,
    ) {
        let (rows, _) = self.dims(columns);
        let (positions, squares) = (self.square.positions(), self.squares());
        let step = depth(positions);
        for first in (0..rows).step_by(step) {
            let own = first..rows.min(first + step);
            let each = own.len() * PANEL;
            let kernels = (&mut room.kernels[..], each);
            self.kernel_panel(
                (weight, columns),
                panel,
                &own,
                &mut room.of_kernels,
                kernels,
            );
            let products = room.products.chunks_exact_mut(squares * PANEL);
            for (position, products) in products.enumerate() {
                let left = LeftMatrix {
                    numbers: &images[position * squares * rows + first..],
                    row: rows,
                    steps: (0, 1),
                };
                let right = Right {
                    numbers: &room.kernels[position * each..],
                    panel: 0,
                    steps: (0, PANEL),
                };
                let mut target = if first == 0 {
                    TargetMatrix::replacing(products, squares, PANEL)
                } else {
                    TargetMatrix::adding(products, squares, PANEL)
                };
                multiply_tiles(&mut target, Depth::new(own.len()), left, right);
            }
        }
    }

    /// Computes the outputs of an image in a panel from its products.
    fn outputs_of<'a>(
        &self,
        image: usize,
        bias: Option<&[f32]>,
        room: &mut PanelRoom,
        y: &'a mut [MaybeUninit<f32>],
    ) -> &'a mut [f32] {
        self.map_products((Map::Output, self.whole_line(PANEL)), image, room);
        let kept = self.direct.kept();
        let whole = self.crop(&mut room.whole, PANEL);
        if let Some(bias) = bias {
            add_to_rows(whole, bias);
        }
        self.after.finish(whole, None, PANEL);
        let left = if self.after.pool {
            let line = self.image.columns * PANEL;
            let squares = &mut room.squares[image * kept * PANEL..][..kept * PANEL];
            largest(whole, line, PANEL, &mut room.pooled, squares);
            &room.pooled[..]
        } else {
            whole
        };
        transpose_whole(left, PANEL, (kept, PANEL), y)
    }

    /// Applies a map to the products of an image's squares, to its lines in `room`, of `line` elements each.
    fn map_products(&self, (map, line): (Map, usize), image: usize, room: &mut PanelRoom) {
        let each = self.squares() * PANEL;
        let width = self.across * PANEL;
        for index in 0..self.down {
            let first = (image * self.down + index) * width;
            let to = &mut room.whole[index * self.square.outputs() * line..];
            let (products, half) = (&room.products[first..], &mut room.half[..]);
            self.map_from_squares((map, PANEL), products, each, half, (to, line));
        }
    }

    /// The gradients of all images' inputs, from those of the transformed outputs.
    fn input_gradients(&self, weight: &[f32], of_outputs: &[f32]) -> Vec<f32> {
        let panels = self.image.channels / PANEL;
        let size = self.image.height * self.image.width * PANEL;
        let line = self.direct.line() * PANEL;
        let height = self.down * self.square.outputs() + 2;
        let room = || PanelRoom {
            whole: Vec::new(),
            ..PanelRoom::new(self)
        };
        let schedule = Schedule::of_size(self.panel_threads(), panels, 1);
        let memory = UninitInterleaved::new([1, self.batch, panels, size]);
        fill_parts_with(schedule, memory, room, |room, own, mut gradients| {
            for panel in own.clone() {
                self.multiply_panel((weight, Columns::Inputs), panel, of_outputs, room);
                gradients.write_next(|image, slots| {
                    room.whole.clear();
                    room.whole.resize(height * line, 0.0);
                    self.map_products((Map::InputBack, line), image, room);
                    self.direct.planes_of(&room.whole, PANEL, slots)
                });
            }
            gradients.finish()
        })
    }

    /// The gradient of the weight, from the transformed inputs and the gradients of the transformed outputs.
    fn weight_gradient(&self, inputs: &[f32], of_outputs: &[f32]) -> Vec<f32> {
        let (channels, outputs) = (self.image.channels, self.outputs);
        let (positions, squares) = (self.square.positions(), self.squares());
        let step = depth(positions);
        let size = PANEL * channels * 9;
        let panels = outputs / PANEL;
        let schedule = Schedule::of_size(self.panel_threads(), panels, 1);
        let room = || {
            let kernels = vec![0.0; positions * step * PANEL];
            (kernels, vec![0.0; step * 9 * PANEL])
        };
        let memory = UninitRows::new(panels, size);
        fill_parts_with(schedule, memory, room, |(kernels, taps), own, slots| {
            write_rows(slots, own, |panel, slots| {
                for first in (0..channels).step_by(step) {
                    let count = step.min(channels - first);
                    let each = count * PANEL;
                    let sums = kernels.chunks_exact_mut(each).take(positions);
                    for (position, sums) in sums.enumerate() {
                        let left = LeftMatrix {
                            numbers: &inputs[position * squares * channels + first..],
                            row: 1,
                            steps: (0, channels),
                        };
                        let right = Right {
                            numbers: &of_outputs[position * squares * outputs + panel * PANEL..],
                            panel: 0,
                            steps: (0, outputs),
                        };
                        let mut target = TargetMatrix::replacing(sums, count, PANEL);
                        multiply_tiles(&mut target, Depth::new(squares), left, right);
                    }
                    let steps = Steps {
                        vector: PANEL,
                        row: 9 * PANEL,
                    };
                    kernel_gradient(self.square, (kernels, each), count, taps, steps);
                    let to = &mut slots[first * 9..];
                    transpose_uninit(taps, PANEL, (count * 9, PANEL), to, channels * 9);
                }
                // SAFETY: the slots are (outputs of the panel, channels, taps); for each block of channels, which together
                // are all of them, the transposed copy has written all taps of all of the panel's outputs.
                #[expect(unsafe_code, reason = "they are written")]
                unsafe {
                    written(slots)
                }
            })
        })
    }
}

/// What the passes over panels read.
struct BatchSquares {
    /// The transformed inputs of all images, (positions, squares, inputs).
    inputs: Vec<f32>,
    /// The transformed gradients of their outputs, (positions, squares, outputs); empty in the forward pass.
    of_outputs: Vec<f32>,
    /// The sums of each image's gradients, (images, outputs); empty in the forward pass.
    sums: Vec<f32>,
}

/// The outputs of all images with their gradient and, with pooling, their positions in the squares.
struct OutputGradient<'a> {
    y: &'a [f32],
    g: &'a [f32],
    squares: &'a [u8],
}

impl OutputGradient<'_> {
    /// The gradient of an image's outputs before pooling, channels last.
    fn of<'r>(&self, winograd: &Winograd, image: usize, room: &'r mut Gradient) -> &'r [f32] {
        let kept = winograd.outputs * winograd.direct.kept();
        let own = image * kept..(image + 1) * kept;
        let squares = self.squares.get(own.clone()).unwrap_or_default();
        let g = room.of(
            &winograd.direct,
            &self.y[own.clone()],
            &self.g[own],
            squares,
        );
        &g[..winograd.windows() * winograd.outputs]
    }
}
