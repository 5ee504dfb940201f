//! The way forward: images are shared out among the threads.

use std::mem::MaybeUninit;

use super::Direct;
use super::squares::largest;
use crate::conv::Conv;
use crate::kernels::region::{self, Shared};
use crate::kernels::{Depth, Fresh, Left, PANEL, Right, Target, multiply_tiles, transpose_fresh};
use crate::unfold::Sizes;

/// Bytes of a panel up to which it is walked through at once: half of a core's nearest cache. Beyond, each row
/// of the kernel is a product of its own, that is added to what is there.
const NEAR: usize = 24 << 10;

/// What a thread needs on the way forward: an image with its channels side by side, its outputs, (windows,
/// outputs), and what pooling leaves of them.
struct Room {
    image: Vec<f32>,
    whole: Fresh<f32>,
    most: Vec<f32>,
}

impl Direct {
    /// The outputs, and where in their squares those are that were pooled: of each window all channels.
    pub(in crate::conv) fn forward(
        &self,
        x: &[f32],
        weight: &[f32],
        bias: Option<&[f32]>,
    ) -> (Vec<f32>, Vec<u8>) {
        let Conv { batch, groups, .. } = self.conv;
        let columns = self.conv.image.columns;
        let (outputs, windows, kept) = (self.outputs, self.windows(), self.kept());
        let weight = self.weight(weight);
        let mut y = Fresh::new(batch * groups * outputs * kept);
        let pooled = if self.after.pool { outputs * kept } else { 0 };
        let mut squares = vec![0; batch * groups * pooled];
        let (places, square_places) = (Shared::new(y.places()), Shared::new(&mut squares));
        let room = || Room {
            image: Vec::new(),
            whole: Fresh::new(windows * outputs),
            most: vec![0.0; pooled],
        };
        region::share_out(self.conv.parts(), batch * groups, room, |room, index| {
            let Room { image, whole, most } = room;
            let group = index % groups;
            let size = self.conv.input_size();
            let image = self.channels_last(&x[index * size..(index + 1) * size], image);
            let bias = bias.map(|bias| &bias[group * outputs..(group + 1) * outputs]);
            self.products(image, &weight, group, bias, whole.places());
            let own = index * outputs * kept..(index + 1) * outputs * kept;
            // SAFETY: the products have written all; each image is done by one thread.
            #[expect(unsafe_code, reason = "each image has its own outputs")]
            let (whole, y, squares) = unsafe {
                (
                    whole.all_written(),
                    places.part(own),
                    square_places.part(index * pooled..(index + 1) * pooled),
                )
            };
            // The products began with the bias.
            self.after.finish(whole, None, outputs);
            let left = if self.after.pool {
                largest(whole, columns * outputs, outputs, most, squares);
                &most[..]
            } else {
                whole
            };
            transpose_fresh(left, outputs, (kept, outputs), y, kept);
        });
        // SAFETY: every image's outputs were written.
        #[expect(unsafe_code, reason = "they are written")]
        let y = unsafe { y.written() };
        (y, squares)
    }

    /// One image's outputs, (windows, outputs).
    fn products(
        &self,
        image: &[f32],
        weight: &[f32],
        group: usize,
        bias: Option<&[f32]>,
        y: &mut [MaybeUninit<f32>],
    ) {
        let Sizes {
            rows,
            columns,
            window,
            ..
        } = self.conv.image;
        let (outputs, stretch, steps) = (self.outputs, self.stretch(), self.steps());
        let down = window.kernel.0;
        let panels = outputs.div_ceil(PANEL);
        let size = down * stretch * PANEL;
        // Rows of the kernel that one product takes.
        let at_once = if size * size_of::<f32>() <= NEAR {
            down
        } else {
            1
        };
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
                    let left = Left {
                        numbers: &image[row * steps.down + i * steps.kernel..],
                        row: steps.across,
                        steps: (steps.kernel, 1),
                    };
                    let places = &mut y[row * columns * outputs + first..];
                    let target = Target::fresh_with_steps(places, columns, count, (outputs, 1));
                    let mut target = if i == 0 {
                        target.with_row(bias.map(|bias| &bias[first..first + count]))
                    } else {
                        // SAFETY: the first row of the kernel has written it.
                        #[expect(unsafe_code, reason = "it is written")]
                        unsafe {
                            target.added()
                        }
                    };
                    let depth = Depth {
                        outer: at_once,
                        inner: stretch,
                    };
                    multiply_tiles(&mut target, depth, left, right);
                }
            }
        }
    }
}
