//! Images from and to transformed squares.

use std::ops::Range;

use super::transforms::{INPUT, INPUT_BACK, OUTPUT, OUTPUT_BACK, Shape, combine};
use super::{POSITIONS, Winograd};

/// Scratch memory for some lines of squares.
pub(super) struct Room {
    /// For each position the inputs of all squares, (squares, inputs); in the backward pass then their gradients.
    pub(super) inputs: Vec<f32>,
    /// Number of elements of a position in `inputs`, and in `outputs`.
    pub(super) of_inputs: usize,
    pub(super) of_outputs: usize,
    /// For each position the outputs of all squares, (squares, outputs), or their gradients.
    pub(super) outputs: Vec<f32>,
    /// Squares transformed in one direction.
    half: Vec<f32>,
}

impl Room {
    pub(super) fn new(winograd: &Winograd, is_backward: bool) -> Room {
        let (channels, outputs) = (winograd.image.channels, winograd.outputs);
        let lines = winograd.lines().min(winograd.together() * winograd.down);
        let squares = lines * winograd.across;
        let (of_inputs, of_outputs) = (squares * channels, squares * outputs);
        let line = winograd.direct.line() * channels;
        let half = (4 * line).max(8 * of_outputs);
        Room {
            inputs: vec![0.0; POSITIONS * of_inputs],
            of_inputs,
            of_outputs,
            outputs: vec![0.0; POSITIONS * of_outputs],
            half: vec![
                0.0;
                if is_backward {
                    half.max(4 * of_inputs)
                } else {
                    half
                }
            ],
        }
    }
}

impl Winograd {
    /// Bᵀ d B of some lines of squares, counted over all images.
    pub(super) fn transform_inputs(
        &self,
        lines: Range<usize>,
        images: &[Vec<f32>],
        room: &mut Room,
    ) {
        let channels = self.image.channels;
        let line = self.direct.line() * channels;
        let squares = Shape {
            rows: self.across,
            width: channels,
            steps: (channels, 2 * channels),
        };
        for (index, at) in lines.enumerate() {
            let image = &images[at / self.down][at % self.down * 2 * line..];
            for (terms, half) in INPUT.into_iter().zip(room.half.chunks_exact_mut(line)) {
                let source = |row: usize| &image[row * line..];
                combine(half, terms, source, Shape::line(line), false);
            }
            let first = index * self.across * channels;
            for i in 0..4 {
                let half = &room.half[i * line..][..line];
                for (j, terms) in INPUT.into_iter().enumerate() {
                    let to = &mut room.inputs[(i * 4 + j) * room.of_inputs + first..];
                    let source = |column: usize| &half[column * channels..];
                    combine(to, terms, source, squares, false);
                }
            }
        }
    }

    /// Aᵀ M A of some lines of squares, to the channels-last outputs of all images.
    pub(super) fn transform_outputs(
        &self,
        lines: Range<usize>,
        room: &mut Room,
        whole: &mut [f32],
    ) {
        let outputs = self.outputs;
        let count = room.of_outputs;
        let all = Shape::line(lines.len() * self.across * outputs);
        let mut halves = room.half.chunks_exact_mut(count);
        for terms in OUTPUT {
            for (j, half) in halves.by_ref().take(4).enumerate() {
                let source = |row: usize| &room.outputs[(row * 4 + j) * count..];
                combine(half, terms, source, all, false);
            }
        }
        for (index, at) in lines.enumerate() {
            let first = index * self.across * outputs;
            self.each_output(at, |i, j, start, squares| {
                let source = |column: usize| &room.half[(i * 4 + column) * count + first..];
                let shape = Shape {
                    rows: squares,
                    width: outputs,
                    steps: (2 * outputs, outputs),
                };
                combine(&mut whole[start..], OUTPUT[j], source, shape, false);
            });
        }
    }

    /// Calls `at(row, column, index of the first one, number of squares)` for each of the four outputs of a line's
    /// squares; the last squares of an image of odd size have fewer.
    fn each_output(&self, line: usize, mut at: impl FnMut(usize, usize, usize, usize)) {
        let (rows, columns) = (self.image.rows, self.image.columns);
        let (image, line) = (line / self.down, line % self.down);
        for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let row = 2 * line + i;
            if row < rows && j < columns {
                let start = (image * rows + row) * columns + j;
                at(i, j, start * self.outputs, (columns - j).div_ceil(2));
            }
        }
    }

    /// A g Aᵀ of some lines of squares, from the channels-last gradients of all images' outputs.
    pub(super) fn transform_gradients(&self, lines: Range<usize>, g: &[f32], room: &mut Room) {
        let outputs = self.outputs;
        let count = room.of_outputs;
        let used = lines.len() * self.across * outputs;
        // Outputs beyond an image of odd size have no gradient.
        for half in room.half.chunks_exact_mut(count).take(8) {
            half[..used].fill(0.0);
        }
        for (index, at) in lines.enumerate() {
            let first = index * self.across * outputs;
            self.each_output(at, |i, j, start, squares| {
                let shape = Shape {
                    rows: squares,
                    width: outputs,
                    steps: (outputs, 2 * outputs),
                };
                for (column, terms) in OUTPUT_BACK.into_iter().enumerate() {
                    let own = terms.iter().position(|&(output, _)| output == j);
                    if let Some(own) = own {
                        let half = &mut room.half[(i * 4 + column) * count + first..];
                        combine(half, &terms[own..=own], |_| &g[start..], shape, true);
                    }
                }
            });
        }
        for (i, terms) in OUTPUT_BACK.into_iter().enumerate() {
            for j in 0..4 {
                let to = &mut room.outputs[(i * 4 + j) * count..];
                let source = |row: usize| &room.half[(row * 4 + j) * count..];
                combine(to, terms, source, Shape::line(used), false);
            }
        }
    }

    /// Adds B v Bᵀ of some lines of squares to the padded channels-last gradients of all images' inputs.
    pub(super) fn add_input_gradients(
        &self,
        lines: Range<usize>,
        room: &mut Room,
        images: &mut [Vec<f32>],
    ) {
        let channels = self.image.channels;
        let line = self.direct.line() * channels;
        let count = room.of_inputs;
        let used = lines.len() * self.across * channels;
        let shape = Shape {
            rows: self.across,
            width: channels,
            steps: (2 * channels, channels),
        };
        for (i, terms) in INPUT_BACK.into_iter().enumerate() {
            for j in 0..4 {
                let source = |row: usize| &room.inputs[(row * 4 + j) * count..];
                combine(
                    &mut room.half[j * count..],
                    terms,
                    source,
                    Shape::line(used),
                    false,
                );
            }
            for (index, at) in lines.clone().enumerate() {
                let first = index * self.across * channels;
                let image = &mut images[at / self.down][(at % self.down * 2 + i) * line..];
                for (j, terms) in INPUT_BACK.into_iter().enumerate() {
                    let source = |column: usize| &room.half[column * count + first..];
                    combine(&mut image[j * channels..], terms, source, shape, true);
                }
            }
        }
    }
}
