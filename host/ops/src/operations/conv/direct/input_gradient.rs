//! The gradient of an image's inputs: for each phase of rows and columns, products with the taps that see it.
//!
//! Where windows begin `stride` elements apart, inputs of the same phase, one beside the other, are seen by the same taps from windows side
//! by side. So the gradient of a row of them is one product, without what the padding would get: the windows that see them are stretches of
//! the outputs' gradient, whose lines have zeros where there are no windows. Where many of these would be multiplied, as by a large kernel
//! without padding, a row is several products: of some of its inputs each, with the taps that see any of them, or with some of the taps
//! each, of the inputs that any of them sees.

use std::ops::Range;

use super::Direct;
use super::phases::{Phase, Side};
use super::words::panels_in_words;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts, fill_parts_with};
use crate::kernels::{
    Ahead, Cursor, Depth, LeftMatrix, PANEL, Right, TargetMatrix, multiply_tiles, region, strips,
    transpose, write_rows,
};
use crate::operations::conv::after::add_to_rows;
use crate::operations::conv::sizes::Conv;

/// Bytes of a panel up to which it is processed at once: half of a core's L1 cache. Beyond, each row of taps is a multiplication of its own,
/// added to the ones before.
const NEAR: usize = 24 << 10;

/// Rows of a tile that take as long as fewer would.
const ROWS: usize = 4;

/// Words of depth that take as long as to begin a tile and to store its sums.
const BEGINNING: usize = 16;

/// Most parts that a kernel's taps are divided into: all ways up to there are compared in each backward pass.
const PARTS: usize = 8;

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
    /// Whether an element may lie in several stretches: its gradient is their sum.
    shared: bool,
}

/// Elements of a phase, and taps: all that see any of the elements, or where elements are shared, taps that see none but these.
#[derive(Debug, PartialEq, Eq)]
struct Stretch {
    elements: Range<usize>,
    taps: Range<usize>,
}

impl Stretch {
    /// All taps of a phase that see any of these elements.
    fn of_elements(phase: &Phase, elements: Range<usize>, windows: usize) -> Self {
        let seen = elements
            .clone()
            .map(|element| phase.taps_of(element, windows));
        let seen = seen.filter(|taps| !taps.is_empty());
        let taps = seen.reduce(|all, taps| all.start.min(taps.start)..all.end.max(taps.end));
        // Where there is none, the first sees zeros.
        let taps = taps.unwrap_or(0..phase.taps.min(1));
        Stretch { elements, taps }
    }

    /// All elements of a phase that any of these taps sees, if there are any.
    fn of_taps(phase: &Phase, taps: Range<usize>, windows: usize) -> Option<Self> {
        let seen = |element: &usize| {
            let all = phase.taps_of(*element, windows);
            all.start.max(taps.start) < all.end.min(taps.end)
        };
        let first = (0..phase.count).find(seen)?;
        let last = (first..phase.count).rfind(seen)?;
        let elements = first..last + 1;
        Some(Stretch { elements, taps })
    }

    /// What its product takes, in rows and words of depth, if each tap has this many.
    fn work(&self, outputs: usize) -> usize {
        let rows: usize = strips(self.elements.len())
            .map(|strip| strip.len().max(ROWS))
            .sum();
        rows * (self.taps.len() * outputs + BEGINNING)
    }
}

impl Across {
    /// Of a phase under this many windows of `outputs` words each, as it takes least work. Each element's sums are added up in the same
    /// order by any of its divisions; elements may be `shared` only where a product is with a single row of taps.
    fn new(phase: Phase, windows: usize, outputs: usize, shared: bool) -> Across {
        let place = |index: usize, all: usize, count: usize| index * all / count;
        let by_elements = |count: usize| -> Vec<Stretch> {
            let elements = |i| place(i, phase.count, count)..place(i + 1, phase.count, count);
            (0..count)
                .map(|i| Stretch::of_elements(&phase, elements(i), windows))
                .collect()
        };
        // The last taps first, as in each product.
        let by_taps = |count: usize| -> Vec<Stretch> {
            let taps = |i| place(i, phase.taps, count)..place(i + 1, phase.taps, count);
            (0..count)
                .rev()
                .filter_map(|i| Stretch::of_taps(&phase, taps(i), windows))
                .collect()
        };
        let apart = [1, (phase.count / ROWS).max(1)].map(by_elements);
        let most = if shared { phase.taps.min(PARTS) } else { 0 };
        let divisions = apart.into_iter().map(|stretches| (stretches, false));
        let divisions = divisions.chain((2..=most).map(|count| (by_taps(count), true)));
        let work = |(stretches, _): &(Vec<Stretch>, bool)| -> usize {
            stretches.iter().map(|stretch| stretch.work(outputs)).sum()
        };
        let (stretches, shared) = divisions.min_by_key(work).unwrap_or_default();
        Across {
            phase,
            stretches,
            shared,
        }
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
        let outputs = direct.terms.words(direct.outputs);
        let across = across.into_iter().map(|phase| {
            let seen = down.iter().filter(|down| down.taps > 0);
            let shared = seen
                .map(|down| taps_at_once(down, &phase, outputs))
                .all(|rows| rows == 1);
            Across::new(phase, image.columns, outputs, shared)
        });
        InputGradient {
            before,
            line: before + end.max(image.columns),
            weight,
            direct,
            across: across.collect(),
            down,
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
            let row = self.row(down, row);
            self.clear_row(row, across, 0..self.direct.channels(), gradient);
        }
    }

    /// Sets some channels of a phase's elements in a row to zero.
    fn clear_row(&self, row: usize, across: &Phase, channels: Range<usize>, gradient: &mut [f32]) {
        let image = self.direct.conv.image;
        let all = self.direct.channels();
        for column in 0..across.count {
            let column = across.first + column * image.window.stride.1;
            gradient[(row * image.width + column) * all..][channels.clone()].fill(0.0);
        }
    }

    /// Row of an image that a row of a phase is.
    fn row(&self, down: &Phase, row: usize) -> usize {
        down.first + row * self.direct.conv.image.window.stride.0
    }

    /// The gradient of the inputs of a phase and a panel, from its first channel on.
    fn of_phase(
        &self,
        (down, across): (&Phase, &Across),
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
        let phase = &across.phase;
        let at_once = taps_at_once(down, phase, outputs);
        let count = PANEL.min(channels - channel);
        let panel = channel..channel + count;
        for chunk in (0..down.taps).step_by(at_once) {
            for element in 0..down.count {
                let row = self.row(down, element);
                let seen = down.taps_of(element, image.rows);
                if seen.is_empty() {
                    self.clear_row(row, phase, panel.clone(), gradient);
                    continue;
                }
                let taps = seen.start.max(chunk)..seen.end.min(chunk + at_once);
                if taps.is_empty() {
                    continue;
                }
                let adds = across.shared || seen.start < taps.start;
                if across.shared && seen.start == taps.start {
                    self.clear_row(row, phase, panel.clone(), gradient);
                }
                // The last tap is of the first row of windows, and of the first of them.
                let window = down.window(element, taps.end - 1).cast_unsigned();
                for Stretch {
                    elements,
                    taps: own,
                } in &across.stretches
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
                    let rows = elements.len();
                    let mut target = if adds {
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

/// Rows of taps of two phases that a product has, with this many words of each tap.
fn taps_at_once(down: &Phase, across: &Phase, outputs: usize) -> usize {
    let panel = down.taps * across.taps * outputs * PANEL;
    if panel * size_of::<f32>() <= NEAR {
        down.taps
    } else {
        1
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

    fn stretches(
        (image, kernel, padding): (usize, usize, usize),
        shared: bool,
    ) -> Vec<(Range<usize>, Range<usize>)> {
        let side = Side {
            image,
            kernel,
            stride: 1,
            padding,
            dilation: 1,
        };
        let windows = image + 2 * padding - kernel + 1;
        let all = side.phases().flat_map(|phase| {
            let across = Across::new(phase, windows, 64, shared);
            across.stretches
        });
        all.map(|stretch| (stretch.elements, stretch.taps))
            .collect()
    }

    #[test]
    fn a_row_is_divided_where_a_large_part_would_be_products_with_zeros() {
        let divided = [(0..4, 0..4), (4..8, 0..5), (8..12, 1..5)];
        assert_eq!(stretches((12, 5, 0), false), divided);
        assert_eq!(stretches((32, 3, 0), false), [(0..32, 0..3)]);
        assert_eq!(stretches((12, 5, 2), false), [(0..12, 0..5)]);
    }

    #[test]
    fn each_tap_sees_all_its_elements_where_they_may_be_shared() {
        let shapes = [(12, 5, 0), (32, 3, 0), (12, 5, 2), (9, 9, 0), (6, 3, 2)];
        for shape in shapes {
            let (image, kernel, padding) = shape;
            let found = stretches(shape, true);
            for tap in 0..kernel {
                let windows = image + 2 * padding - kernel + 1;
                let seen = |element: &usize| (tap..tap + windows).contains(&(element + padding));
                for element in (0..image).filter(seen) {
                    let pairs = found.iter().filter(|(elements, taps)| {
                        elements.contains(&element) && taps.contains(&tap)
                    });
                    assert_eq!(pairs.count(), 1, "{shape:?}: element {element}, tap {tap}");
                }
            }
        }
        assert!(stretches((12, 5, 0), true).len() > 1);
        assert_eq!(stretches((12, 5, 2), true).len(), 1);
    }
}
