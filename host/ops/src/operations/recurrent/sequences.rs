//! All positions of sequences. Threads share the sequences, so that none waits for another between two positions.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::cells::{gru, gru_gradients, lstm, lstm_gradients};
use crate::kernels::fill::{Schedule, UninitRows, fill_parts_with};
use crate::kernels::{
    BlockScratch, Matrix, PackedRight, Terms, UninitBuffer, add_rows, has_tiles,
    multiply_packed_uninit, multiply_uninit, region, zeros,
};
use crate::options::RecurrentKind;

/// Sequences (batch, length) through one direction of a layer with a state of `width` elements.
#[derive(Clone, Copy)]
pub(super) struct Sequences {
    pub(super) batch: usize,
    pub(super) length: usize,
    pub(super) width: usize,
    pub(super) kind: RecurrentKind,
    /// Whether the first state is that of the last position.
    pub(super) reverse: bool,
}

impl Sequences {
    /// Elements of all gates at a position.
    fn gates(self) -> usize {
        self.kind.gates() * self.width
    }

    /// Elements that the backward pass needs of a position: all gates, and what is as wide as the state.
    fn kept(self) -> usize {
        self.gates() + self.width
    }

    /// The position of a step.
    fn position(self, step: usize) -> usize {
        if self.reverse {
            self.length - 1 - step
        } else {
            step
        }
    }

    /// The position whose state is the one before that of a step; the first has none.
    fn position_before(self, step: usize) -> Option<usize> {
        step.checked_sub(1).map(|before| self.position(before))
    }

    fn threads(self) -> usize {
        region::parts(2 * self.batch * self.length * self.gates() * self.width)
    }

    fn schedule(self) -> Schedule {
        Schedule::per_thread(self.threads(), self.batch, 1)
    }

    /// States (batch, length, width) from what the gates get of the inputs (batch, length, gates), and what the backward pass needs.
    pub(super) fn forward(
        self,
        inputs: &[f32],
        weight: &[f32],
        bias: &[f32],
    ) -> (Vec<f32>, Vec<f32>) {
        let (gates, width) = (self.gates(), self.width);
        let product = StateProduct::new(self.threads(), Matrix::new(weight, gates, width).t());
        let memory = (
            UninitRows::new(self.batch, self.length * width),
            UninitRows::new(self.batch, self.length * self.kept()),
        );
        let room = BlockScratch::default;
        fill_parts_with(
            self.schedule(),
            memory,
            room,
            |scratch, sequences, (y, kept)| {
                let (y, kept) = (zeros(y), zeros(kept));
                let count = sequences.len();
                if count == 0 {
                    return (y, kept);
                }
                let (mut states, mut cells) = (vec![0.0; count * width], vec![0.0; count * width]);
                let mut sums = UninitBuffer::new(count * gates);
                for position in (0..self.length).map(|step| self.position(step)) {
                    let left = Matrix::new(&states, count, width);
                    let sums = product.multiply(sums.slots(), (left, count), Some(bias), scratch);
                    for (own, sequence) in sequences.clone().enumerate() {
                        let of_inputs = &inputs[row(sequence * self.length + position, gates)];
                        let of_state = &sums[row(own, gates)];
                        let at = own * self.length + position;
                        let kept = &mut kept[row(at, self.kept())];
                        let state = &mut states[row(own, width)];
                        match self.kind {
                            RecurrentKind::Lstm => {
                                let cell = &mut cells[row(own, width)];
                                lstm(of_inputs, of_state, kept, cell, state);
                            }
                            RecurrentKind::Gru => gru(of_inputs, of_state, kept, state),
                        }
                        y[row(at, width)].copy_from_slice(state);
                    }
                }
                (y, kept)
            },
        )
    }

    /// Gradients of what the gates get of the inputs and of the state, each (batch, length, gates); the second is empty where it is the
    /// first. `y` are the states, `g` their gradients.
    pub(super) fn backward(
        self,
        kept: &[f32],
        y: &[f32],
        g: &[f32],
        weight: &[f32],
    ) -> (Vec<f32>, Vec<f32>) {
        let (gates, width) = (self.gates(), self.width);
        let product = StateProduct::new(self.threads(), Matrix::new(weight, gates, width));
        let has_two = self.kind == RecurrentKind::Gru;
        let each = self.length * gates;
        let memory = (
            UninitRows::new(self.batch, each),
            UninitRows::new(self.batch, if has_two { each } else { 0 }),
        );
        let none = vec![0.0; width];
        let room = BlockScratch::default;
        fill_parts_with(
            self.schedule(),
            memory,
            room,
            |scratch, sequences, (of_inputs, of_states)| {
                let (of_inputs, of_states) = (zeros(of_inputs), zeros(of_states));
                let count = sequences.len();
                if count == 0 {
                    return (of_inputs, of_states);
                }
                // Of the state and of the cell after the position at hand, from the positions after it.
                let (mut of_state, mut of_cell) =
                    (vec![0.0; count * width], vec![0.0; count * width]);
                let mut products = UninitBuffer::new(count * width);
                for step in (0..self.length).rev() {
                    let position = self.position(step);
                    let before = self.position_before(step);
                    for (own, sequence) in sequences.clone().enumerate() {
                        let at = sequence * self.length + position;
                        let (kept, g) = (&kept[row(at, self.kept())], &g[row(at, width)]);
                        let own_gates = row(own * self.length + position, gates);
                        let of_state = &mut of_state[row(own, width)];
                        let of_inputs = &mut of_inputs[own_gates.clone()];
                        match self.kind {
                            RecurrentKind::Lstm => {
                                let of_cell = &mut of_cell[row(own, width)];
                                lstm_gradients(kept, g, of_state, of_cell, of_inputs);
                            }
                            RecurrentKind::Gru => {
                                let of_states = &mut of_states[own_gates];
                                let before = before.map_or(&none[..], |before| {
                                    &y[row(sequence * self.length + before, width)]
                                });
                                gru_gradients(kept, before, g, of_state, of_inputs, of_states);
                            }
                        }
                    }
                    if before.is_none() {
                        continue;
                    }
                    let left: &[f32] = if has_two { of_states } else { of_inputs };
                    let left = &left[position * gates..];
                    let left = Matrix::with_steps(left, count, gates, (each, 1));
                    let products = product.multiply(products.slots(), (left, count), None, scratch);
                    if has_two {
                        add_rows(&mut of_state, products, count * width, 0);
                    } else {
                        of_state.copy_from_slice(products);
                    }
                }
                (of_inputs, of_states)
            },
        )
    }

    /// The state before each position (batch, length, width), of which the first is 0.
    pub(super) fn states_before(self, y: &[f32]) -> Vec<f32> {
        let mut before = vec![0.0; y.len()];
        for sequence in 0..self.batch {
            let first = sequence * self.length;
            for step in 0..self.length {
                if let Some(position) = self.position_before(step) {
                    before[row(first + self.position(step), self.width)]
                        .copy_from_slice(&y[row(first + position, self.width)]);
                }
            }
        }
        before
    }
}

/// Elements of a row of this width.
fn row(index: usize, width: usize) -> Range<usize> {
    index * width..(index + 1) * width
}

/// Products by one matrix, at each position by other rows.
enum StateProduct<'a> {
    /// Packed once for all positions.
    Packed(PackedRight),
    InPlace(Matrix<'a, f32>),
}

impl<'a> StateProduct<'a> {
    fn new(threads: usize, right: Matrix<'a, f32>) -> StateProduct<'a> {
        if has_tiles() {
            StateProduct::Packed(PackedRight::new(threads, right, Terms::Singles))
        } else {
            StateProduct::InPlace(right)
        }
    }

    /// The product with this many rows, each of which begins with `row`, if any.
    fn multiply<'s>(
        &self,
        slots: &'s mut [MaybeUninit<f32>],
        (left, count): (Matrix<'_, f32>, usize),
        row: Option<&[f32]>,
        scratch: &mut BlockScratch,
    ) -> &'s mut [f32] {
        match self {
            StateProduct::Packed(right) => {
                multiply_packed_uninit(slots, left, &(0..count), right, (row, false), scratch)
            }
            StateProduct::InPlace(right) => {
                let product = multiply_uninit(slots, left, *right);
                if let Some(row) = row {
                    for line in product.chunks_exact_mut(row.len()) {
                        add_rows(line, row, row.len(), 0);
                    }
                }
                product
            }
        }
    }
}
