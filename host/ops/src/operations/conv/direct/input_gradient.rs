//! The gradient of an image's inputs: for each phase of rows and columns, products with the taps that see it.
//!
//! Where windows begin `stride` elements apart, inputs of the same phase, one beside the other, are seen by the same taps from windows side
//! by side. So the gradient of a row of them is one product, without what the padding would get: the windows that see them are stretches of
//! the outputs' gradient, whose lines have zeros where there are no windows. Where many of these would be multiplied, as by a large kernel
//! without padding, a row is several products, each with the taps that see some of its inputs.

use std::ops::Range;

use super::Direct;
use super::phases::{Phase, Side};
use super::words::panels_in_words;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts, fill_parts_with};
use crate::kernels::{
    Ahead, Cursor, Depth, LeftMatrix, PANEL, Right, TargetMatrix, multiply_tiles, region,
    transpose, write_rows,
};
use crate::operations::conv::after::add_to_rows;
use crate::operations::conv::sizes::Conv;

/// Bytes of a panel up to which it is processed at once: half of a core's L1 cache. Beyond, each row of taps is a multiplication of its own,
/// added to the ones before.
const NEAR: usize = 24 << 10;

/// Rows of a product that are computed as fast, each, as more of them.
const ROWS: usize = 4;

impl Direct {
    /// Computes the gradient of the input alone from that of the outputs, and adds a bias to it for each input channel: the outputs of a
    /// transposed convolution.
    pub(in crate::operations::conv) fn transposed(
        &self,
        weight: &[f32],
        g: &[f32],
        bias: &[f32],
    ) -> Vec<f32> {
        let Conv { batch, groups, .. } = self.conv;
        let (channels, images) = (self.channels(), batch * groups);
        let size = (self.outputs, self.windows());
        let each = size.0 * size.1;
        let of_inputs = InputGradient::new(self, weight);
        let memory = UninitRows::new(images, self.conv.input_size());
        let room = || (vec![0.0; each], InputGradientScratch::default());
        let schedule = Schedule::of_size(self.conv.parts(), images, 1);
        fill_parts_with(schedule, memory, room, |(windows, room), images, slots| {
            write_rows(slots, images, |index, slots| {
                let group = index % groups;
                transpose(&g[index * each..], size.1, size, windows, size.0);
                // Likely this thread's next.
                let next = (index + self.conv.parts()) * each;
                let next = g.get(next..next + each).unwrap_or_default();
                let ahead = Ahead::of(next, &[], of_inputs.products());
                let image = of_inputs.of(group, windows, room, ahead);
                add_to_rows(image, &bias[group * channels..][..channels]);
                self.planes(image, slots)
            })
        })
    }
}

/// The products of each image, and the weight for them.
pub(in crate::operations::conv) struct InputGradient<'a> {
    direct: &'a Direct,
    down: Vec<Phase>,
    across: Vec<Across>,
    /// Windows before the first that a line of the outputs' gradient has room for.
    before: usize,
    /// Windows in a line, with those that there aren't.
    line: usize,
    /// For each group, each phase down and across, and each panel of inputs: for each tap, the last first, and each output, or word of
    /// outputs, a line of [`PANEL`] inputs.
    weight: Vec<f32>,
}

/// A phase of columns, and the stretches of its elements that are a product each.
struct Across {
    phase: Phase,
    stretches: Vec<Stretch>,
}

/// Elements of a phase, and all taps that see any of them.
#[derive(Debug, PartialEq, Eq)]
struct Stretch {
    elements: Range<usize>,
    taps: Range<usize>,
}

impl Across {
    /// Of a phase under this many windows.
    fn new(phase: Phase, windows: usize) -> Across {
        let divided = |count: usize| -> Vec<Stretch> {
            let of = |elements: Range<usize>| {
                let seen = elements
                    .clone()
                    .map(|element| phase.taps_of(element, windows));
                let seen = seen.filter(|taps| !taps.is_empty());
                let taps =
                    seen.reduce(|all, taps| all.start.min(taps.start)..all.end.max(taps.end));
                // Where there is none, the first sees zeros.
                let taps = taps.unwrap_or(0..phase.taps.min(1));
                Stretch { elements, taps }
            };
            let place = |index: usize| index * phase.count / count;
            (0..count)
                .map(|index| of(place(index)..place(index + 1)))
                .collect()
        };
        let work = |stretches: &[Stretch]| -> usize {
            let each = |stretch: &Stretch| stretch.elements.len() * stretch.taps.len();
            stretches.iter().map(each).sum()
        };
        let (whole, parts) = (divided(1), divided((phase.count / ROWS).max(1)));
        let stretches = if work(&parts) * 10 <= work(&whole) * 9 {
            parts
        } else {
            whole
        };
        Across { phase, stretches }
    }
}

/// A thread's scratch memory.
#[derive(Default)]
pub(in crate::operations::conv) struct InputGradientScratch {
    /// The outputs' gradient in words of outputs, and with its zeros.
    words: Vec<f32>,
    padded: Vec<f32>,
    /// The inputs' gradient, channels last.
    image: Vec<f32>,
}

impl<'a> InputGradient<'a> {
    pub(in crate::operations::conv) fn new(direct: &'a Direct, weight: &[f32]) -> Self {
        let image = direct.conv.image;
        let window = image.window;
        let side = |image, kernel, stride, padding, dilation| Side {
            image,
            kernel,
            stride,
            padding,
            dilation,
        };
        let (kernel, stride, padding, dilation) = (
            window.kernel,
            window.stride,
            window.padding,
            window.dilation,
        );
        let down = side(image.height, kernel.0, stride.0, padding.0, dilation.0).phases();
        let across = side(image.width, kernel.1, stride.1, padding.1, dilation.1).phases();
        let (down, across): (Vec<Phase>, Vec<Phase>) = (down.collect(), across.collect());
        let weight = packed(direct, (&down, &across), weight);
        let weight = panels_in_words(weight, direct.outputs, direct.terms);
        let seen = || across.iter().filter(|phase| phase.taps > 0);
        let first = seen().map(|phase| phase.window(0, phase.taps - 1)).min();
        let last = seen().map(|phase| phase.window(phase.count - 1, 0)).max();
        let before = (-first.unwrap_or(0)).max(0).cast_unsigned();
        let end = (last.unwrap_or(0) + 1).max(0).cast_unsigned();
        let across = across.into_iter();
        InputGradient {
            before,
            line: before + end.max(image.columns),
            weight,
            direct,
            down,
            across: across
                .map(|phase| Across::new(phase, image.columns))
                .collect(),
        }
    }

    /// Number of words of a window's outputs.
    fn outputs(&self) -> usize {
        self.direct.terms.words(self.direct.outputs)
    }

    /// Number of products for an image, if each is computed at once.
    pub(in crate::operations::conv) fn products(&self) -> usize {
        let image = self.direct.conv.image;
        let panels = self.direct.channels().div_ceil(PANEL);
        let stretches = self.across.iter().map(|across| across.stretches.len());
        image.height * stretches.sum::<usize>() * panels
    }

    /// Computes it, channels last, while it prefetches what comes next, from the gradient of the outputs of one image and group, (windows, outputs).
    pub(in crate::operations::conv) fn of<'room>(
        &self,
        group: usize,
        g: &[f32],
        room: &'room mut InputGradientScratch,
        mut ahead: Ahead<'_, f32, f32>,
    ) -> &'room mut [f32] {
        let image = self.direct.conv.image;
        let (channels, outputs) = (self.direct.channels(), self.outputs());
        let InputGradientScratch {
            words,
            padded,
            image: gradient,
        } = room;
        let lines = self.padded(self.direct.outputs_in_words(g, words), padded);
        gradient.resize(image.height * image.width * channels, 0.0);
        let panels = channels.div_ceil(PANEL);
        let all = image.window.kernel.0 * image.window.kernel.1 * panels * outputs * PANEL;
        let mut weight = &self.weight[group * all..][..all];
        for down in &self.down {
            for across in &self.across {
                let each = down.taps * across.phase.taps * outputs * PANEL;
                let (own, others) = weight.split_at(panels * each);
                weight = others;
                if each == 0 {
                    self.clear(down, &across.phase, gradient);
                    continue;
                }
                for (panel, own) in own.chunks_exact(each).enumerate() {
                    self.of_phase(
                        (down, across),
                        (lines, own),
                        panel * PANEL,
                        gradient,
                        &mut ahead,
                    );
                }
            }
        }
        gradient
    }

    /// The gradient of the outputs, in words of outputs, with zeros for windows that there aren't.
    fn padded<'room>(&self, g: &'room [f32], room: &'room mut Vec<f32>) -> &'room [f32] {
        let image = self.direct.conv.image;
        let outputs = self.outputs();
        if self.line == image.columns {
            return g;
        }
        // What is zero stays so.
        room.resize(image.rows * self.line * outputs, 0.0);
        let lines = room.chunks_exact_mut(self.line * outputs);
        for (to, from) in lines.zip(g.chunks_exact(image.columns * outputs)) {
            to[self.before * outputs..][..from.len()].copy_from_slice(from);
        }
        room
    }

    /// Sets inputs to zero that no tap sees.
    fn clear(&self, down: &Phase, across: &Phase, gradient: &mut [f32]) {
        for row in 0..down.count {
            self.clear_row(self.row(down, row), across, gradient);
        }
    }

    fn clear_row(&self, row: usize, across: &Phase, gradient: &mut [f32]) {
        let image = self.direct.conv.image;
        let channels = self.direct.channels();
        for column in 0..across.count {
            let column = across.first + column * image.window.stride.1;
            gradient[(row * image.width + column) * channels..][..channels].fill(0.0);
        }
    }

    /// Row of an image that a row of a phase is.
    fn row(&self, down: &Phase, row: usize) -> usize {
        down.first + row * self.direct.conv.image.window.stride.0
    }

    /// The gradient of the inputs of a phase and a panel, from its first channel on.
    fn of_phase(
        &self,
        (down, Across { phase, stretches }): (&Phase, &Across),
        (lines, weight): (&[f32], &[f32]),
        channel: usize,
        gradient: &mut [f32],
        ahead: &mut Ahead<'_, f32, f32>,
    ) {
        let image = self.direct.conv.image;
        let (channels, outputs) = (self.direct.channels(), self.outputs());
        let line = self.line * outputs;
        let of_tap = outputs * PANEL;
        let step = image.window.stride.1 * channels;
        let at_once = if size_of_val(weight) <= NEAR {
            down.taps
        } else {
            1
        };
        for chunk in (0..down.taps).step_by(at_once) {
            for element in 0..down.count {
                let row = self.row(down, element);
                let seen = down.taps_of(element, image.rows);
                if seen.is_empty() {
                    self.clear_row(row, phase, gradient);
                    continue;
                }
                let taps = seen.start.max(chunk)..seen.end.min(chunk + at_once);
                if taps.is_empty() {
                    continue;
                }
                // The last tap is of the first row of windows, and of the first of them.
                let window = down.window(element, taps.end - 1).cast_unsigned();
                for Stretch {
                    elements,
                    taps: own,
                } in stretches
                {
                    ahead.some();
                    let first =
                        phase.window(elements.start, own.end - 1) + self.before.cast_signed();
                    let left = LeftMatrix {
                        numbers: &lines[window * line + first.cast_unsigned() * outputs..],
                        row: outputs,
                        steps: (down.window_step() * line, 1),
                    };
                    let skipped = (down.taps - taps.end) * phase.taps + phase.taps - own.end;
                    let right = Right {
                        numbers: &weight[skipped * of_tap..],
                        panel: 0,
                        steps: (phase.taps * of_tap, PANEL),
                    };
                    let depth = Depth {
                        outer: taps.len(),
                        inner: own.len() * outputs,
                        terms: self.direct.terms,
                    };
                    let column = phase.first + elements.start * image.window.stride.1;
                    let target = &mut gradient[(row * image.width + column) * channels + channel..];
                    let (rows, count) = (elements.len(), PANEL.min(channels - channel));
                    let mut target = if seen.start < taps.start {
                        TargetMatrix::adding_with_step(target, rows, count, step)
                    } else {
                        TargetMatrix::replacing_with_step(target, rows, count, step)
                    };
                    multiply_tiles(&mut target, depth, left, right);
                }
            }
        }
    }
}

/// The weight (outputs, inputs, kernel) as [`InputGradient`] has it.
fn packed(direct: &Direct, (down, across): (&[Phase], &[Phase]), weight: &[f32]) -> Vec<f32> {
    let (kernel_down, kernel_across) = direct.conv.image.window.kernel;
    let (outputs, channels) = (direct.outputs, direct.channels());
    let panels = channels.div_ceil(PANEL);
    // Of each group: panels and taps in their order.
    let mut order = Vec::with_capacity(kernel_down * kernel_across * panels);
    for down in down {
        for across in across {
            for panel in 0..panels {
                for i in (0..down.taps).rev() {
                    let taps = (0..across.taps).rev();
                    order
                        .extend(taps.map(|j| (panel, down.tap(i) * kernel_across + across.tap(j))));
                }
            }
        }
    }
    let each = outputs * PANEL;
    let taps = kernel_down * kernel_across;
    // Taps that see nothing are left out, and their place at the end stays zero.
    let count = direct.conv.groups * taps * panels;
    let memory = UninitRows::new(count, each);
    let schedule = Schedule::of_size(region::parts(8 * count * each), count, 1);
    fill_parts(schedule, memory, |rows, slots| {
        write_rows(slots, rows, |index, slots| {
            let (group, index) = (index / (taps * panels), index % (taps * panels));
            let mut packed = Cursor::new(slots);
            let Some(&(panel, tap)) = order.get(index) else {
                packed.write(each, std::iter::repeat(0.0));
                return packed.finish();
            };
            let count = PANEL.min(channels - panel * PANEL);
            let all = channels * taps;
            let lines = weight[group * outputs * all..].chunks_exact(all);
            for from in lines.take(outputs) {
                let from = from[panel * PANEL * taps + tap..].iter();
                packed.write(count, from.step_by(taps).copied());
                packed.write(PANEL - count, std::iter::repeat(0.0));
            }
            packed.finish()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretches(image: usize, kernel: usize, padding: usize) -> Vec<Stretch> {
        let side = Side {
            image,
            kernel,
            stride: 1,
            padding,
            dilation: 1,
        };
        let windows = image + 2 * padding - kernel + 1;
        let phases = side.phases();
        phases
            .flat_map(|phase| Across::new(phase, windows).stretches)
            .collect()
    }

    #[test]
    fn a_row_is_divided_where_a_large_part_would_be_products_with_zeros() {
        let stretch = |elements, taps| Stretch { elements, taps };
        let divided = [
            stretch(0..4, 0..4),
            stretch(4..8, 0..5),
            stretch(8..12, 1..5),
        ];
        assert_eq!(stretches(12, 5, 0), divided);
        assert_eq!(stretches(32, 3, 0), [stretch(0..32, 0..3)]);
        assert_eq!(stretches(12, 5, 2), [stretch(0..12, 0..5)]);
    }
}
