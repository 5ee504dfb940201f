//! 1 × 1 convolutions with a stride of 1: matrix multiplications of the planes as they are.
//!
//! An image's outputs are weight · planes, (outputs, inputs) · (inputs, pixels), and the gradient of its inputs is
//! weightᵀ · gradient: pixels stay where they are, so nothing is transposed. Only the gradient of the weight, a sum over
//! pixels, needs the inputs with channels last, a block of pixels at a time.
//!
//! Lines of a plane are a power of two apart in most images, and would all fall into the same few sets of the L1 cache:
//! panels of [`PANEL`] pixels are copied next to each other first. On request what is multiplied is rounded to words of pairs of `bf16`
//! then ([`Terms`]): pairs of channels, and of pixels for the gradient of the weight.

use std::mem::MaybeUninit;

use super::after::{self, Scratch, plane_sum};
use super::sizes::Conv;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts_with};
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, Terms, UninitBuffer, across, add_rows, along,
    has_tiles, multiply_tiles, transpose, write_rows, written, zeros,
};
use crate::options::{After, Window};

/// Panels of pixels whose products are added to the weight's gradient at once.
const BLOCK: usize = 4;

/// A convolution of single pixels.
#[derive(Clone, Copy)]
pub(super) struct Pointwise {
    conv: Conv,
    after: After,
    inputs: usize,
    outputs: usize,
    /// Number of pixels of an image, a multiple of [`PANEL`].
    pixels: usize,
    /// Of the products of all three passes.
    terms: Terms,
}

/// A thread's scratch memory in the backward pass.
struct RoomBack {
    after: Scratch<f32>,
    /// Panels of the outputs' gradient, (panels, outputs, [`PANEL`]).
    panels: Vec<f32>,
    /// Pixels of a block of the inputs with channels last.
    pixels: Vec<f32>,
    /// With pairs: a block of the inputs and of the outputs' gradient in words of pixels.
    words: [Vec<f32>; 2],
}

impl Pointwise {
    /// A convolution of single pixels, if it is one, where tiles are supported.
    pub(super) fn of(conv: &Conv, after: After) -> Option<Pointwise> {
        let image = conv.image;
        let pixels = image.height * image.width;
        let Window {
            kernel,
            stride,
            padding,
            ..
        } = image.window;
        let fits = (kernel, stride, padding) == ((1, 1), (1, 1), (0, 0)) && conv.groups == 1;
        let pays = pixels.is_multiple_of(PANEL)
            && image.channels >= PANEL / 2
            && conv.outputs >= PANEL / 2;
        (fits && pays && has_tiles()).then_some(Pointwise {
            conv: *conv,
            after,
            inputs: image.channels,
            outputs: conv.outputs,
            pixels,
            terms: Terms::Singles,
        })
    }

    /// The convolution of factors in these terms.
    pub(super) fn in_terms(self, terms: Terms) -> Pointwise {
        Pointwise { terms, ..self }
    }

    /// Computes the outputs and, with pooling, their positions in the squares.
    pub(super) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        let (batch, inputs, outputs, pixels) =
            (self.conv.batch, self.inputs, self.outputs, self.pixels);
        let sides = (self.conv.image.rows, self.conv.image.columns);
        let kept = outputs * self.conv.kept(self.after);
        let pooled = if self.after.pool { kept } else { 0 };
        let mut squares = vec![0; batch * pooled];
        let memory = (
            UninitRows::new(batch, kept),
            Rows::new(&mut squares, pooled),
        );
        let mut words = Vec::new();
        let left = self.weight_by_inputs(weight, &mut words);
        let room = || {
            let unpooled: UninitBuffer<f32> = after::room(self.after, outputs * pixels);
            (vec![0.0; inputs * PANEL], unpooled)
        };
        let schedule = Schedule::of_size(self.conv.parts(), batch, 1);
        let (y, ()) = fill_parts_with(schedule, memory, room, |room, images, (y, squares)| {
            let (panel, unpooled) = room;
            // Of one image: see `schedule`.
            let y = write_rows(y, images, |index, y| {
                let x = &x[index * inputs * pixels..][..inputs * pixels];
                if self.after.pool {
                    let y = zeros(y);
                    let whole = self.multiply(left, inputs, x, panel, unpooled.slots());
                    self.after.finish(whole, bias, pixels);
                    after::pool(whole, sides, y, squares);
                    y
                } else {
                    let y = self.multiply(left, inputs, x, panel, y);
                    self.after.finish(y, bias, pixels);
                    y
                }
            });
            (y, ())
        });
        (y, squares)
    }

    /// left · planes, (rows, depth) · (depth, pixels), for all rows that the slots have room for.
    fn multiply<'a>(
        &self,
        left: LeftMatrix<'_>,
        depth: usize,
        planes: &[f32],
        panel: &mut [f32],
        slots: &'a mut [MaybeUninit<f32>],
    ) -> &'a mut [f32] {
        for first in (0..self.pixels).step_by(PANEL) {
            self.copy_panel((planes, depth), first, panel);
            self.multiply_panel(left, depth, panel, first, slots);
        }
        // SAFETY: `multiply_panel` has written the panel's pixels of every row, and the panels are all pixels, as these
        // are a multiple of `PANEL`.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            written(slots)
        }
    }

    /// Computes the pixels of one panel, from `first` on, in all rows of (rows, pixels).
    fn multiply_panel(
        &self,
        left: LeftMatrix<'_>,
        depth: usize,
        panel: &[f32],
        first: usize,
        slots: &mut [MaybeUninit<f32>],
    ) {
        let rows = slots.len() / self.pixels;
        let right = Right {
            numbers: panel,
            panel: 0,
            steps: (0, PANEL),
        };
        let slots = &mut slots[first..];
        let mut target = TargetMatrix::uninit_with_strides(slots, rows, PANEL, (self.pixels, 1));
        multiply_tiles(&mut target, Depth::of(depth, self.terms), left, right);
    }

    /// Weight and rows of the product of the forward pass: (outputs, words of inputs).
    fn weight_by_inputs<'a>(&self, weight: &'a [f32], words: &'a mut Vec<f32>) -> LeftMatrix<'a> {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let (numbers, row) = match self.terms {
            Terms::Singles => (weight, inputs),
            Terms::Pairs => {
                let row = self.terms.words(inputs);
                words.resize(outputs * row, 0.0);
                along(weight, inputs, (outputs, inputs), row, words);
                (&words[..], row)
            }
        };
        LeftMatrix {
            numbers,
            row,
            steps: (0, 1),
        }
    }

    /// The transposed weight of the product for the inputs' gradient: (inputs, words of outputs).
    fn weight_by_outputs<'a>(&self, weight: &'a [f32], words: &'a mut Vec<f32>) -> LeftMatrix<'a> {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let numbers = match self.terms {
            Terms::Singles => weight,
            Terms::Pairs => {
                words.resize(self.terms.words(outputs) * inputs, 0.0);
                across(weight, inputs, (outputs, inputs), inputs, words);
                &words[..]
            }
        };
        LeftMatrix {
            numbers,
            row: 1,
            steps: (0, inputs),
        }
    }

    /// Copies a panel of all planes, of which there are `depth`, from the pixel `first` on.
    fn copy_panel(&self, (planes, depth): (&[f32], usize), first: usize, panel: &mut [f32]) {
        if self.terms == Terms::Pairs {
            let planes = &planes[first..];
            return across(planes, self.pixels, (depth, PANEL), PANEL, panel);
        }
        let planes = planes.chunks_exact(self.pixels);
        for (plane, line) in planes.zip(panel.as_chunks_mut::<PANEL>().0) {
            if let Some(pixels) = plane[first..].first_chunk::<PANEL>() {
                *line = *pixels;
            }
        }
    }

    /// Computes the gradients of input (if wanted), weight and bias from the outputs and their gradient.
    pub(super) fn backward(
        &self,
        (x, weight): (&[f32], &[f32]),
        (y, g): (&[f32], &[f32]),
        squares: &[u8],
        of_input: bool,
    ) -> [Vec<f32>; 3] {
        let (batch, inputs, outputs, pixels) =
            (self.conv.batch, self.inputs, self.outputs, self.pixels);
        let sides = (self.conv.image.rows, self.conv.image.columns);
        let kept = outputs * self.conv.kept(self.after);
        let image = inputs * pixels;
        // Sums over some images each: of the weight's gradient and of the bias's.
        let schedule = Schedule::in_chunks(self.conv.parts(), batch, 1);
        let size = weight.len() + outputs;
        let memory = (
            UninitRows::new(batch, if of_input { image } else { 0 }),
            UninitRows::per_chunk(schedule.chunks(), size),
        );
        let room = || RoomBack {
            after: Scratch::new(self.after, outputs, sides),
            panels: vec![0.0; BLOCK * outputs * PANEL],
            pixels: vec![0.0; BLOCK * PANEL * inputs],
            words: [const { Vec::new() }; 2],
        };
        let mut words = Vec::new();
        let left = self.weight_by_outputs(weight, &mut words);
        let (x_gradient, sums) = fill_parts_with(schedule, memory, room, |room, images, parts| {
            let (x_gradient, sums) = parts;
            let sums = zeros(sums);
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            let x_gradient = write_rows(x_gradient, images, |index, slots| {
                let x = &x[index * image..][..image];
                let own = index * kept..(index + 1) * kept;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let (y, g) = (&y[own.clone()], &g[own]);
                let RoomBack {
                    after,
                    panels,
                    pixels: of_block,
                    words,
                } = &mut *room;
                let g = self.after.gradient(g, y, squares, sides, after);
                for (sum, plane) in bias_sums.iter_mut().zip(g.chunks_exact(pixels)) {
                    *sum += plane_sum(plane);
                }
                for first in (0..pixels).step_by(BLOCK * PANEL) {
                    let count = BLOCK.min((pixels - first) / PANEL);
                    let each = panels.chunks_exact_mut(outputs * PANEL).take(count);
                    for (panel, to) in each.enumerate() {
                        self.copy_panel((g, outputs), first + panel * PANEL, to);
                    }
                    let block = (&x[first..], &g[first..], count);
                    self.add_weight_gradient(block, panels, (of_block, words), weight_sums);
                    if of_input {
                        let each = panels.chunks_exact(outputs * PANEL).take(count);
                        for (panel, from) in each.enumerate() {
                            let first = first + panel * PANEL;
                            self.multiply_panel(left, outputs, from, first, slots);
                        }
                    }
                }
                // SAFETY: either there are no slots, or `multiply_panel` has written the panel's pixels of every plane
                // for all panels, which are all pixels.
                #[expect(unsafe_code, reason = "they are written")]
                unsafe {
                    written(slots)
                }
            });
            (x_gradient, sums)
        });
        let mut totals = vec![0.0; size];
        add_rows(&mut totals, &sums, size, 0);
        let bias_gradient = totals.split_off(weight.len());
        [x_gradient, totals, bias_gradient]
    }

    /// Adds gradient · inputsᵀ over the pixels of `count` panels, which planes begin with; the gradient's are in `panels`, too.
    fn add_weight_gradient(
        &self,
        (x, g, count): (&[f32], &[f32], usize),
        panels: &[f32],
        (pixels, words): (&mut [f32], &mut [Vec<f32>; 2]),
        sums: &mut [f32],
    ) {
        let (inputs, outputs, all) = (self.inputs, self.outputs, count * PANEL);
        let [x_words, g_words] = words;
        let (left, depth) = match self.terms {
            Terms::Singles => {
                transpose(x, self.pixels, (inputs, all), pixels, inputs);
                let left = LeftMatrix {
                    numbers: panels,
                    row: PANEL,
                    steps: (outputs * PANEL, 1),
                };
                let depth = Depth {
                    outer: count,
                    inner: PANEL,
                    terms: self.terms,
                };
                (left, depth)
            }
            Terms::Pairs => {
                let row = self.terms.words(all);
                x_words.resize(inputs * row, 0.0);
                along(x, self.pixels, (inputs, all), row, x_words);
                transpose(x_words, row, (inputs, row), pixels, inputs);
                g_words.resize(outputs * row, 0.0);
                along(g, self.pixels, (outputs, all), row, g_words);
                let left = LeftMatrix {
                    numbers: g_words,
                    row,
                    steps: (0, 1),
                };
                (left, Depth::of(all, self.terms))
            }
        };
        let right = Right {
            numbers: pixels,
            panel: PANEL,
            steps: (PANEL * inputs, inputs),
        };
        let mut target = TargetMatrix::adding(sums, outputs, inputs);
        multiply_tiles(&mut target, depth, left, right);
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Result;

    use super::*;
    use crate::operations::conv::comparison::compare;

    #[test]
    fn outputs_and_gradients_are_those_of_windows_as_a_matrix() -> Result<()> {
        let window = Window {
            kernel: (1, 1),
            stride: (1, 1),
            padding: (0, 0),
            dilation: (1, 1),
        };
        for (dims, outputs) in [
            ([9, 32, 8, 8], 64),
            ([2, 17, 16, 14], 40),
            ([3, 300, 4, 8], 16),
        ] {
            compare(dims, outputs, window, 1, |conv, after| {
                Pointwise::of(conv, after).is_some() == has_tiles()
            })?;
        }
        Ok(())
    }
}
