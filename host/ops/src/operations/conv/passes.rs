//! Forward and backward pass of a convolution over a batch.

use std::mem::MaybeUninit;

use super::after::{self, Scratch};
use super::bands::Bands;
use super::sizes::Conv;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts};
use crate::kernels::math::{Number, sum};
use crate::kernels::{Job, Matrix, TargetMatrix, multiply, multiply_uninit, write_rows, zeros};
use crate::options::After;
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
        let lines = self.bands.lines;
        let (depth, width) = lines.matrix();
        let (_, windows) = self.image.matrix();
        let sides = (self.image.rows, self.image.columns);
        let outputs = self.group_outputs();
        let weight = self.bands.weight(weight, outputs);
        // For one image and group: outputs of the multiplication, and those kept.
        let (whole, kept) = (outputs * windows, outputs * self.kept(after));
        let images = self.batch * self.groups;
        let pooled = if after.pool { kept } else { 0 };
        let mut squares = vec![0; images * pooled];
        let memory = (
            UninitRows::new(images, kept),
            Rows::new(&mut squares, pooled),
        );
        let schedule = Schedule::per_thread(self.parts(), images, self.groups);
        let (y, ()) = fill_parts(schedule, memory, |images, (y, squares)| {
            let mut columns = vec![T::ZERO; depth * width];
            let mut scratch = after::room(after, whole);
            let first = images.start;
            let y = write_rows(y, images, |index, y| {
                let group = index % self.groups;
                let size = self.input_size();
                lines.unfold(&x[index * size..(index + 1) * size], &mut columns);
                let bias = bias.map(|bias| &bias[group * outputs..(group + 1) * outputs]);
                if after.pool {
                    let whole = self.product(&weight, group, &columns, scratch.slots());
                    after.finish(whole, bias, windows);
                    let squares = &mut squares[(index - first) * pooled..][..pooled];
                    let y = zeros(y);
                    after::pool(whole, sides, y, squares);
                    y
                } else {
                    let y = self.product(&weight, group, &columns, y);
                    after.finish(y, bias, windows);
                    y
                }
            });
            (y, ())
        });
        (y, squares)
    }

    /// Computes the outputs of an image and group, without bias, from the matrix of its windows: (outputs, windows).
    fn product<'a, T: Number>(
        &self,
        weight: &[T],
        group: usize,
        columns: &[T],
        slots: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        let Bands { lines, count, step } = self.bands;
        let (depth, width) = lines.matrix();
        let (_, windows) = self.image.matrix();
        let outputs = self.group_outputs();
        let factors = |band: usize| {
            let own = (group * count + band) * outputs * depth;
            let seen = &columns[band * step..];
            let seen = Matrix::with_steps(seen, depth, windows, (width, 1));
            (Matrix::new(&weight[own..], outputs, depth), seen)
        };
        let (weight, seen) = factors(0);
        let sums = multiply_uninit(slots, weight, seen);
        for band in 1..count {
            let (weight, seen) = factors(band);
            let target = TargetMatrix::adding(sums, outputs, windows);
            multiply(&mut Job::new(target, weight, seen));
        }
        sums
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
        let images = self.batch * self.groups;
        let schedule = Schedule::per_thread(self.parts(), images, self.groups);
        // Each part's own sums: of the weight's gradient, transposed, and of the bias's.
        let size = weight.len() + self.outputs;
        let mut sums = vec![T::ZERO; schedule.chunks() * size];
        let inputs = self.input_size();
        let memory = (
            UninitRows::new(images, if of_input { inputs } else { 0 }),
            Rows::per_chunk(&mut sums, size),
        );
        let (x_gradient, ()) = fill_parts(schedule, memory, |images, (x_gradient, sums)| {
            let mut columns = vec![T::ZERO; depth * width];
            let mut column_gradients = vec![T::ZERO; if of_input { depth * width } else { 0 }];
            let mut scratch = Scratch::new(after, outputs, sides);
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            let x_gradient = write_rows(x_gradient, images, |index, slots| {
                let group = index % self.groups;
                lines.unfold(&x[index * inputs..(index + 1) * inputs], &mut columns);
                let own = index * kept..(index + 1) * kept;
                let squares = squares.get(own.clone()).unwrap_or_default();
                let (y, g) = (&y[own.clone()], &g[own]);
                let g = after.gradient(g, y, squares, sides, &mut scratch);
                let of_output = Matrix::new(g, outputs, windows);
                if count > 1 {
                    column_gradients.fill(T::ZERO);
                }
                for band in 0..count {
                    let own = (group * count + band) * outputs * depth;
                    let seen = &columns[band * step..];
                    let seen = Matrix::with_steps(seen, depth, windows, (width, 1));
                    let target = TargetMatrix::adding(&mut weight_sums[own..], depth, outputs);
                    multiply(&mut Job::new(target, seen, of_output.t()));
                    if of_input {
                        let weight = Matrix::new(&in_bands[own..], outputs, depth);
                        let gradients = &mut column_gradients[band * step..];
                        let target = if count > 1 {
                            TargetMatrix::adding_with_step(gradients, depth, windows, width)
                        } else {
                            TargetMatrix::replacing(gradients, depth, windows)
                        };
                        multiply(&mut Job::new(target, weight.t(), of_output));
                    }
                }
                sum_rows(
                    &mut bias_sums[group * outputs..(group + 1) * outputs],
                    g,
                    windows,
                );
                let gradients = zeros(slots);
                if of_input {
                    lines.fold(&column_gradients, gradients);
                }
                gradients
            });
            (x_gradient, ())
        });
        let (first, others) = sums.split_at_mut(size);
        for other in others.chunks_exact(size) {
            for (sum, &x) in first.iter_mut().zip(other) {
                *sum += x;
            }
        }
        let (weight_sums, bias_sums) = first.split_at(weight.len());
        let weight_gradient = self.bands.weight_of(weight_sums, outputs);
        [x_gradient, weight_gradient, bias_sums.to_vec()]
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
