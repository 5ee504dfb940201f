//! Forward and backward pass of a convolution over a batch.

use std::mem::MaybeUninit;

use super::after::{self, After, Scratch};
use super::bands::Bands;
use super::sizes::Conv;
use crate::kernels::math::Number;
use crate::kernels::math::sum;
use crate::kernels::region::{self, SharedSlice};
use crate::kernels::{Job, Matrix, TargetMatrix, UninitBuffer, multiply, written, zeros};
use crate::vectorised;

impl Conv {
    /// Computes the outputs and, with pooling, their positions in the squares.
    pub(super) fn forward<T: Number>(
        &self,
        x: &[T],
        weight: &[T],
        bias: Option<&[T]>,
        after: After,
    ) -> (Vec<T>, Vec<u8>) {
        let Bands { lines, count, step } = self.bands;
        let (depth, width) = lines.matrix();
        let (_, windows) = self.image.matrix();
        let sides = (self.image.rows, self.image.columns);
        let outputs = self.group_outputs();
        let weight = self.bands.weight(weight, outputs);
        // For one image and group: outputs of the multiplication, and those kept.
        let (whole, kept) = (outputs * windows, outputs * self.kept(after));
        let mut y = UninitBuffer::new(self.batch * self.groups * kept);
        let mut squares = vec![
            0;
            if after.pool {
                self.batch * self.groups * kept
            } else {
                0
            }
        ];
        let (places, square_places) =
            (SharedSlice::new(y.places()), SharedSlice::new(&mut squares));
        let parts = self.parts();
        region::run(parts, |part| {
            let mut columns = vec![T::ZERO; depth * width];
            let mut scratch = after::room(after, whole);
            let images = region::range(self.batch * self.groups, self.groups, part, parts);
            for index in images {
                let group = index % self.groups;
                let size = self.input_size();
                lines.unfold(&x[index * size..(index + 1) * size], &mut columns);
                let own = index * kept..(index + 1) * kept;
                // SAFETY: each image is in one part, and its range overlaps with no other image's.
                #[expect(unsafe_code, reason = "each image has its own outputs")]
                let y = unsafe { places.part(own.clone()) };
                let bias = bias.map(|bias| &bias[group * outputs..(group + 1) * outputs]);
                let product = |places: &mut [MaybeUninit<T>]| {
                    for band in 0..count {
                        let own = (group * count + band) * outputs * depth;
                        let weight = Matrix::new(&weight[own..], outputs, depth);
                        let seen = &columns[band * step..];
                        let seen = Matrix::with_steps(seen, depth, windows, (width, 1));
                        let target = if band == 0 {
                            TargetMatrix::uninit(places, outputs, windows)
                        } else {
                            // SAFETY: the multiplication of the first band has written every element.
                            #[expect(unsafe_code, reason = "it is written")]
                            let sums = unsafe { written(places) };
                            TargetMatrix::adding(sums, outputs, windows)
                        };
                        multiply(&mut Job::new(target, weight, seen));
                    }
                };
                if after.pool {
                    product(scratch.places());
                    // SAFETY: the multiplications have written every element; each image is in one part, and its range
                    // overlaps with no other image's.
                    #[expect(unsafe_code, reason = "each image has its own outputs")]
                    let (whole, squares) =
                        unsafe { (scratch.all_written(), square_places.part_if_any(own)) };
                    after.finish(whole, bias, windows);
                    after::pool(whole, sides, zeros(y), squares);
                } else {
                    product(y);
                    // SAFETY: the multiplications have written every element.
                    #[expect(unsafe_code, reason = "it is written")]
                    after.finish(unsafe { written(y) }, bias, windows);
                }
            }
        });
        // SAFETY: the parts cover all images, and the outputs of each were written.
        #[expect(unsafe_code, reason = "they are written")]
        let y = unsafe { y.written() };
        (y, squares)
    }

    /// Number of outputs of one channel of an image that are kept.
    pub(super) fn kept(&self, after: After) -> usize {
        let (rows, columns) = after.outputs(self.image.rows, self.image.columns);
        rows * columns
    }

    /// Computes the gradients of input (if wanted), weight and bias from the outputs and their gradient.
    pub(super) fn backward<T: Number>(
        &self,
        (x, weight): (&[T], &[T]),
        (y, g): (&[T], &[T]),
        (after, squares): (After, &[u8]),
        of_input: bool,
    ) -> [Vec<T>; 3] {
        let Bands { lines, count, step } = self.bands;
        let (depth, width) = lines.matrix();
        let (_, windows) = self.image.matrix();
        let sides = (self.image.rows, self.image.columns);
        let outputs = self.group_outputs();
        let in_bands = self.bands.weight(weight, outputs);
        let kept = outputs * self.kept(after);
        let parts = self.parts();
        let mut x_slopes = UninitBuffer::new(if of_input { x.len() } else { 0 });
        // Each part's own sums: of the weight's gradient, transposed, and of the bias's.
        let size = weight.len() + self.outputs;
        let mut sums = vec![T::ZERO; parts * size];
        let (x_places, sum_places) = (
            SharedSlice::new(x_slopes.places()),
            SharedSlice::new(&mut sums),
        );
        region::run(parts, |part| {
            let mut columns = vec![T::ZERO; depth * width];
            let mut column_slopes = vec![T::ZERO; if of_input { depth * width } else { 0 }];
            let mut scratch = Scratch::new(after, outputs, sides);
            // SAFETY: the ranges of different parts are disjoint.
            #[expect(unsafe_code, reason = "each part has its own sums")]
            let sums = unsafe { sum_places.part(part * size..(part + 1) * size) };
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            let images = region::range(self.batch * self.groups, self.groups, part, parts);
            for index in images {
                let group = index % self.groups;
                let inputs = index * self.input_size()..(index + 1) * self.input_size();
                lines.unfold(&x[inputs.clone()], &mut columns);
                let own = index * kept..(index + 1) * kept;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let (y, g) = (&y[own.clone()], &g[own]);
                let g = after.gradient(g, y, squares, sides, &mut scratch);
                let of_output = Matrix::new(g, outputs, windows);
                if count > 1 {
                    column_slopes.fill(T::ZERO);
                }
                for band in 0..count {
                    let own = (group * count + band) * outputs * depth;
                    let seen = &columns[band * step..];
                    let seen = Matrix::with_steps(seen, depth, windows, (width, 1));
                    let target = TargetMatrix::adding(&mut weight_sums[own..], depth, outputs);
                    multiply(&mut Job::new(target, seen, of_output.t()));
                    if of_input {
                        let weight = Matrix::new(&in_bands[own..], outputs, depth);
                        let slopes = &mut column_slopes[band * step..];
                        let target = if count > 1 {
                            TargetMatrix::adding_with_step(slopes, depth, windows, width)
                        } else {
                            TargetMatrix::replacing(slopes, depth, windows)
                        };
                        multiply(&mut Job::new(target, weight.t(), of_output));
                    }
                }
                sum_rows(
                    &mut bias_sums[group * outputs..(group + 1) * outputs],
                    g,
                    windows,
                );
                if of_input {
                    // SAFETY: each image is in one part, and its range overlaps with no other image's.
                    #[expect(unsafe_code, reason = "each image has its own inputs")]
                    let slopes = unsafe { x_places.part(inputs) };
                    lines.fold(&column_slopes, zeros(slopes));
                }
            }
        });
        let (first, others) = sums.split_at_mut(size);
        for other in others.chunks_exact(size) {
            for (sum, &x) in first.iter_mut().zip(other) {
                *sum += x;
            }
        }
        let (weight_sums, bias_sums) = first.split_at(weight.len());
        let weight_slopes = self.bands.weight_of(weight_sums, outputs);
        // SAFETY: the gradient of every image was written; if it is not wanted, there are no elements.
        #[expect(unsafe_code, reason = "they are written")]
        let x_slopes = unsafe { x_slopes.written() };
        [x_slopes, weight_slopes, bias_sums.to_vec()]
    }
}

vectorised! {
    /// Adds the sum of each row to `sums`.
    fn sum_rows<T: Number>(sums: &mut [T], matrix: &[T], columns: usize) {
        for (total, row) in sums.iter_mut().zip(matrix.chunks_exact(columns.max(1))) {
            *total += sum([row], |[x]| x);
        }
    }
}
