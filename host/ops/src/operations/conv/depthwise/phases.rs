//! Planes as phases: the elements of a padded plane whose row and column have the same remainders by the strides.

use std::mem::MaybeUninit;

use super::taps::BLOCK;
use crate::kernels::Cursor;
use crate::options::{UnfoldSizes, Window};
use crate::vectorised;

/// Sizes of a plane's phases, which lie one after the other: phase (a, b) at index a · horizontal stride + b.
#[derive(Clone, Copy)]
pub(super) struct Phases {
    /// Sizes of a plane without padding.
    plane: (usize, usize),
    padding: (usize, usize),
    stride: (usize, usize),
    /// Number of elements in a line of a phase.
    pub(super) width: usize,
    /// Number of elements of a phase.
    pub(super) size: usize,
}

impl Phases {
    pub(super) fn of(image: &UnfoldSizes) -> Phases {
        let Window {
            padding, stride, ..
        } = image.window;
        let width = (image.width + 2 * padding.1).div_ceil(stride.1);
        let height = (image.height + 2 * padding.0).div_ceil(stride.0);
        Phases {
            plane: (image.height, image.width),
            padding,
            stride,
            width,
            size: height * width,
        }
    }

    /// Number of phases.
    pub(super) fn count(&self) -> usize {
        self.stride.0 * self.stride.1
    }

    /// Memory for a plane's phases, with zeros in the padding, to be read in whole blocks.
    pub(super) fn room(&self) -> Vec<f32> {
        vec![0.0; self.count() * self.size + BLOCK]
    }

    /// Phase that each tap of a kernel sees, and the offset in it of what it sees of the first window.
    pub(super) fn taps(&self, window: Window) -> Vec<(usize, usize)> {
        let (down, across) = window.kernel;
        let taps = (0..down * across).map(|tap| {
            let row = tap / across * window.dilation.0;
            let column = tap % across * window.dilation.1;
            let phase = row % self.stride.0 * self.stride.1 + column % self.stride.1;
            let offset = row / self.stride.0 * self.width + column / self.stride.1;
            (phase, offset)
        });
        taps.collect()
    }

    /// Offset in the memory of all phases of what each tap of a kernel sees of the first window.
    pub(super) fn offsets(&self, window: Window) -> Vec<usize> {
        let taps = self.taps(window).into_iter();
        taps.map(|(phase, offset)| phase * self.size + offset)
            .collect()
    }

    /// Copies a plane to its phases.
    pub(super) fn fill(&self, plane: &[f32], phases: &mut [f32]) {
        let (height, width) = self.plane;
        for row in 0..height {
            let line = &plane[row * width..][..width];
            if self.stride.1 == 1 {
                copy_line(line, &mut phases[self.start(row, 0)..]);
            } else if self.stride.1 == 2 {
                let (even, odd) = (self.start(row, 0), self.start(row, 1));
                split(line, phases, even, odd);
            } else {
                for (column, &x) in line.iter().enumerate() {
                    phases[self.start(row, column)] = x;
                }
            }
        }
    }

    /// Copies a plane from its phases, `each` elements apart.
    pub(super) fn plane<'a>(
        &self,
        phases: &[f32],
        each: usize,
        slots: &'a mut [MaybeUninit<f32>],
    ) -> &'a mut [f32] {
        let (height, width) = self.plane;
        let at = |row, column| {
            let (phase, offset) = self.position(row, column);
            phase * each + offset
        };
        let mut plane = Cursor::new(slots);
        for row in 0..height {
            if self.stride.1 == 1 {
                plane.write(width, phases[at(row, 0)..][..width].iter().copied());
            } else if self.stride.1 == 2 {
                let half = width.div_ceil(2);
                let even = &phases[at(row, 0)..][..half];
                let odd = &phases[at(row, 1)..][..width / 2];
                merge(even, odd, &mut plane);
                plane.write(width % 2, even[width / 2..].iter().copied());
            } else {
                let line = (0..width).map(|column| phases[at(row, column)]);
                plane.write(width, line);
            }
        }
        plane.finish()
    }

    /// Index in the memory of all phases of an element of the plane.
    fn start(&self, row: usize, column: usize) -> usize {
        let (phase, offset) = self.position(row, column);
        phase * self.size + offset
    }

    /// Phase of an element of the plane, and its index in the phase.
    fn position(&self, row: usize, column: usize) -> (usize, usize) {
        let (line, a) = divided(row + self.padding.0, self.stride.0);
        let (across, b) = divided(column + self.padding.1, self.stride.1);
        (a * self.stride.1 + b, line * self.width + across)
    }
}

/// Quotient and remainder by a stride, which is mostly 1 or 2: a division takes longer than to copy half a line.
fn divided(index: usize, stride: usize) -> (usize, usize) {
    match stride {
        1 => (index, 0),
        2 => (index / 2, index % 2),
        _ => (index / stride, index % stride),
    }
}

/// Copies a line; one of a usual width by a few instructions, which is less than a call.
pub(super) fn copy_line(line: &[f32], to: &mut [f32]) {
    match line.len() {
        8 => copy::<8>(line, to),
        16 => copy::<16>(line, to),
        32 => copy::<32>(line, to),
        width => to[..width].copy_from_slice(line),
    }
}

fn copy<const N: usize>(line: &[f32], to: &mut [f32]) {
    if let Some(line) = line.first_chunk::<N>() {
        to[..N].copy_from_slice(line);
    }
}

vectorised! {
    /// Copies the elements of a line alternately to two positions.
    fn split(line: &[f32], to: &mut [f32], even: usize, odd: usize) {
        let half = line.len() / 2;
        for (&[x, _], to) in line.as_chunks::<2>().0.iter().zip(&mut to[even..]) {
            *to = x;
        }
        for (&[_, x], to) in line.as_chunks::<2>().0.iter().zip(&mut to[odd..]) {
            *to = x;
        }
        if let ([.., last], 1) = (line, line.len() % 2) {
            to[even + half] = *last;
        }
    }
}

vectorised! {
    /// Writes the elements of two lines alternately, as many of each as the second has.
    fn merge(even: &[f32], odd: &[f32], to: &mut Cursor<'_, f32>) {
        let pairs = even.iter().zip(odd).map(|(&even, &odd)| [even, odd]);
        to.write_pairs(2 * odd.len(), pairs);
    }
}
