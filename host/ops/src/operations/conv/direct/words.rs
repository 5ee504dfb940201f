//! What is multiplied, in words of pairs of elements along the depth of each product ([`Terms`]).
//!
//! The depth of the forward pass are the channels that a window's pixel has, that of the inputs' gradient the outputs, and that of the
//! weight's gradient the windows of a row. So no pair has elements of two pixels, of two taps or of two rows, and an odd number of each
//! ends with a zero.

use super::Direct;
use crate::kernels::fill::{UninitRows, fill_parts};
use crate::kernels::{PANEL, Terms, across, along, write_rows, zeros};

/// Packed panels of lines of [`PANEL`] elements, `lines` along the depth of each, in words; themselves without pairs.
pub(super) fn panels_in_words(panels: Vec<f32>, lines: usize, terms: Terms) -> Vec<f32> {
    if terms == Terms::Singles || lines == 0 {
        return panels;
    }
    let (from, to) = (lines * PANEL, terms.words(lines) * PANEL);
    let count = panels.len() / from;
    let memory = UninitRows::new(count, to);
    fill_parts(
        super::weights::schedule(count, from),
        memory,
        |own, slots| {
            write_rows(slots, own, |index, to| {
                let to = zeros(to);
                let from = &panels[index * from..][..from];
                across(from, PANEL, (lines, PANEL), PANEL, to);
                to
            })
        },
    )
}

impl Direct {
    /// Number of words of a pixel's channels.
    pub(super) fn pixel_words(&self) -> usize {
        self.terms.words(self.channels())
    }

    /// A padded image with channels last, in words along the channels; itself without pairs.
    pub(super) fn image_in_words<'a>(
        &self,
        image: &'a [f32],
        memory: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        if self.terms == Terms::Singles {
            return image;
        }
        let (channels, words) = (self.channels(), self.pixel_words());
        let pixels = self.height * self.width;
        memory.resize(pixels * words, 0.0);
        along(image, channels, (pixels, channels), words, memory);
        memory
    }

    /// Gradients of outputs, (windows, outputs), in words along the outputs; themselves without pairs.
    pub(super) fn outputs_in_words<'a>(&self, g: &'a [f32], memory: &'a mut Vec<f32>) -> &'a [f32] {
        if self.terms == Terms::Singles {
            return g;
        }
        let (windows, outputs) = (self.windows(), self.outputs);
        let words = self.terms.words(outputs);
        memory.resize(windows * words, 0.0);
        along(g, outputs, (windows, outputs), words, memory);
        memory
    }

    /// A padded image with channels last, and gradients of outputs, in words of neighbouring windows of a row, as the weight's gradient
    /// takes them; both as they are without pairs.
    pub(super) fn windows_in_words<'a>(
        &self,
        (image, g): (&'a [f32], &'a [f32]),
        (of_image, of_gradient): (&'a mut Vec<f32>, &'a mut Vec<f32>),
    ) -> Windows<'a> {
        let (rows, columns) = (self.conv.image.rows, self.conv.image.columns);
        let (stretch, outputs) = (self.stretch(self.channels()), self.outputs);
        let (pixels, next) = (
            self.width * self.channels(),
            self.steps(self.channels()).across,
        );
        if self.terms == Terms::Singles {
            return Windows {
                image,
                line: pixels,
                next,
                g,
            };
        }
        let count = self.terms.words(columns);
        let (line, g_line) = (count * stretch, count * outputs);
        of_image.resize(self.height * line, 0.0);
        for (row, to) in of_image.chunks_exact_mut(line).enumerate() {
            let from = &image[row * pixels..][..pixels];
            across(from, next, (columns, stretch), stretch, to);
        }
        of_gradient.resize(rows * g_line, 0.0);
        for (row, to) in of_gradient.chunks_exact_mut(g_line).enumerate() {
            let from = &g[row * columns * outputs..];
            across(from, outputs, (columns, outputs), outputs, to);
        }
        Windows {
            image: of_image,
            line,
            next: stretch,
            g: of_gradient,
        }
    }
}

/// Windows of an image, and the gradients of their outputs.
#[derive(Clone, Copy)]
pub(super) struct Windows<'a> {
    /// What a row of the kernel sees of each window, or word of windows, `next` after the one before.
    pub(super) image: &'a [f32],
    /// Stride from line to line of the image.
    pub(super) line: usize,
    pub(super) next: usize,
    /// (rows, windows or words of windows, outputs).
    pub(super) g: &'a [f32],
}
