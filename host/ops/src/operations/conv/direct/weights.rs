//! Packing of the weight for tiled multiplication, and unpacking of its gradient.

use super::Direct;
use crate::kernels::fill::{Schedule, SharedSlice, UninitRows, fill_parts};
use crate::kernels::{
    PANEL, UninitBuffer, add_rows, region, transpose_at, write_all, write_rows, written, zeros,
};

impl Direct {
    /// Packs the weight (outputs, inputs, kernel) as the right matrix of the forward pass.
    ///
    /// For each group and panel of outputs, and each row of the kernel, it has a line of [`PANEL`] outputs for each
    /// element that the row sees.
    pub(in crate::operations::conv) fn weight(&self, weight: &[f32]) -> Vec<f32> {
        let (down, across) = self.conv.image.window.kernel;
        let (outputs, channels) = (self.outputs, self.channels());
        let panels = outputs.div_ceil(PANEL);
        let size = channels * down * across;
        let count = self.conv.groups * panels;
        let memory = UninitRows::new(count, size * PANEL);
        fill_parts(
            schedule(count, size * PANEL),
            memory,
            |panels_here, slots| {
                write_rows(slots, panels_here, |index, packed| {
                    let (group, panel) = (index / panels, index % panels);
                    let first = group * outputs + panel * PANEL;
                    let count = PANEL.min(outputs - panel * PANEL);
                    if count < PANEL {
                        zeros(packed);
                    }
                    let lines = &weight[first * size..(first + count) * size];
                    for channel in 0..channels {
                        for tap in 0..down * across {
                            let line = (tap * channels + channel) * PANEL;
                            let from = &lines[channel * down * across + tap..];
                            let line = &mut packed[line..][..count];
                            write_all(line, from.iter().step_by(size).copied());
                        }
                    }
                    // SAFETY: the loops go through all (taps, channels) lines of the panel, and `write_all` has written
                    // the panel's outputs in each: the whole line, or else `zeros` has written the rest.
                    #[expect(unsafe_code, reason = "they are written")]
                    unsafe {
                        written(packed)
                    }
                })
            },
        )
    }

    /// The weight's gradient in the layout of the weight, from the sums of all parts.
    ///
    /// Each part's sums start with (groups, kernel down, kernel across, inputs, outputs) and are `size` elements long.
    pub(super) fn weight_of(&self, sums: &[f32], size: usize) -> Vec<f32> {
        let (down, across) = self.conv.image.window.kernel;
        let (outputs, channels) = (self.outputs, self.channels());
        let (kernel, all) = (down * across, channels * down * across);
        let mut weight = UninitBuffer::new(self.conv.groups * outputs * all);
        let shared = SharedSlice::new(weight.slots());
        let count = self.conv.groups * channels;
        let threads = region::parts(8 * count * kernel * outputs);
        region::distribute(
            threads,
            count,
            || (),
            |(), index| {
                let (group, channel) = (index / channels, index % channels);
                let mut totals = vec![0.0; kernel * outputs];
                for (tap, totals) in totals.chunks_exact_mut(outputs).enumerate() {
                    let from = (group * all + tap * channels + channel) * outputs;
                    for sums in sums.chunks_exact(size) {
                        add_rows(totals, &sums[from..from + outputs], outputs, 0);
                    }
                }
                let start = group * outputs * all + channel * kernel;
                let to = shared.slots(start..start + (outputs - 1) * all + kernel);
                // SAFETY: `slots` has checked that the range lies in the memory. Of each output, `all` elements apart,
                // only the channel's `kernel` elements are written, and `distribute` runs each channel of a group once.
                #[expect(unsafe_code, reason = "each channel has its own elements")]
                unsafe {
                    transpose_at(&totals, outputs, (kernel, outputs), to.cast(), all);
                }
            },
        );
        // SAFETY: `distribute` runs all channels of all groups, and of each the copy has written `kernel` elements of
        // each output: together (groups, outputs, channels, kernel), which is all of the memory.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            weight.written()
        }
    }
}

/// How `count` panels of `each` elements to be moved are distributed over the threads.
pub(super) fn schedule(count: usize, each: usize) -> Schedule {
    Schedule::of_size(region::parts(8 * count * each), count, 1)
}
