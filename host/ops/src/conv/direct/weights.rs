//! Packing of the weight for tiled multiplication, and unpacking of its gradient.

use super::Direct;
use crate::kernels::region::{self, SharedSlice};
use crate::kernels::{PANEL, UninitBuffer, add_rows, transpose_at, zeros};

impl Direct {
    /// Packs the weight (outputs, inputs, kernel) as the right matrix of the forward pass.
    ///
    /// For each group and panel of outputs, and each row of the kernel, it has a line of [`PANEL`] outputs for each
    /// element that the row sees.
    pub(super) fn weight(&self, weight: &[f32]) -> Vec<f32> {
        let (down, across) = self.conv.image.window.kernel;
        let (outputs, channels) = (self.outputs, self.channels());
        let panels = outputs.div_ceil(PANEL);
        let size = channels * down * across;
        let mut packed = UninitBuffer::new(self.conv.groups * panels * size * PANEL);
        let places = SharedSlice::new(packed.places());
        each_segment(self.conv.groups * panels, size * PANEL, |index| {
            let (group, panel) = (index / panels, index % panels);
            let range = index * size * PANEL..(index + 1) * size * PANEL;
            // SAFETY: each panel is packed by one thread, and panels do not overlap.
            #[expect(unsafe_code, reason = "each panel has its own places")]
            let packed = unsafe { places.part(range) };
            let first = group * outputs + panel * PANEL;
            let count = PANEL.min(outputs - panel * PANEL);
            if count < PANEL {
                zeros(packed);
            }
            let lines = &weight[first * size..(first + count) * size];
            for channel in 0..channels {
                for place in 0..down * across {
                    let (i, j) = (place / across, place % across);
                    let line = ((i * across + j) * channels + channel) * PANEL;
                    let from = &lines[channel * down * across + place..];
                    let line = packed[line..][..count].iter_mut();
                    for (to, &x) in line.zip(from.iter().step_by(size)) {
                        to.write(x);
                    }
                }
            }
        });
        // SAFETY: every panel was written, with zeros where it has no outputs.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            packed.written()
        }
    }

    /// Packs the weight as the right matrix for the inputs' gradient.
    ///
    /// For each group, tap of the kernel and panel of inputs, it has a line of [`PANEL`] inputs for each output.
    pub(super) fn transposed_weight(&self, weight: &[f32]) -> Vec<f32> {
        let (down, across) = self.conv.image.window.kernel;
        let (outputs, channels) = (self.outputs, self.channels());
        let panels = channels.div_ceil(PANEL);
        let places_of_kernel = down * across;
        let size = places_of_kernel * panels * outputs * PANEL;
        let mut packed = UninitBuffer::new(self.conv.groups * size);
        let places = SharedSlice::new(packed.places());
        let each = outputs * PANEL;
        each_segment(
            self.conv.groups * places_of_kernel * panels,
            each,
            |index| {
                let (rest, panel) = (index / panels, index % panels);
                let (group, place) = (rest / places_of_kernel, rest % places_of_kernel);
                // SAFETY: each panel is packed by one thread, and panels do not overlap.
                #[expect(unsafe_code, reason = "each panel has its own places")]
                let packed = unsafe { places.part(index * each..(index + 1) * each) };
                let count = PANEL.min(channels - panel * PANEL);
                if count < PANEL {
                    zeros(packed);
                }
                let all = channels * places_of_kernel;
                let lines = weight[group * outputs * all..].chunks_exact(all);
                for (line, from) in packed.chunks_exact_mut(PANEL).zip(lines) {
                    let from = from[panel * PANEL * places_of_kernel + place..].iter();
                    for (to, &x) in line[..count].iter_mut().zip(from.step_by(places_of_kernel)) {
                        to.write(x);
                    }
                }
            },
        );
        // SAFETY: every panel was written, with zeros where it has no inputs.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            packed.written()
        }
    }

    /// The weight's gradient in the layout of the weight, from the sums of all parts.
    ///
    /// Each part's sums start with (groups, kernel down, kernel across, inputs, outputs) and are `size` elements long.
    pub(super) fn weight_of(&self, sums: &[f32], size: usize) -> Vec<f32> {
        let (down, across) = self.conv.image.window.kernel;
        let (outputs, channels) = (self.outputs, self.channels());
        let (kernel, all) = (down * across, channels * down * across);
        let mut weight = UninitBuffer::new(self.conv.groups * outputs * all);
        let places = SharedSlice::new(weight.places());
        each_segment(self.conv.groups * channels, kernel * outputs, |index| {
            let (group, channel) = (index / channels, index % channels);
            let mut totals = vec![0.0; kernel * outputs];
            for (place, totals) in totals.chunks_exact_mut(outputs).enumerate() {
                let from = (group * all + place * channels + channel) * outputs;
                for sums in sums.chunks_exact(size) {
                    add_rows(totals, &sums[from..from + outputs], outputs, 0);
                }
            }
            let start = group * outputs * all + channel * kernel;
            let to = places.places(start..start + (outputs - 1) * all + kernel);
            // SAFETY: `places` has checked that the range lies in the memory; of each output only the channel's
            // elements are written, and no other thread processes this channel.
            #[expect(unsafe_code, reason = "each channel has its own places")]
            unsafe {
                transpose_at(&totals, outputs, (kernel, outputs), to.cast(), all);
            }
        });
        // SAFETY: the elements of every channel were written, which together are the weight.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            weight.written()
        }
    }
}

/// Calls `work` for each of `count` chunks of `numbers` elements to be moved, in parallel.
fn each_segment(count: usize, numbers: usize, work: impl Fn(usize) + Sync) {
    let threads = region::parts(8 * count * numbers);
    region::distribute(threads, count, || (), |(), index| work(index));
}
