//! Forward pass: images are distributed over the threads.

use std::mem::MaybeUninit;

use super::Direct;
use super::squares::largest;
use crate::conv::Conv;
use crate::kernels::region::{self, SharedSlice};
use crate::kernels::{
    Depth, LeftMatrix, PANEL, Right, TargetMatrix, UninitBuffer, multiply_tiles, transpose_uninit,
};
use crate::unfold::UnfoldSizes;

/// Bytes of a panel up to which it is processed at once: half of a core's L1 cache. Beyond, each row of the kernel is a
/// multiplication of its own, added to the ones before.
const NEAR: usize = 24 << 10;

/// A thread's scratch memory: an image with channels last, its outputs (windows, outputs), and the pooled ones.
struct ConvScratch {
    image: Vec<f32>,
    unpooled: UninitBuffer<f32>,
    most: Vec<f32>,
}

impl Direct {
    /// Computes the outputs and, with pooling, their positions in the squares, channels last.
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
        let mut y = UninitBuffer::new(batch * groups * outputs * kept);
        let pooled = if self.after.pool { outputs * kept } else { 0 };
        let mut squares = vec![0; batch * groups * pooled];
        let (places, square_places) =
            (SharedSlice::new(y.places()), SharedSlice::new(&mut squares));
        let room = || ConvScratch {
            image: Vec::new(),
            unpooled: UninitBuffer::new(windows * outputs),
            most: vec![0.0; pooled],
        };
        region::distribute(self.conv.parts(), batch * groups, room, |room, index| {
            let ConvScratch {
                image,
                unpooled: whole,
                most,
            } = room;
            let group = index % groups;
            let size = self.conv.input_size();
            let image = self.channels_last(&x[index * size..(index + 1) * size], image);
            let bias = bias.map(|bias| &bias[group * outputs..(group + 1) * outputs]);
            self.products(image, &weight, group, bias, whole.places());
            let own = index * outputs * kept..(index + 1) * outputs * kept;
            // SAFETY: the multiplications have written every element of `whole`; each image is processed by one thread,
            // and its ranges overlap with no other image's.
            #[expect(unsafe_code, reason = "each image has its own outputs")]
            let (whole, y, squares) = unsafe {
                (
                    whole.all_written(),
                    places.part(own),
                    square_places.part_if_any(index * pooled..(index + 1) * pooled),
                )
            };
            // The multiplications started from the bias.
            self.after.finish(whole, None, outputs);
            let left = if self.after.pool {
                largest(whole, columns * outputs, outputs, most, squares);
                &most[..]
            } else {
                whole
            };
            transpose_uninit(left, outputs, (kept, outputs), y, kept);
        });
        // SAFETY: the outputs of every image were written, which together are all of `y`.
        #[expect(unsafe_code, reason = "they are written")]
        let y = unsafe { y.written() };
        (y, squares)
    }

    /// Computes one image's outputs, (windows, outputs).
    fn products(
        &self,
        image: &[f32],
        weight: &[f32],
        group: usize,
        bias: Option<&[f32]>,
        y: &mut [MaybeUninit<f32>],
    ) {
        let UnfoldSizes {
            rows,
            columns,
            window,
            ..
        } = self.conv.image;
        let (outputs, stretch, steps) = (self.outputs, self.stretch(), self.steps());
        let down = window.kernel.0;
        let panels = outputs.div_ceil(PANEL);
        let size = down * stretch * PANEL;
        // Number of kernel rows per multiplication.
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
                    let left = LeftMatrix {
                        numbers: &image[row * steps.down + i * steps.kernel..],
                        row: steps.across,
                        steps: (steps.kernel, 1),
                    };
                    let places = &mut y[row * columns * outputs + first..];
                    let target =
                        TargetMatrix::uninit_with_strides(places, columns, count, (outputs, 1));
                    let mut target = if i == 0 {
                        target.with_row(bias.map(|bias| &bias[first..first + count]))
                    } else {
                        // SAFETY: the multiplication of the first row of the kernel has written every element.
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
