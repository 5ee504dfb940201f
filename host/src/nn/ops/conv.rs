//! Convolution as one operation: the windows of each image as a matrix, and its product with the weight.
//!
//! Images are shared out among the threads. The matrix of windows lives for one image alone, and is
//! made again on the way back, which costs less than to keep it.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, bail};

use super::tape::hand_over;
use super::unfold::Sizes;
use super::{Number, Window, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::kernels::math::sum;
use crate::kernels::region::{self, Shared};
use crate::kernels::{Fresh, Job, Matrix, Target, multiply, vectorised, written, zeros};

/// Convolution of (batch, inputs, height, width) with a weight (outputs, inputs / groups, kernel down,
/// kernel across; the last alone where the kernel is of one row) and a bias (outputs), to (batch, outputs, windows down, windows across).
pub fn conv2d(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    window: Window,
    groups: usize,
) -> Result<Tensor> {
    let conv = Conv::of(x, weight, bias, window, groups)?;
    let (x, weight) = (ready(x)?, ready(weight)?);
    match bias {
        Some(bias) => x.apply_op3(&weight, &ready(bias)?, conv),
        None => x.apply_op2(&weight, conv),
    }
}

#[derive(Clone, Copy)]
struct Conv {
    /// One image's inputs of one group.
    image: Sizes,
    batch: usize,
    outputs: usize,
    groups: usize,
}

impl Conv {
    fn of(
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        window: Window,
        groups: usize,
    ) -> Result<Conv> {
        let all = Sizes::of(x.dims(), window)?;
        let fits = match weight.dims() {
            [outputs, inputs, kernel @ ..] => {
                let (down, across) = window.kernel;
                groups > 0
                    && inputs * groups == all.channels
                    && outputs % groups == 0
                    && (*kernel == [down, across] || *kernel == [across] && down == 1)
            }
            _ => false,
        };
        if !fits {
            bail!(
                "a convolution of weight {:?} in {groups} groups was given {:?}",
                weight.dims(),
                x.dims()
            )
        }
        let outputs = weight.dim(0)?;
        if bias.is_some_and(|bias| bias.dims() != [outputs]) {
            bail!("a convolution of {outputs} outputs has a bias of another shape")
        }
        Ok(Conv {
            image: Sizes {
                batch: 1,
                channels: all.channels / groups,
                ..all
            },
            batch: all.batch,
            outputs,
            groups,
        })
    }

    /// Numbers of one image's inputs of one group.
    fn input_size(&self) -> usize {
        self.image.channels * self.image.height * self.image.width
    }

    /// Outputs of one group.
    fn group_outputs(&self) -> usize {
        self.outputs / self.groups
    }

    fn parts(&self) -> usize {
        let (depth, windows) = self.image.matrix();
        let operations = 2 * self.batch * self.outputs * depth * windows;
        region::parts(operations).min(self.batch.max(1))
    }

    fn forward<T: Number>(&self, x: &[T], weight: &[T], bias: Option<&[T]>) -> Vec<T> {
        let (depth, windows) = self.image.matrix();
        let outputs = self.group_outputs();
        let mut y = Fresh::new(self.batch * self.outputs * windows);
        let places = Shared::new(y.places());
        let parts = self.parts();
        region::run(parts, |part| {
            let mut columns = vec![T::ZERO; depth * windows];
            let images = region::range(self.batch * self.groups, self.groups, part, parts);
            for index in images {
                let group = index % self.groups;
                let size = self.input_size();
                self.image
                    .unfold(&x[index * size..(index + 1) * size], &mut columns);
                let size = outputs * windows;
                // SAFETY: each image is in one part.
                #[expect(unsafe_code, reason = "each image has its own outputs")]
                let y = unsafe { places.part(index * size..(index + 1) * size) };
                let weight = &weight[group * outputs * depth..(group + 1) * outputs * depth];
                let weight = Matrix::new(weight, outputs, depth);
                let columns = Matrix::new(&columns, depth, windows);
                let target = Target::fresh(y, outputs, windows);
                multiply(&mut Job::new(target, weight, columns));
                if let Some(bias) = bias {
                    // SAFETY: the product has written all.
                    #[expect(unsafe_code, reason = "it is written")]
                    let y = unsafe { written(y) };
                    add_to_rows(y, &bias[group * outputs..(group + 1) * outputs], windows);
                }
            }
        });
        // SAFETY: every image's outputs were written.
        #[expect(unsafe_code, reason = "they are written")]
        unsafe {
            y.written()
        }
    }

    /// The gradients of input (where it is wanted), weight and bias.
    fn backward<T: Number>(&self, x: &[T], weight: &[T], g: &[T], of_input: bool) -> [Vec<T>; 3] {
        let (depth, windows) = self.image.matrix();
        let outputs = self.group_outputs();
        let parts = self.parts();
        let mut x_slopes = Fresh::new(if of_input { x.len() } else { 0 });
        // Each thread's own sums: of the weight, transposed, and of the bias.
        let size = weight.len() + self.outputs;
        let mut sums = vec![T::ZERO; parts * size];
        let (x_places, sum_places) = (Shared::new(x_slopes.places()), Shared::new(&mut sums));
        region::run(parts, |part| {
            let mut columns = vec![T::ZERO; depth * windows];
            let mut column_slopes = Fresh::new(if of_input { depth * windows } else { 0 });
            // SAFETY: each part has its own.
            #[expect(unsafe_code, reason = "each part has its own sums")]
            let sums = unsafe { sum_places.part(part * size..(part + 1) * size) };
            let (weight_sums, bias_sums) = sums.split_at_mut(weight.len());
            let images = region::range(self.batch * self.groups, self.groups, part, parts);
            for index in images {
                let group = index % self.groups;
                let inputs = index * self.input_size()..(index + 1) * self.input_size();
                self.image.unfold(&x[inputs.clone()], &mut columns);
                let g = &g[index * outputs * windows..(index + 1) * outputs * windows];
                let of_output = Matrix::new(g, outputs, windows);
                let own = group * outputs * depth..(group + 1) * outputs * depth;
                let target = Target::adding(&mut weight_sums[own.clone()], depth, outputs);
                let job = Job::new(target, Matrix::new(&columns, depth, windows), of_output.t());
                multiply(&mut { job });
                sum_rows(
                    &mut bias_sums[group * outputs..(group + 1) * outputs],
                    g,
                    windows,
                );
                if of_input {
                    let weight = Matrix::new(&weight[own], outputs, depth);
                    let target = Target::fresh(column_slopes.places(), depth, windows);
                    multiply(&mut Job::new(target, weight.t(), of_output));
                    // SAFETY: the product has written all; each image is in one part.
                    #[expect(unsafe_code, reason = "each image has its own inputs")]
                    let (columns, slopes) =
                        unsafe { (column_slopes.all_written(), x_places.part(inputs)) };
                    self.image.fold(columns, zeros(slopes));
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
        let mut weight_slopes = Vec::with_capacity(weight.len());
        for turned in weight_sums.chunks_exact((outputs * depth).max(1)) {
            for output in 0..outputs {
                weight_slopes.extend((0..depth).map(|place| turned[place * outputs + output]));
            }
        }
        // SAFETY: every image's were written, where they are wanted.
        #[expect(unsafe_code, reason = "they are written")]
        let x_slopes = unsafe { x_slopes.written() };
        [x_slopes, weight_slopes, bias_sums.to_vec()]
    }

    fn apply(
        &self,
        (x, x_layout): (&CpuStorage, &Layout),
        (weight, weight_layout): (&CpuStorage, &Layout),
        bias: Option<(&CpuStorage, &Layout)>,
    ) -> Result<(CpuStorage, Shape)> {
        let shape = (
            self.batch,
            self.outputs,
            self.image.rows,
            self.image.columns,
        );
        for_floats!(x, T => {
            let bias = bias.map(|(bias, layout)| numbers::<T>(bias, layout)).transpose()?;
            let weight = numbers::<T>(weight, weight_layout)?;
            let y = self.forward(numbers::<T>(x, x_layout)?, weight, bias);
            Ok((stored(y), shape.into()))
        })
    }

    fn slopes(
        &self,
        x: &Tensor,
        weight: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        let gradient = ready(gradient)?;
        let (x_guard, x_layout) = x.storage_and_layout();
        let (weight_guard, weight_layout) = weight.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&x_guard)?;
        for_floats!(storage, T => {
            let numbers_of_x = numbers::<T>(storage, x_layout)?;
            let numbers_of_weight = numbers::<T>(cpu(&weight_guard)?, weight_layout)?;
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let wanted = x.track_op();
            let [of_x, of_weight, of_bias] =
                self.backward(numbers_of_x, numbers_of_weight, g, wanted);
            let of_x = wanted.then(|| new_tensor(of_x, x.shape())).transpose()?;
            let of_bias = new_tensor(of_bias, &self.outputs.into())?;
            Ok([of_x, Some(new_tensor(of_weight, weight.shape())?), Some(of_bias)])
        })
    }
}

vectorised! {
    /// Adds a number to each row.
    fn add_to_rows<T: Number>(matrix: &mut [T], numbers: &[T], columns: usize) {
        for (row, &number) in matrix.chunks_exact_mut(columns.max(1)).zip(numbers) {
            for x in row {
                *x += number;
            }
        }
    }
}

vectorised! {
    /// Adds each row's sum.
    fn sum_rows<T: Number>(sums: &mut [T], matrix: &[T], columns: usize) {
        for (total, row) in sums.iter_mut().zip(matrix.chunks_exact(columns.max(1))) {
            *total += sum(row.len(), |index| row[index]);
        }
    }
}

impl CustomOp3 for Conv {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.apply(
            (x, x_layout),
            (weight, weight_layout),
            Some((bias, bias_layout)),
        )
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [of_x, of_weight, of_bias] = self.slopes(x, weight, gradient)?;
        Ok((
            hand_over(x, of_x),
            hand_over(weight, of_weight),
            hand_over(bias, of_bias),
        ))
    }
}

impl CustomOp2 for Conv {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.apply((x, x_layout), (weight, weight_layout), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [of_x, of_weight, _] = self.slopes(x, weight, gradient)?;
        Ok((hand_over(x, of_x), hand_over(weight, of_weight)))
    }
}
