//! Images from and to transformed squares.
//!
//! A map is applied along the columns of squares first and then along their rows, or the other way round; in between, one
//! line of squares is in `half`.

use std::ops::Range;

use super::Winograd;
use super::transforms::{Map, Shape, Steps, transform};

/// Scratch memory for some lines of squares.
pub(super) struct Room {
    /// For each position the inputs of all squares, (squares, inputs); in the backward pass then their gradients.
    pub(super) inputs: Vec<f32>,
    /// Number of elements of a position in `inputs`, and in `outputs`.
    pub(super) of_inputs: usize,
    pub(super) of_outputs: usize,
    /// For each position the outputs of all squares, (squares, outputs), or their gradients.
    pub(super) outputs: Vec<f32>,
    /// A line of squares transformed in one direction.
    half: Vec<f32>,
}

impl Room {
    /// For this many lines of squares.
    pub(super) fn new(winograd: &Winograd, lines: usize) -> Room {
        let (channels, outputs) = (winograd.image.channels, winograd.outputs);
        let (side, positions) = (winograd.square.side(), winograd.square.positions());
        let squares = lines * winograd.across;
        let (of_inputs, of_outputs) = (squares * channels, squares * outputs);
        let most = channels.max(outputs);
        let half = (winograd.across * positions).max(side * winograd.direct.line()) * most;
        Room {
            inputs: vec![0.0; positions * of_inputs],
            of_inputs,
            of_outputs,
            outputs: vec![0.0; positions * of_outputs],
            half: vec![0.0; half],
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
        let line = self.direct.line() * self.image.channels;
        for (index, at) in lines.enumerate() {
            let first_row = at % self.down * self.square.outputs();
            self.map_to_squares(
                (Map::Input, self.image.channels),
                (&images[at / self.down][first_row * line..], line),
                &mut room.half,
                &mut room.inputs[index * self.across * self.image.channels..],
                room.of_inputs,
            );
        }
    }

    /// A g Aᵀ of some lines of squares, from the gradients of all images' outputs in whole squares, channels last.
    pub(super) fn transform_gradients(&self, lines: Range<usize>, g: &[f32], room: &mut Room) {
        let line = self.across * self.square.outputs() * self.outputs;
        for (index, at) in lines.enumerate() {
            self.map_to_squares(
                (Map::OutputBack, self.outputs),
                (&g[at * self.square.outputs() * line..], line),
                &mut room.half,
                &mut room.outputs[index * self.across * self.outputs..],
                room.of_outputs,
            );
        }
    }

    /// Applies a map to the rows and columns of a line of squares, from an image whose lines have `line` elements, to
    /// positions `each` elements apart.
    fn map_to_squares(
        &self,
        (map, channels): (Map, usize),
        (image, line): (&[f32], usize),
        half: &mut [f32],
        squares: &mut [f32],
        each: usize,
    ) {
        let map = (self.square, map);
        transform(map, image, half, Shape::line(line, line, line), false);
        let across = Shape {
            rows: self.across,
            width: channels,
            from: Steps {
                vector: channels,
                row: self.square.outputs() * channels,
            },
            to: Steps {
                vector: each,
                row: channels,
            },
        };
        let side = self.square.side();
        for i in 0..side {
            let to = &mut squares[i * side * each..];
            transform(map, &half[i * line..], to, across, false);
        }
    }

    /// Aᵀ M A of some lines of squares, to the outputs of all images in whole squares, channels last.
    pub(super) fn transform_outputs(
        &self,
        lines: Range<usize>,
        room: &mut Room,
        whole: &mut [f32],
    ) {
        let line = self.across * self.square.outputs() * self.outputs;
        for (index, at) in lines.enumerate() {
            self.map_from_squares(
                (Map::Output, self.outputs),
                &room.outputs[index * self.across * self.outputs..],
                room.of_outputs,
                &mut room.half,
                (&mut whole[at * self.square.outputs() * line..], line),
            );
        }
    }

    /// Adds B v Bᵀ of some lines of squares to the padded channels-last gradients of all images' inputs.
    pub(super) fn add_input_gradients(
        &self,
        lines: Range<usize>,
        room: &mut Room,
        images: &mut [Vec<f32>],
    ) {
        let line = self.direct.line() * self.image.channels;
        for (index, at) in lines.enumerate() {
            let first_row = at % self.down * self.square.outputs();
            self.map_from_squares(
                (Map::InputBack, self.image.channels),
                &room.inputs[index * self.across * self.image.channels..],
                room.of_inputs,
                &mut room.half,
                (&mut images[at / self.down][first_row * line..], line),
            );
        }
    }

    /// Applies a map to the columns and rows of a line of squares, from positions `each` elements apart to an image whose
    /// lines have `line` elements. Gradients of inputs are added, as squares overlap.
    pub(super) fn map_from_squares(
        &self,
        (map, channels): (Map, usize),
        squares: &[f32],
        each: usize,
        half: &mut [f32],
        (image, line): (&mut [f32], usize),
    ) {
        let (adds, rows) = match map {
            Map::InputBack => (true, self.square.side()),
            _ => (false, self.square.outputs()),
        };
        let map = (self.square, map);
        let (side, width) = (self.square.side(), self.across * channels);
        for j in 0..side {
            let (from, to) = (&squares[j * each..], &mut half[j * width..]);
            let shape = Shape::line(width, side * each, side * width);
            transform(map, from, to, shape, false);
        }
        let across = Shape {
            rows: self.across,
            width: channels,
            from: Steps {
                vector: width,
                row: channels,
            },
            to: Steps {
                vector: channels,
                row: self.square.outputs() * channels,
            },
        };
        for i in 0..rows {
            let from = &half[i * side * width..];
            transform(map, from, &mut image[i * line..], across, adds);
        }
    }
}
