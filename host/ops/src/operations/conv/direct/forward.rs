//! Forward pass: images are distributed over the threads.

use std::mem::MaybeUninit;

use super::Direct;
use super::squares::largest;
use super::words::panels_in_words;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts_with};
use crate::kernels::{
    Ahead, Depth, LeftMatrix, PANEL, Right, TargetMatrix, UninitBuffer, multiply_tiles,
    transpose_whole, write_rows, written,
};
use crate::operations::conv::Conv;
use crate::options::UnfoldSizes;

/// Bytes of a panel up to which it is processed at once: half of a core's L1 cache. Beyond, each row of the kernel is a
/// multiplication of its own, added to the ones before.
const NEAR: usize = 24 << 10;

/// A thread's scratch memory: an image with channels last, its outputs (windows, outputs), and the pooled ones.
struct ConvScratch {
    image: Vec<f32>,
    words: Vec<f32>,
    unpooled: UninitBuffer<f32>,
    most: Vec<f32>,
}

impl Direct {
    /// Computes the outputs and, with pooling, their positions in the squares, channels last.
    pub(in crate::operations::conv) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        let Conv { batch, groups, .. } = self.conv;
        let columns = self.conv.image.columns;
        let (outputs, windows, kept) = (self.outputs, self.windows(), self.kept());
        let weight = panels_in_words(self.weight(weight), self.channels(), self.terms);
        let images = batch * groups;
        let pooled = if self.after.pool { outputs * kept } else { 0 };
        let mut squares = vec![0; images * pooled];
        let memory = (
            UninitRows::new(images, outputs * kept),
            Rows::new(&mut squares, pooled),
        );
        let room = || ConvScratch {
            image: Vec::new(),
            words: Vec::new(),
            unpooled: UninitBuffer::new(windows * outputs),
            most: vec![0.0; pooled],
        };
        let schedule = Schedule::of_size(self.conv.parts(), images, 1);
        let (y, ()) = fill_parts_with(schedule, memory, room, |room, images, (y, squares)| {
            // Of one image: see `schedule`.
            let y = write_rows(y, images, |index, y| {
                let ConvScratch {
                    image,
                    words,
                    unpooled,
                    most,
                } = &mut *room;
                let group = index % groups;
                let size = self.conv.input_size();
                // Likely this thread's next.
                let next = (index + self.conv.parts()) * size;
                let next = x.get(next..next + size).unwrap_or_default();
                let ahead = Ahead::of(next, y, self.multiplications());
                let image = self.channels_last(&x[index * size..(index + 1) * size], image);
                let image = self.image_in_words(image, words);
                let bias = bias.map(|bias| &bias[group * outputs..(group + 1) * outputs]);
                let whole = self.products(image, (&weight, group), bias, unpooled.slots(), ahead);
                // The multiplications started from the bias.
                self.after.finish(whole, None, outputs);
                let left = if self.after.pool {
                    largest(whole, columns * outputs, outputs, most, squares);
                    &most[..]
                } else {
                    whole
                };
                transpose_whole(left, outputs, (kept, outputs), y)
            });
            (y, ())
        });
        (y, squares)
    }

    /// Number of kernel rows per multiplication.
    fn at_once(&self) -> usize {
        let down = self.conv.image.window.kernel.0;
        let size = down * self.stretch(self.pixel_words()) * PANEL;
        if size * size_of::<f32>() <= NEAR {
            down
        } else {
            1
        }
    }

    /// Number of multiplications for one image's outputs.
    fn multiplications(&self) -> usize {
        let down = self.conv.image.window.kernel.0;
        self.outputs.div_ceil(PANEL) * down.div_ceil(self.at_once()) * self.conv.image.rows
    }

    /// Computes one image's outputs, (windows, outputs), from words of its channels, while it prefetches what comes next.
    fn products<'a>(
        &self,
        image: &[f32],
        (weight, group): (&[f32], usize),
        bias: Option<&[f32]>,
        y: &'a mut [MaybeUninit<f32>],
        mut ahead: Ahead<'_, f32, MaybeUninit<f32>>,
    ) -> &'a mut [f32] {
        let UnfoldSizes {
            rows,
            columns,
            window,
            ..
        } = self.conv.image;
        let (outputs, pixel) = (self.outputs, self.pixel_words());
        let (stretch, steps) = (self.stretch(pixel), self.steps(pixel));
        let down = window.kernel.0;
        let panels = outputs.div_ceil(PANEL);
        let size = down * stretch * PANEL;
        let at_once = self.at_once();
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
                    ahead.some();
                    let left = LeftMatrix {
                        numbers: &image[row * steps.down + i * steps.kernel..],
                        row: steps.across,
                        steps: (steps.kernel, 1),
                    };
                    let slots = &mut y[row * columns * outputs + first..];
                    let target =
                        TargetMatrix::uninit_with_strides(slots, columns, count, (outputs, 1));
                    let mut target = if i == 0 {
                        target.with_row(bias.map(|bias| &bias[first..first + count]))
                    } else {
                        // SAFETY: the multiplication for the kernel's first row, `i == 0`, had the same target, of the
                        // same panel and row of windows, and has written each of its elements.
                        #[expect(unsafe_code, reason = "it is written")]
                        unsafe {
                            target.added()
                        }
                    };
                    let depth = Depth {
                        outer: at_once,
                        inner: stretch,
                        terms: self.terms,
                    };
                    multiply_tiles(&mut target, depth, left, right);
                }
            }
        }
        assert!(
            y.len() == rows * columns * outputs,
            "an image's outputs are not of its size"
        );
        // SAFETY: with `i == 0` the multiplications have written, for each row of windows and each panel, the panel's
        // outputs of each window in the row. The panels have all outputs, so these are (rows, columns, outputs), which
        // is all of the memory.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            written(y)
        }
    }
}
