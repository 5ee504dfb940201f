//! The linear layer as one operation: matrix multiplication, bias and the activation that follows.
//!
//! The backward pass computes all gradients in one operation, too.

mod blocked;
mod sizes;

use std::sync::OnceLock;

use candle_core::{CpuStorage, Layout, Result, Shape, Tensor, bail};

use super::elementwise::KeptValues;
use crate::autograd::layer::{LayerInputs, LayerOp, Stored, apply_layer};
use crate::autograd::tape::is_recording;
use crate::choice::rounded_outputs::KeptOutputs;
use crate::choice::rounded_products::product_terms;
use crate::composed;
use crate::kernels::{
    Blocked, Factors, Matrix, Terms, add_rows, map, map_leaving, multiply_all_uninit,
    multiply_few_rows,
};
use crate::options::{Function, WeightOrder};
use crate::storage::halves::whole;
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
pub(crate) use blocked::BlockedLinear;
pub(crate) use sizes::LinearSizes;

/// x · Wᵀ + b over the last dimension: from (…, inputs) to (…, outputs).
///
/// W is (outputs, inputs) and b (outputs).
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    linear_with(x, (weight, WeightOrder::OutputsInputs), bias, None)
}

/// [`linear`] and a function of its outputs, with the same bits as one after the other.
pub fn linear_then(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    function: Function,
) -> Result<Tensor> {
    linear_with(
        x,
        (weight, WeightOrder::OutputsInputs),
        bias,
        Some(function),
    )
}

/// [`linear`] by a weight in this order, which is read as it is, and a function of its outputs, if any.
///
/// The bits are the same for both orders wherever products are computed by packed blocks, as those of several rows are.
pub fn linear_with(
    x: &Tensor,
    (weight, order): (&Tensor, WeightOrder),
    bias: Option<&Tensor>,
    function: Option<Function>,
) -> Result<Tensor> {
    if composed::is_chosen_for_products(x) {
        return composed::linear(x, (weight, order), bias, function);
    }
    let (x, weight) = (ready(x)?, ready(weight)?);
    let op = LinearOp {
        order,
        function,
        terms: product_terms(),
        kept_outputs: KeptOutputs::asked(),
        derivatives: OnceLock::new(),
    };
    let bias = bias.map(ready).transpose()?;
    apply_layer((&x, &weight, bias.as_ref()), op)
}

struct LinearOp {
    order: WeightOrder,
    function: Option<Function>,
    /// Of the products of both passes.
    terms: Terms,
    kept_outputs: KeptOutputs,
    /// The function's derivatives at its inputs, where they don't follow from its outputs.
    derivatives: OnceLock<CpuStorage>,
}

/// Whether a linear layer of these sizes, from now on, rounds its inputs and reads them no other way, and there will be a backward pass
/// that reads them again.
pub fn rounds_linear(rows: usize, inputs: usize, outputs: usize) -> bool {
    product_terms() == Terms::Pairs && is_recording() && Blocked::pays(rows, inputs, outputs)
}

impl LinearOp {
    fn outputs(
        &self,
        (x, x_layout): Stored<'_>,
        (weight, weight_layout): Stored<'_>,
        bias: Option<Stored<'_>>,
    ) -> Result<(CpuStorage, Shape)> {
        let sizes = LinearSizes::of(x_layout.dims(), weight_layout.dims(), self.order)?;
        let LinearSizes {
            rows,
            outputs,
            inputs,
            ..
        } = sizes;
        let mut shape = x_layout.dims().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        if let (CpuStorage::F32(_), Some(blocked)) = (x, BlockedLinear::of(sizes, self.terms)) {
            let bias = bias
                .map(|(bias, layout)| numbers(bias, layout))
                .transpose()?;
            if bias.is_some_and(|bias: &[f32]| bias.len() != outputs) {
                bail!("a linear layer of {outputs} outputs has a bias of another length")
            }
            let (x, weight) = (numbers(x, x_layout)?, numbers(weight, weight_layout)?);
            let (y, derivatives) = blocked.forward(x, weight, bias, self.function);
            if let Some(derivatives) = derivatives {
                // The forward pass runs once per operation, so nothing was set before.
                drop(self.derivatives.set(stored(derivatives)));
            }
            return Ok((stored(y), shape.into()));
        }
        for_floats!(x, T => {
            let bias = bias.map(|(bias, layout)| numbers::<T>(bias, layout)).transpose()?;
            if bias.is_some_and(|bias| bias.len() != outputs) {
                bail!("a linear layer of {outputs} outputs has a bias of another length")
            }
            let (x, weight) = (numbers::<T>(x, x_layout)?, numbers::<T>(weight, weight_layout)?);
            if sizes.has_few_rows() {
                let dims = [rows, inputs, outputs];
                let product = multiply_few_rows(x, sizes.streamed(weight), dims, bias);
                return Ok((stored(self.then(product)), shape.into()));
            }
            let (left, right) = (Matrix::new(x, rows, inputs), sizes.weight(weight).t());
            let factors = Factors {
                left,
                right,
                row: bias,
            };
            let [y] = multiply_all_uninit([Some(factors)], &mut [], |_, _| {});
            // It was asked for, so it is there.
            Ok((stored(self.then(y.unwrap_or_default())), shape.into()))
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
            drop(self.derivatives.set(stored(product)));
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
        let kept = match self.derivatives.get() {
            Some(derivatives) => KeptValues::Derivatives(T::cpu_storage_as_slice(derivatives)?),
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
    fn gradients(
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
        let (x_storage, y_storage) = (whole(cpu(&x_guard)?), whole(cpu(&y_guard)?));
        let (x_storage, y_storage) = (&*x_storage, &*y_storage);
        let weight_storage = cpu(&weight_guard)?;
        let sizes = LinearSizes::of(x_layout.dims(), weight_layout.dims(), self.order)?;
        let LinearSizes {
            rows,
            outputs,
            inputs,
            ..
        } = sizes;
        // Also for a weight held constant, so that the bias's gradient has the same bits as otherwise.
        if let (CpuStorage::F32(_), Some(blocked)) =
            (x_storage, BlockedLinear::of(sizes, self.terms))
        {
            let inputs = (
                numbers(x_storage, x_layout)?,
                numbers(weight_storage, weight_layout)?,
            );
            let g = numbers(cpu(&gradient_guard)?, gradient_layout)?;
            let kept = self.kept(y_storage, y_layout, g)?;
            let wanted = [weight.track_op(), x.track_op()];
            let (of_bias, [of_weight, of_x]) =
                blocked.backward(inputs, (g, kept), wanted, has_bias);
            let of_x = of_x.map(|of_x| new_tensor(of_x, x.shape()));
            let of_bias = has_bias.then(|| new_tensor(of_bias, &outputs.into()));
            let of_weight = of_weight.map(|of_weight| new_tensor(of_weight, weight.shape()));
            return Ok([
                of_x.transpose()?,
                of_weight.transpose()?,
                of_bias.transpose()?,
            ]);
        }
        for_floats!(x_storage, T => {
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let kept = self.kept(y_storage, y_layout, g)?;
            let before = kept.map(|kept| {
                map(kept.numbers(), g, |part, g, to| kept.gradients(part, g, to))
            });
            let g = before.as_deref().unwrap_or(g);
            let of_output = Matrix::new(g, rows, outputs);
            let of_x = Matrix::new(numbers::<T>(x_storage, x_layout)?, rows, inputs);
            let of_weight = sizes.weight(numbers::<T>(weight_storage, weight_layout)?);
            let (left, right) = sizes.of_weight(of_output, of_x);
            let factors = |left, right| Factors {
                left,
                right,
                row: None,
            };
            let wanted = [
                weight.track_op().then(|| factors(left, right)),
                x.track_op().then(|| factors(of_output, of_weight)),
            ];
            let mut bias_sums = vec![T::ZERO; if has_bias { outputs } else { 0 }];
            let [weight_gradient, x_gradient] =
                multiply_all_uninit(wanted, &mut bias_sums, |columns, sums| {
                    add_rows(sums, g, outputs, columns.start);
                });
            let x_gradient = x_gradient.map(|gradient| new_tensor(gradient, x.shape()));
            let weight_gradient =
                weight_gradient.map(|gradient| new_tensor(gradient, weight.shape()));
            let bias_gradient = has_bias.then(|| new_tensor(bias_sums, &outputs.into()));
            Ok([
                x_gradient.transpose()?,
                weight_gradient.transpose()?,
                bias_gradient.transpose()?,
            ])
        })
    }
}

impl LayerOp for LinearOp {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn forward(
        &self,
        x: Stored<'_>,
        weight: Stored<'_>,
        bias: Option<Stored<'_>>,
    ) -> Result<(CpuStorage, Shape)> {
        let (outputs, shape) = self.outputs((&whole(x.0), x.1), weight, bias)?;
        Ok((self.kept_outputs.of(outputs), shape))
    }

    fn backward(
        &self,
        (x, weight, bias): LayerInputs<'_>,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        let has_bias = bias.is_some_and(Tensor::track_op);
        self.gradients(x, weight, y, gradient, has_bias)
    }
}

/// Gradients of weight (outputs, inputs) and bias, each if wanted, of a layer of these inputs whose outputs have this gradient.
pub(crate) fn parameter_gradients(
    x: &Tensor,
    weight: &Tensor,
    gradient: &Tensor,
    has_bias: bool,
) -> Result<[Option<Tensor>; 2]> {
    let op = LinearOp {
        order: WeightOrder::OutputsInputs,
        function: None,
        terms: Terms::Singles,
        kept_outputs: KeptOutputs::asked(),
        derivatives: OnceLock::new(),
    };
    // Without a function the outputs are not read.
    let [_, of_weight, of_bias] = op.gradients(x, weight, gradient, gradient, has_bias)?;
    Ok([of_weight, of_bias])
}

#[cfg(test)]
mod tests;
