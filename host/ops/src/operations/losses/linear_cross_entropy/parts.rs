//! The work of a linear layer and a cross entropy, part by part.

use std::ops::Range;

use candle_core::{Result, Tensor, bail};

use crate::autograd::layer::LayerInputs;
use crate::kernels::fill::{Rows, Schedule, fill_parts};
use crate::kernels::{Terms, region};
use crate::operations::linear::{BlockedLinear, LinearSizes};
use crate::operations::losses::target_rows::{RowTerms, TargetRows};
use crate::options::WeightOrder;
use crate::storage::{cpu, numbers};

/// Number of logits from which on they are computed in parts, 64 MiB of them: of fewer, parts save little memory and no time.
const MANY: usize = 16 << 20;

/// Number of logits that are computed at once, 32 MiB of them.
const AT_ONCE: usize = 8 << 20;

/// Rows at once are a multiple of this, so that those after them continue the sums of the bias's gradient.
pub(super) const STEP: usize = 64;

/// Smallest number of rows that have the bits of many: a rest of fewer rows is computed with those before it.
const FEWEST: usize = 16;

/// Whether this many logits are computed in parts.
pub(super) fn are_many(rows: usize, classes: usize) -> bool {
    rows >= rows_at_once(classes) + FEWEST && rows.saturating_mul(classes) >= MANY
}

/// Rows whose logits are computed at once.
pub(super) fn rows_at_once(classes: usize) -> usize {
    (AT_ONCE / classes.max(1) / STEP * STEP).max(STEP)
}

/// All rows, in parts of `size`, but for the last one.
fn parts(rows: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = start;
        start = if first + size + FEWEST > rows {
            rows
        } else {
            first + size
        };
        (first < rows).then_some(first..start)
    })
}

/// The logits (rows, classes) of a part.
pub(super) type Logits = (Vec<f32>, (usize, usize));

/// Of which inputs gradients are wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) x: bool,
    pub(super) weight: bool,
    pub(super) bias: bool,
}

impl Wanted {
    fn is_any(self) -> bool {
        self.x || self.weight || self.bias
    }
}

/// Gradients of the layer for a loss whose own is 1; empty where they aren't wanted.
#[derive(Default)]
pub(super) struct LayerGradients {
    pub(super) x: Vec<f32>,
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl LayerGradients {
    pub(super) fn bytes_of_x(&self) -> usize {
        size_of_val(self.x.as_slice())
    }

    /// Multiplies by the gradient of the loss.
    pub(super) fn multiply(&mut self, factor: f64) {
        if factor.to_bits() == 1_f64.to_bits() {
            return;
        }
        for numbers in [&mut self.x, &mut self.weight, &mut self.bias] {
            let threads = region::parts(numbers.len());
            let schedule = Schedule::per_thread(threads, numbers.len(), 1);
            fill_parts(schedule, Rows::new(numbers, 1), |_, numbers| {
                for number in numbers {
                    *number *= factor as f32;
                }
            });
        }
    }
}

/// The numbers of a layer and of its inputs.
pub(super) struct LayerNumbers<'a> {
    sizes: LinearSizes,
    x: &'a [f32],
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
}

/// Has `compute` compute with the numbers of these tensors.
pub(super) fn with_numbers<R>(
    (x, weight, bias): LayerInputs<'_>,
    order: WeightOrder,
    compute: impl FnOnce(LayerNumbers<'_>) -> Result<R>,
) -> Result<R> {
    let (x_guard, x_layout) = x.storage_and_layout();
    let (weight_guard, weight_layout) = weight.storage_and_layout();
    let bias = bias.map(Tensor::storage_and_layout);
    let bias = match &bias {
        Some((guard, layout)) => Some(numbers::<f32>(cpu(guard)?, layout)?),
        None => None,
    };
    let sizes = LinearSizes::of(x_layout.dims(), weight_layout.dims(), order)?;
    if bias.is_some_and(|bias| bias.len() != sizes.outputs) {
        bail!(
            "a linear layer of {} outputs has a bias of another length",
            sizes.outputs
        )
    }
    compute(LayerNumbers {
        sizes,
        x: numbers(cpu(&x_guard)?, x_layout)?,
        weight: numbers(cpu(&weight_guard)?, weight_layout)?,
        bias,
    })
}

/// Looks at the logits of some rows, and gives them back.
pub(super) type Each<'a> = &'a mut dyn FnMut(Range<usize>, Logits) -> Result<Vec<f32>>;

impl LayerNumbers<'_> {
    /// Computes the loss, `size` rows at a time, and the gradients that are wanted. Each part's logits go through `each`, which gives
    /// them back.
    pub(super) fn lose(
        &self,
        (targets, size): (&TargetRows, usize),
        wanted: Wanted,
        each: Each<'_>,
    ) -> Result<(f32, LayerGradients)> {
        let LinearSizes { rows, outputs, .. } = self.sizes;
        let Some(layer) = BlockedLinear::of(self.sizes, Terms::Singles) else {
            bail!("a linear layer is not computed by packed blocks")
        };
        let terms = RowTerms::<f32>::of(targets);
        let scale = wanted.is_any().then(|| 1.0 / targets.divisor());
        let mut losses = vec![0.0; rows];
        let mut gradients = LayerGradients::default();
        for own in parts(rows, size) {
            let part = layer.of_rows(own.len());
            let (logits, _) = part.forward(self.inputs(&own), self.weight, self.bias, None);
            let mut logits = each(own.clone(), (logits, (own.len(), outputs)))?;
            terms.replace_logits(own.start, &mut logits, &mut losses[own.clone()], scale);
            if wanted.is_any() {
                self.add_gradients(&part, &own, (&logits, wanted), &mut gradients);
            }
        }
        Ok((targets.mean(&losses) as f32, gradients))
    }

    /// The inputs of some rows.
    fn inputs(&self, rows: &Range<usize>) -> &[f32] {
        let inputs = self.sizes.inputs;
        &self.x[rows.start * inputs..rows.end * inputs]
    }

    /// Adds what a part's rows, whose logits have these gradients, add to those of the layer.
    fn add_gradients(
        &self,
        part: &BlockedLinear,
        rows: &Range<usize>,
        (of_logits, wanted): (&[f32], Wanted),
        sum: &mut LayerGradients,
    ) {
        let layer = (self.inputs(rows), self.weight);
        let of_x = if rows.start == 0 {
            let products = [wanted.weight, wanted.x];
            let (of_bias, [of_weight, of_x]) =
                part.backward(layer, (of_logits, None), products, wanted.bias);
            sum.bias = of_bias;
            sum.weight = of_weight.unwrap_or_default();
            sum.x.reserve_exact(if wanted.x { self.x.len() } else { 0 });
            of_x
        } else {
            let of_weight = wanted.weight.then_some(sum.weight.as_mut_slice());
            part.add_backward(layer, of_logits, (&mut sum.bias, of_weight), wanted.x)
        };
        sum.x.extend_from_slice(&of_x.unwrap_or_default());
    }
}
