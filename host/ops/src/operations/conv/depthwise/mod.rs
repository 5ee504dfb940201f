//! Depthwise convolutions in `f32`: each group has one input channel, so there is nothing to multiply as matrices.
//!
//! A plane is copied once, with its padding, to memory of its thread. There each tap of the kernel sees the same flat
//! memory at an offset of its own, line ends included, so a plane's outputs are sums of a few shifted vectors
//! ([`taps`]); what comes out beyond the end of a line is dropped. With a stride, the copy is split into *phases*: the
//! elements whose row and column have the same remainders. Every tap then sees one phase, with a stride of 1.
//!
//! The gradients use the same memory: that of a phase is a sum of shifted vectors of the outputs' gradient, and that of
//! a tap the scalar product of both. So each pass reads its inputs from memory once and writes its result once.
//!
//! **Parts.** This file: sizes and the forward pass. `backward`: gradients. `phases`: copies of planes from and to
//! phases. `taps`: the vectorised loops.

mod backward;
mod phases;
mod taps;
#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use super::after;
use super::sizes::Conv;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts_with};
use crate::kernels::{Cursor, UninitBuffer, write_rows, zeros};
use crate::options::After;
use phases::Phases;
use taps::{BLOCK, correlate};

/// A convolution whose groups have one input channel each.
#[derive(Clone, Copy)]
pub(super) struct Depthwise {
    conv: Conv,
    after: After,
    phases: Phases,
    /// Output channels of one group.
    outputs: usize,
}

/// A thread's scratch memory: a plane's phases, and the outputs of one channel with the ends of their lines.
struct Room {
    inputs: Vec<f32>,
    sums: Vec<f32>,
    unpooled: UninitBuffer<f32>,
}

impl Depthwise {
    /// A depthwise convolution, if it is one.
    pub(super) fn of(conv: &Conv, after: After) -> Option<Depthwise> {
        (conv.image.channels == 1 && conv.groups > 1).then(|| Depthwise {
            conv: *conv,
            after,
            phases: Phases::of(&conv.image),
            outputs: conv.group_outputs(),
        })
    }

    /// Number of outputs of one channel.
    fn windows(&self) -> usize {
        self.conv.image.rows * self.conv.image.columns
    }

    /// Number of elements of one channel's outputs with the ends of their lines, in whole blocks.
    fn length(&self) -> usize {
        let lines = self.conv.image.rows * self.phases.width;
        lines.next_multiple_of(BLOCK)
    }

    /// Computes the outputs and, with pooling, their positions in the squares.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        let Conv { image, groups, .. } = self.conv;
        let (outputs, windows) = (self.outputs, self.windows());
        let images = self.conv.batch * groups;
        let kept = outputs * self.conv.kept(self.after);
        let pooled = if self.after.pool { kept } else { 0 };
        let offsets = self.phases.offsets(image.window);
        let mut squares = vec![0; images * pooled];
        let memory = (
            UninitRows::new(images, kept),
            Rows::new(&mut squares, pooled),
        );
        let room = || Room {
            inputs: self.phases.room(),
            sums: vec![0.0; self.length()],
            unpooled: after::room(self.after, outputs * windows),
        };
        let schedule = Schedule::stealing(self.conv.parts(), images, 1);
        let (y, ()) = fill_parts_with(schedule, memory, room, |room, images, (y, squares)| {
            let Room {
                inputs,
                sums,
                unpooled,
            } = room;
            let first = images.start;
            let y = write_rows(y, images, |index, y| {
                let group = index % groups;
                let size = image.height * image.width;
                self.phases.fill(&x[index * size..][..size], inputs);
                let own = group * outputs..(group + 1) * outputs;
                let bias = bias.map(|bias| &bias[own.clone()]);
                let weight = &weight[own.start * offsets.len()..own.end * offsets.len()];
                let seen = (&inputs[..], &offsets[..]);
                if self.after.pool {
                    let squares = &mut squares[(index - first) * pooled..][..pooled];
                    let y = zeros(y);
                    let sides = (image.rows, image.columns);
                    let whole = self.planes(seen, (weight, bias), sums, unpooled.slots());
                    after::pool(whole, sides, y, squares);
                    y
                } else {
                    self.planes(seen, (weight, bias), sums, y)
                }
            });
            (y, ())
        });
        (y, squares)
    }
    /// Computes the outputs of a plane, (outputs, windows), from its phases and the offsets of the kernel's taps.
    fn planes<'a>(
        &self,
        (inputs, offsets): (&[f32], &[usize]),
        (weight, bias): (&[f32], Option<&[f32]>),
        sums: &mut [f32],
        slots: &'a mut [MaybeUninit<f32>],
    ) -> &'a mut [f32] {
        let planes = write_rows(slots, &(0..self.outputs), |output, plane| {
            let weight = &weight[output * offsets.len()..][..offsets.len()];
            correlate(inputs, offsets, weight, sums);
            let mut plane = Cursor::new(plane);
            let lines = sums.chunks_exact(self.phases.width);
            for line in lines.take(self.conv.image.rows) {
                plane.write(self.conv.image.columns, line.iter().copied());
            }
            plane.finish()
        });
        self.after.finish(planes, bias, self.windows());
        planes
    }
}
