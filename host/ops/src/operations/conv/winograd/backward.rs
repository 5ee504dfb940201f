//! Gradients by squares of outputs.

use super::Winograd;
use super::kernels::{Columns, kernel_gradient};
use super::squares::Room;
use super::transforms::Steps;
use crate::kernels::fill::{UninitRows, fill_parts_with};
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, add_rows, multiply_tiles, write_rows, zeros,
};
use crate::operations::conv::direct::Gradient;

/// A thread's scratch memory in the backward pass.
struct RoomBack {
    /// Channels-last images with their padding, and the gradients of these.
    images: Vec<Vec<f32>>,
    gradients: Vec<Vec<f32>>,
    of_one: Gradient,
    /// Gradients of these images' outputs in whole squares, channels last; zeros beyond the ends of images.
    of_outputs: Vec<f32>,
    squares: Room,
    /// Gradient of the kernel's squares, (positions, inputs, outputs).
    of_kernels: Vec<f32>,
    bias_sums: Vec<f32>,
}

impl Winograd {
    /// Computes the gradients of input (if wanted), weight and bias from the outputs and their gradient.
    pub(in crate::operations::conv) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (y, g): (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        if self.is_by_panels() {
            return self.backward_by_panels((x, weight), (y, g), squares, of_input);
        }
        let (channels, outputs, windows) = (self.image.channels, self.outputs, self.windows());
        let kept = outputs * self.direct.kept();
        let inputs = channels * self.image.height * self.image.width;
        let (together, positions) = (self.together(), self.square.positions());
        let kernels = if of_input {
            self.kernels(weight, Columns::Inputs)
        } else {
            Vec::new()
        };
        let (schedule, size) = self.direct.partial_sums(x.len());
        let memory = (
            UninitRows::new(self.batch, if of_input { inputs } else { 0 }),
            UninitRows::per_chunk(schedule.chunks(), size),
        );
        let room = || RoomBack {
            images: vec![Vec::new(); together],
            gradients: vec![Vec::new(); together],
            of_one: Gradient::new(&self.direct),
            of_outputs: vec![0.0; together * self.whole(outputs)],
            squares: Room::new(self, self.lines()),
            of_kernels: Vec::new(),
            bias_sums: vec![0.0; outputs],
        };
        let (x_gradient, sums) = fill_parts_with(schedule, memory, room, |room, images, parts| {
            let (x_gradient, sums) = parts;
            let sums = zeros(sums);
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            room.of_kernels.clear();
            room.of_kernels.resize(positions * channels * outputs, 0.0);
            let x_gradient = write_rows(x_gradient, images, |index, slots| {
                let member = (index - images.start) % together;
                if member == 0 {
                    let count = together.min(images.end - index);
                    for (of, image) in room.images.iter_mut().take(count).enumerate() {
                        let image_index = index + of;
                        let pixels = &x[image_index * inputs..][..inputs];
                        self.direct.channels_last(pixels, image);
                        let own = image_index * kept..(image_index + 1) * kept;
                        let squares = squares.get(own.clone()).unwrap_or_default();
                        let g = room
                            .of_one
                            .of(&self.direct, &y[own.clone()], &g[own], squares);
                        let g = &g[..windows * outputs];
                        self.spread(g, &mut room.of_outputs[of * self.whole(outputs)..]);
                        // Of one image first, so that sums and what is added to them stay of similar magnitude.
                        room.bias_sums.fill(0.0);
                        add_rows(&mut room.bias_sums, g, outputs, 0);
                        add_rows(bias_sums, &room.bias_sums, outputs, 0);
                    }
                    self.multiply_back(&kernels, count, room);
                }
                if of_input {
                    self.direct
                        .planes_of(&room.gradients[member], channels, slots)
                } else {
                    zeros(slots)
                }
            });
            let each = channels * outputs;
            let steps = Steps {
                vector: each,
                row: PANEL,
            };
            let positions = (&room.of_kernels[..], each);
            kernel_gradient(self.square, positions, each / PANEL, weight_sums, steps);
            (x_gradient, sums)
        });
        self.direct.sum_up(&sums, size, x_gradient)
    }

    /// Copies the gradients of an image's outputs to whole squares.
    pub(super) fn spread(&self, g: &[f32], whole: &mut [f32]) {
        let lines = whole.chunks_exact_mut(self.whole_line(self.outputs));
        let kept = self.image.columns * self.outputs;
        for (to, g) in lines.zip(g.chunks_exact(kept)) {
            to[..kept].copy_from_slice(g);
        }
    }

    /// Adds the gradient of the kernel's squares from the first `count` images of `room`, and computes those of the
    /// images, if there are kernels for them.
    fn multiply_back(&self, kernels: &[f32], count: usize, room: &mut RoomBack) {
        let (channels, outputs) = (self.image.channels, self.outputs);
        let positions = self.square.positions();
        let RoomBack {
            images,
            gradients,
            of_outputs,
            squares: memory,
            of_kernels,
            ..
        } = room;
        if !kernels.is_empty() {
            for (gradient, image) in gradients.iter_mut().zip(&*images).take(count) {
                gradient.clear();
                gradient.resize(image.len(), 0.0);
            }
        }
        for lines in self.blocks(count) {
            let squares = lines.len() * self.across;
            self.transform_inputs(lines.clone(), images, memory);
            self.transform_gradients(lines.clone(), of_outputs, memory);
            let sums = of_kernels.chunks_exact_mut(channels * outputs);
            for (position, sums) in sums.enumerate() {
                let left = LeftMatrix {
                    numbers: &memory.inputs[position * memory.of_inputs..],
                    row: 1,
                    steps: (0, channels),
                };
                let right = Right {
                    numbers: &memory.outputs[position * memory.of_outputs..],
                    panel: PANEL,
                    steps: (0, outputs),
                };
                let mut target = TargetMatrix::adding(sums, channels, outputs);
                multiply_tiles(&mut target, Depth::new(squares), left, right);
            }
            if kernels.is_empty() {
                continue;
            }
            for position in 0..positions {
                let left = LeftMatrix {
                    numbers: &memory.outputs[position * memory.of_outputs..],
                    row: outputs,
                    steps: (0, 1),
                };
                let right = Right {
                    numbers: &kernels[position * outputs * PANEL..],
                    panel: positions * outputs * PANEL,
                    steps: (0, PANEL),
                };
                let of_inputs = &mut memory.inputs[position * memory.of_inputs..];
                let mut target = TargetMatrix::replacing(of_inputs, squares, channels);
                multiply_tiles(&mut target, Depth::new(outputs), left, right);
            }
            self.add_input_gradients(lines, memory, gradients);
        }
    }
}
