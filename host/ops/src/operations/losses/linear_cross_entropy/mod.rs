//! A linear layer and the cross entropy of its outputs, some rows at a time.
//!
//! A language model's logits, (positions, vocabulary), are the largest of its activations, and their gradients are as large again.
//! Here both are of some rows at a time: the logits of these, their loss, the gradients of the logits in the same memory, and what
//! they add to the gradients of the layer. So gradients are computed with the loss, and multiplied by the loss's own gradient in the
//! backward pass (as in Liger Kernel, Hsu et al. 2024): the three products of a layer and a loss one after the other.
//!
//! **Bits.** They are those of layer and loss one after the other. A row of a product doesn't depend on the others, and the sums over
//! all rows are continued in their order. Where the loss's gradient is not a power of two, as in an update of three batches, gradients
//! of the layer are rounded after it is multiplied by, not before.
//!
//! **Parts.** `parts`: how rows are divided, and what is computed of each part. This file: the operation.

mod parts;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, DType, Result, Shape, Tensor, bail};

use super::cross_entropy::cross_entropy;
use super::target_rows::TargetRows;
use crate::autograd::constants::seen;
use crate::autograd::custom_gradient::Output;
use crate::autograd::layer::{LayerInputs, LayerOp, Stored, apply_layer};
use crate::autograd::tape::{is_recording, keeps};
use crate::choice::is_chosen;
use crate::choice::rounded_products::product_terms;
use crate::kernels::Terms;
use crate::operations::linear::{BlockedLinear, LinearSizes, linear_with};
use crate::options::{CrossEntropyTerms, WeightOrder};
use crate::storage::{new_tensor, ready, stored};
use parts::{LayerGradients, Logits, Wanted, are_many, rows_at_once, with_numbers};

/// The parameters of a linear layer.
#[derive(Clone, Debug)]
pub struct LinearParameters {
    /// A matrix in its order.
    pub weight: Tensor,
    /// Which dimension of the weight is which.
    pub order: WeightOrder,
    /// Of the outputs, if there is one.
    pub bias: Option<Tensor>,
}

/// Whether [`linear_cross_entropy`] computes the outputs of these inputs some rows at a time: where they are many, `f32`, on the CPU,
/// not rounded, and computed by packed blocks.
pub fn is_in_parts(x: &Tensor, layer: &LinearParameters) -> bool {
    let weight = &layer.weight;
    let is_plain = product_terms() == Terms::Singles && !is_chosen(x);
    if !is_plain || [x, weight].iter().any(|it| it.dtype() != DType::F32) {
        return false;
    }
    let sizes = LinearSizes::of(x.dims(), weight.dims(), layer.order);
    sizes.is_ok_and(|sizes| {
        are_many(sizes.rows, sizes.outputs) && BlockedLinear::of(sizes, Terms::Singles).is_some()
    })
}

/// The cross entropy, as [`cross_entropy`], of the outputs of a linear layer for x (…, inputs), without all of them in memory at once
/// [where they are many](is_in_parts).
///
/// `each` is called with the logits (rows, classes) of some rows, one part after the other, and which of all rows they are; it must
/// not keep them.
///
/// # Errors
///
/// If targets or terms don't fit the outputs, and the first error of `each`.
pub fn linear_cross_entropy(
    x: &Tensor,
    layer: &LinearParameters,
    targets: &[Option<u32>],
    terms: CrossEntropyTerms,
    divisor: f64,
    each: &mut dyn FnMut(Range<usize>, &Tensor) -> Result<()>,
) -> Result<Tensor> {
    let LinearParameters {
        weight,
        order,
        bias,
    } = layer;
    if !is_in_parts(x, layer) {
        let logits = linear_with(x, (weight, *order), bias.as_ref(), None)?;
        let classes = logits.dims().last().copied().unwrap_or(0);
        let logits = crate::reshape(&logits, (targets.len(), classes))?;
        each(0..targets.len(), &logits.detach())?;
        return cross_entropy(&logits, targets, terms, divisor);
    }
    let LinearSizes { rows, outputs, .. } = LinearSizes::of(x.dims(), weight.dims(), *order)?;
    let rows = TargetRows::new([rows, outputs], targets, terms, divisor)?;
    in_parts(x, layer, rows, rows_at_once(outputs), each)
}

/// [`linear_cross_entropy`] of `size` rows at once, a multiple of 64.
fn in_parts(
    x: &Tensor,
    layer: &LinearParameters,
    rows: TargetRows,
    size: usize,
    each: &mut dyn FnMut(Range<usize>, &Tensor) -> Result<()>,
) -> Result<Tensor> {
    let (x, weight) = (ready(x)?, ready(&layer.weight)?);
    let bias = layer.bias.as_ref().map(ready).transpose()?;
    // What is not recorded is differentiated later, if at all.
    let is_wanted = |tensor: &Tensor| is_recording() && seen(tensor).track_op();
    let wanted = Wanted {
        x: is_wanted(&x),
        weight: is_wanted(&weight),
        bias: bias.as_ref().is_some_and(is_wanted),
    };
    let inputs = (&x, &weight, bias.as_ref());
    let (loss, gradients) = with_numbers(inputs, layer.order, |layer| {
        let each = &mut |rows, logits| lend(logits, |x| each(rows, x));
        layer.lose((&rows, size), wanted, each)
    })?;
    let kept = gradients.bytes_of_x();
    let op = LinearCrossEntropyOp {
        rows,
        size,
        order: layer.order,
        loss,
        kept: Mutex::new(is_recording().then_some(gradients)),
    };
    let loss = apply_layer(inputs, op)?;
    if loss.track_op() {
        keeps(kept);
    }
    Ok(loss)
}

/// Has `look` look at logits (rows, classes) as a tensor, which are given back.
fn lend((logits, dims): Logits, look: impl FnOnce(&Tensor) -> Result<()>) -> Result<Vec<f32>> {
    let tensor = new_tensor(logits, &dims.into())?;
    look(&tensor)?;
    match Output::of(tensor)?.on_cpu()? {
        (CpuStorage::F32(logits), _) => Ok(logits),
        _ => bail!("logits have changed their type"),
    }
}

struct LinearCrossEntropyOp {
    rows: TargetRows,
    /// Number of rows at once.
    size: usize,
    order: WeightOrder,
    loss: f32,
    /// Computed with the loss, for the backward pass, if there is to be one.
    kept: Mutex<Option<LayerGradients>>,
}

impl LinearCrossEntropyOp {
    /// Takes the gradients that were computed with the loss. A second backward pass has them computed again.
    fn gradients(&self, inputs: LayerInputs<'_>) -> Result<LayerGradients> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gradients) = kept.take() {
            return Ok(gradients);
        }
        let (x, weight, bias) = inputs;
        let wanted = Wanted {
            x: x.track_op(),
            weight: weight.track_op(),
            bias: bias.is_some_and(Tensor::track_op),
        };
        let (_, gradients) = with_numbers(inputs, self.order, |layer| {
            layer.lose((&self.rows, self.size), wanted, &mut |_, (logits, _)| {
                Ok(logits)
            })
        })?;
        Ok(gradients)
    }
}

impl LayerOp for LinearCrossEntropyOp {
    fn name(&self) -> &'static str {
        "linear-cross-entropy"
    }

    fn forward(
        &self,
        _x: Stored<'_>,
        _weight: Stored<'_>,
        _bias: Option<Stored<'_>>,
    ) -> Result<(CpuStorage, Shape)> {
        Ok((stored(vec![self.loss]), ().into()))
    }

    fn backward(
        &self,
        inputs: LayerInputs<'_>,
        _loss: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        let factor = gradient.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        let mut gradients = self.gradients(inputs)?;
        gradients.multiply(factor);
        let LayerGradients { x, weight, bias } = gradients;
        let (of_x, of_weight, of_bias) = inputs;
        Ok([
            as_gradient(Some(of_x), x)?,
            as_gradient(Some(of_weight), weight)?,
            as_gradient(of_bias, bias)?,
        ])
    }
}

/// The gradient of an input, if it is wanted.
fn as_gradient(input: Option<&Tensor>, numbers: Vec<f32>) -> Result<Option<Tensor>> {
    let input = input.filter(|input| input.track_op() && !numbers.is_empty());
    input
        .map(|input| new_tensor(numbers, input.shape()))
        .transpose()
}

#[cfg(test)]
mod tests;
