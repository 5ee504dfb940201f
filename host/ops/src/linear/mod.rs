//! The linear layer as one operation: matrix multiplication, bias and the activation that follows.
//!
//! The backward pass computes all gradients in one operation, too.

mod sizes;
mod tiled;

use std::sync::OnceLock;

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, bail};

use self::tiled::TiledLinear;
use super::aside::hand_over;
use super::elementwise::{Function, KeptValues, map, map_leaving};
use super::tape::{apply2, apply3};
use crate::kernels::region::{self, SharedSlice};
use crate::kernels::{Job, Matrix, TargetMatrix, UninitBuffer, add_rows, multiply_all};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use sizes::LinearSizes;

/// x · Wᵀ + b over the last dimension: from (…, inputs) to (…, outputs).
///
/// W is (outputs, inputs) and b (outputs).
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    apply(x, weight, bias, None)
}

/// [`linear`] and a function of its outputs, with the same bits as one after the other.
pub fn linear_then(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    function: Function,
) -> Result<Tensor> {
    apply(x, weight, bias, Some(function))
}

fn apply(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    function: Option<Function>,
) -> Result<Tensor> {
    let (x, weight) = (ready(x)?, ready(weight)?);
    let op = LinearOp {
        function,
        slopes: OnceLock::new(),
    };
    match bias {
        Some(bias) => apply3(&x, &weight, &ready(bias)?, op),
        None => apply2(&x, &weight, op),
    }
}

struct LinearOp {
    function: Option<Function>,
    /// The function's derivatives at its inputs, where they don't follow from its outputs.
    slopes: OnceLock<CpuStorage>,
}

impl LinearOp {
    fn forward(
        &self,
        (x, x_layout): (&CpuStorage, &Layout),
        (weight, weight_layout): (&CpuStorage, &Layout),
        bias: Option<(&CpuStorage, &Layout)>,
    ) -> Result<(CpuStorage, Shape)> {
        let sizes = LinearSizes::of(x_layout.dims(), weight_layout.dims())?;
        let LinearSizes {
            rows,
            outputs,
            inputs,
        } = sizes;
        let mut shape = x_layout.dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        if let (CpuStorage::F32(_), Some(tiled)) = (x, TiledLinear::of(sizes)) {
            let bias = bias
                .map(|(bias, layout)| numbers(bias, layout))
                .transpose()?;
            if bias.is_some_and(|bias: &[f32]| bias.len() != outputs) {
                bail!("a linear layer of {outputs} outputs has a bias of another length")
            }
            let (x, weight) = (numbers(x, x_layout)?, numbers(weight, weight_layout)?);
            let (y, slopes) = tiled.forward(x, weight, bias, self.function);
            if let Some(slopes) = slopes {
                // The forward pass runs once per operation, so nothing was set before.
                drop(self.slopes.set(stored(slopes)));
            }
            return Ok((stored(y), shape.into()));
        }
        for_floats!(x, T => {
            let bias = bias.map(|(bias, layout)| numbers::<T>(bias, layout)).transpose()?;
            if bias.is_some_and(|bias| bias.len() != outputs) {
                bail!("a linear layer of {outputs} outputs has a bias of another length")
            }
            let left = Matrix::new(numbers::<T>(x, x_layout)?, rows, inputs);
            let right = Matrix::new(numbers::<T>(weight, weight_layout)?, outputs, inputs).t();
            let mut y = UninitBuffer::new(rows * outputs);
            let target = TargetMatrix::uninit(y.places(), rows, outputs).with_row(bias);
            multiply_all(&mut [Job::new(target, left, right)], |_, _| {});
            // SAFETY: the multiplication has written every element.
            #[expect(unsafe_code, reason = "it is written")]
            let y = unsafe { y.written() };
            Ok((stored(self.then(y)), shape.into()))
        })
    }

    /// Applies the function to the product.
    fn then<T: Number>(&self, mut product: Vec<T>) -> Vec<T> {
        let Some(function) = self.function else {
            return product;
        };
        let y = map_leaving(&mut product, |x, y| function.keeping_derivatives(x, y));
        if function != Function::Relu {
            // The forward pass runs once per operation, so nothing was set before.
            drop(self.slopes.set(stored(product)));
        }
        y
    }

    /// Values kept for the function's backward pass, given the operation's outputs and their gradients.
    fn kept<'a, T: Number>(
        &'a self,
        y: &'a CpuStorage,
        layout: &Layout,
        g: &[T],
    ) -> Result<Option<KeptValues<'a, T>>> {
        if self.function.is_none() {
            return Ok(None);
        }
        let kept = match self.slopes.get() {
            Some(slopes) => KeptValues::Slopes(T::cpu_storage_as_slice(slopes)?),
            None => KeptValues::Outputs(numbers::<T>(y, layout)?),
        };
        if kept.numbers().len() != g.len() {
            bail!("a gradient has another size than what it is the gradient of")
        }
        Ok(Some(kept))
    }
}

impl LinearOp {
    /// Computes the gradients of input, weight and bias, each if wanted.
    fn backward(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
        has_bias: bool,
    ) -> Result<[Option<Tensor>; 3]> {
        let gradient = ready(gradient)?;
        let (x_guard, x_layout) = x.storage_and_layout();
        let (weight_guard, weight_layout) = weight.storage_and_layout();
        let (y_guard, y_layout) = y.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let (x_storage, weight_storage) = (cpu(&x_guard)?, cpu(&weight_guard)?);
        let sizes = LinearSizes::of(x_layout.dims(), weight_layout.dims())?;
        let LinearSizes {
            rows,
            outputs,
            inputs,
        } = sizes;
        // Also for a weight held constant, so that the bias's gradient has the same bits as otherwise.
        let tiled = TiledLinear::of(sizes).and_then(|tiled| Some((tiled, tiled.shares()?)));
        if let (CpuStorage::F32(_), Some((tiled, shares))) = (x_storage, tiled) {
            let inputs = (
                numbers(x_storage, x_layout)?,
                numbers(weight_storage, weight_layout)?,
            );
            let g = numbers(cpu(&gradient_guard)?, gradient_layout)?;
            let kept = self.kept(cpu(&y_guard)?, y_layout, g)?;
            let wanted = [x.track_op(), weight.track_op()];
            let [of_x, of_weight, of_bias] = tiled.backward(inputs, (g, kept), wanted, shares);
            let of_x = x.track_op().then(|| new_tensor(of_x, x.shape()));
            let of_bias = has_bias.then(|| new_tensor(of_bias, &outputs.into()));
            let of_weight = weight
                .track_op()
                .then(|| new_tensor(of_weight, weight.shape()));
            return Ok([
                of_x.transpose()?,
                of_weight.transpose()?,
                of_bias.transpose()?,
            ]);
        }
        for_floats!(x_storage, T => {
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let kept = self.kept(cpu(&y_guard)?, y_layout, g)?;
            let before = kept.map(|kept| {
                map(kept.numbers(), g, |part, g, to| kept.gradients(part, g, to))
            });
            let g = before.as_deref().unwrap_or(g);
            let of_output = Matrix::new(g, rows, outputs);
            let of_x = Matrix::new(numbers::<T>(x_storage, x_layout)?, rows, inputs);
            let of_weight = Matrix::new(numbers::<T>(weight_storage, weight_layout)?, outputs, inputs);
            let mut x_slopes = x.track_op().then(|| UninitBuffer::new(rows * inputs));
            let mut weight_slopes = weight.track_op().then(|| UninitBuffer::new(outputs * inputs));
            let mut bias_slopes = has_bias.then(|| vec![T::ZERO; outputs]);
            let mut jobs = Vec::with_capacity(2);
            if let Some(slopes) = &mut weight_slopes {
                let target = TargetMatrix::uninit(slopes.places(), outputs, inputs);
                jobs.push(Job::new(target, of_output.t(), of_x));
            }
            if let Some(slopes) = &mut x_slopes {
                let target = TargetMatrix::uninit(slopes.places(), rows, inputs);
                jobs.push(Job::new(target, of_output, of_weight));
            }
            let bias_places = bias_slopes.as_mut().map(|slopes| SharedSlice::new(slopes));
            multiply_all(&mut jobs, |part, parts| {
                if let Some(places) = &bias_places {
                    let columns = region::range(outputs, 16, part, parts);
                    // SAFETY: `region::range` gives different parts disjoint columns.
                    #[expect(unsafe_code, reason = "each part has its own sums")]
                    let sums = unsafe { places.part(columns.clone()) };
                    if !columns.is_empty() {
                        add_rows(sums, g, outputs, columns.start);
                    }
                }
            });
            drop(jobs);
            // SAFETY: the multiplications have written every element of both.
            #[expect(unsafe_code, reason = "they are written")]
            let written = |slopes: UninitBuffer<T>, like: &Tensor| unsafe {
                new_tensor(slopes.written(), like.shape())
            };
            let of_x = x_slopes.map(|slopes| written(slopes, x)).transpose()?;
            let of_weight = weight_slopes.map(|slopes| written(slopes, weight)).transpose()?;
            let of_bias = bias_slopes.map(|slopes| new_tensor(slopes, &outputs.into()));
            Ok([of_x, of_weight, of_bias.transpose()?])
        })
    }
}

impl CustomOp3 for LinearOp {
    fn name(&self) -> &'static str {
        "linear"
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
        self.forward(
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
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [of_x, of_weight, of_bias] = self.backward(x, weight, y, gradient, true)?;
        Ok((
            hand_over(x, of_x),
            hand_over(weight, of_weight),
            hand_over(bias, of_bias),
        ))
    }
}

impl CustomOp2 for LinearOp {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.forward((x, x_layout), (weight, weight_layout), None)
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [of_x, of_weight, _] = self.backward(x, weight, y, gradient, false)?;
        Ok((hand_over(x, of_x), hand_over(weight, of_weight)))
    }
}

#[cfg(test)]
mod tests;
