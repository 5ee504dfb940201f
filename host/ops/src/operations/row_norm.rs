//! Layer and RMS normalisation, in one pass each; candle's versions cut the gradient for contiguous inputs.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use candle_core::{CpuStorage, D, Layout, Result, Shape, Tensor, bail};

use crate::autograd::aside::take_before;
use crate::autograd::layer::{LayerInputs, LayerOp, Stored, apply_layer};
use crate::choice::rounded_outputs::KeptOutputs;
use crate::kernels::fill::{Rows, Schedule, UninitRows, fill_parts};
use crate::kernels::math::{number, sum};
use crate::kernels::{Cursor, region};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::{composed, vectorised};

/// (x − mean) / √(variance + ε) · weight + bias over the last dimension (Ba et al., 2016). Weight
/// and bias have that dimension's length.
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, epsilon: f64) -> Result<Tensor> {
    if composed::is_chosen(x) {
        return composed::layer_norm(x, weight, bias, epsilon);
    }
    let op = RowNorm::new(epsilon, true);
    apply_layer((&ready(x)?, &ready(weight)?, Some(&ready(bias)?)), op)
}

/// x / √(mean of x² + ε) · weight over the last dimension (Zhang and Sennrich, 2019).
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    if composed::is_chosen(x) {
        return composed::rms_norm(x, weight, epsilon);
    }
    let op = RowNorm::new(epsilon, false);
    apply_layer((&ready(x)?, &ready(weight)?, None), op)
}

struct RowNorm {
    epsilon: f64,
    centred: bool,
    outputs: KeptOutputs,
    /// Mean and scale of each row, from the forward pass.
    rows: OnceLock<CpuStorage>,
}

/// A row's mean, or 0 where rows aren't centred, and 1 / √(variance + ε).
#[inline(always)]
fn of_row<T: Number>(x: &[T], epsilon: T, centred: bool) -> (T, T) {
    let count = number::<T>(x.len() as f64);
    let mean = if centred {
        sum([x], |[x]| x) / count
    } else {
        T::ZERO
    };
    let squares = sum([x], |[x]| {
        let distance = x - mean;
        distance * distance
    });
    (mean, (squares / count + epsilon).sqrt().recip())
}

vectorised! {
    /// Norms rows into `y` and keeps mean and scale of each; returns both, written.
    fn norm_rows<'a, T: Number>(
        x: &[T],
        weight: &[T],
        bias: &[T],
        epsilon: T,
        centred: bool,
        y: &'a mut [MaybeUninit<T>],
        kept: &'a mut [MaybeUninit<T>],
    ) -> (&'a mut [T], &'a mut [T]) {
        let width = weight.len();
        let (mut y, mut kept) = (Cursor::new(y), Cursor::new(kept));
        for x in x.chunks_exact(width) {
            let (mean, scale) = of_row(x, epsilon, centred);
            kept.write(2, [mean, scale]);
            let weighted = x.iter().zip(weight).map(|(&x, &w)| (x - mean) * scale * w);
            if bias.len() == width {
                y.write(width, weighted.zip(bias).map(|(x, &b)| x + b));
            } else {
                y.write(width, weighted);
            }
        }
        (y.finish(), kept.finish())
    }
}

vectorised! {
    /// Gradient of the input: s · (h − mean of h − n · mean of h · n), with n = (x − mean) · s and h = g · w.
    ///
    /// Without centring the mean of h is left out. The sums of g · n and of g are added to the gradients of weight and
    /// bias, and `before`, where it is given, to that of the input.
    fn row_gradient<'a, T: Number>(
        x: &[T],
        kept: &[T],
        weight: &[T],
        g: &[T],
        before: &[T],
        centred: bool,
        gradients: &'a mut [MaybeUninit<T>],
        weight_sums: &mut [T],
        bias_sums: &mut [T],
    ) -> &'a mut [T] {
        let width = weight.len();
        let mut gradients = Cursor::new(gradients);
        let count = number::<T>(width as f64);
        let rows = x.chunks_exact(width).zip(kept.chunks_exact(2)).zip(g.chunks_exact(width));
        for (index, ((x, kept), g)) in rows.enumerate() {
            let &[mean, scale] = kept else {
                continue;
            };
            let of_mean = if centred {
                sum([g, weight], |[g, weight]| g * weight) / count
            } else {
                T::ZERO
            };
            let of_scale = sum([x, g, weight], |[x, g, weight]| {
                g * weight * ((x - mean) * scale)
            }) / count;
            let sums = weight_sums.iter_mut().zip(bias_sums.iter_mut());
            let own = sums.zip(x.iter().zip(g).zip(weight)).map(|(sums, ((&x, &g), &w))| {
                let n = (x - mean) * scale;
                *sums.0 += g * n;
                *sums.1 += g;
                scale * (g * w - of_mean - n * of_scale)
            });
            match before.get(index * width..(index + 1) * width) {
                Some(before) => {
                    gradients.write(width, own.zip(before).map(|(own, &before)| before + own));
                }
                None => gradients.write(width, own),
            }
        }
        gradients.finish()
    }
}

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 16;

impl RowNorm {
    fn new(epsilon: f64, centred: bool) -> RowNorm {
        RowNorm {
            epsilon,
            centred,
            outputs: KeptOutputs::asked(),
            rows: OnceLock::new(),
        }
    }
}

impl LayerOp for RowNorm {
    fn name(&self) -> &'static str {
        if self.centred {
            "layer-norm"
        } else {
            "rms-norm"
        }
    }

    fn forward(
        &self,
        (x, x_layout): Stored<'_>,
        (weight, weight_layout): Stored<'_>,
        bias: Option<Stored<'_>>,
    ) -> Result<(CpuStorage, Shape)> {
        let width = row_width(x_layout, weight_layout)?;
        for_floats!(x, T => {
            let x = numbers::<T>(x, x_layout)?;
            let weight = numbers::<T>(weight, weight_layout)?;
            let bias = bias.map(|(bias, layout)| numbers::<T>(bias, layout)).transpose()?;
            if bias.is_some_and(|bias| bias.len() != width) {
                bail!("a norm over {width} numbers has a bias of another length")
            }
            let bias = bias.unwrap_or_default();
            let rows = x.len() / width;
            let schedule = Schedule::stealing(region::parts(x.len() * EACH), rows, 1);
            let memory = (UninitRows::new(rows, width), UninitRows::new(rows, 2));
            let (y, kept) = fill_parts(schedule, memory, |rows, (y, kept)| {
                let x = &x[rows.start * width..rows.end * width];
                norm_rows(x, weight, bias, number(self.epsilon), self.centred, y, kept)
            });
            // The forward pass runs once per operation, so nothing was set before.
            drop(self.rows.set(stored(kept)));
            Ok((self.outputs.of(stored(y)), x_layout.shape().clone()))
        })
    }

    fn backward(
        &self,
        (x, weight, _): LayerInputs<'_>,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; 3]> {
        let gradient = ready(gradient)?;
        let before = take_before(x).map(|before| ready(&before)).transpose()?;
        let before = before.as_ref().map(Tensor::storage_and_layout);
        let Some(rows) = self.rows.get() else {
            bail!("the backward pass of a norm before its forward pass")
        };
        let (x_guard, x_layout) = x.storage_and_layout();
        let (weight_guard, weight_layout) = weight.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&x_guard)?;
        let width = row_width(x_layout, weight_layout)?;
        for_floats!(storage, T => {
            let numbers_of_x = numbers::<T>(storage, x_layout)?;
            let w = numbers::<T>(cpu(&weight_guard)?, weight_layout)?;
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let before = match &before {
                Some((guard, layout)) => numbers::<T>(cpu(guard)?, layout)?,
                None => &[],
            };
            if !before.is_empty() && before.len() != numbers_of_x.len() {
                bail!("a gradient has another size than what it is the gradient of")
            }
            let kept = <T as candle_core::WithDType>::cpu_storage_as_slice(rows)?;
            let count = numbers_of_x.len();
            let schedule = Schedule::in_chunks(region::parts(count * EACH), count / width, 1);
            // Each chunk's own sums: of the weight's gradient and of the bias's.
            let mut sums = vec![T::ZERO; schedule.chunks() * 2 * width];
            let memory = (
                UninitRows::new(count / width, width),
                Rows::per_chunk(&mut sums, 2 * width),
            );
            let (gradients, ()) = fill_parts(schedule, memory, |rows, (gradients, sums)| {
                let (of_weight, of_bias) = sums.split_at_mut(width);
                let kept = &kept[rows.start * 2..rows.end * 2];
                let range = rows.start * width..rows.end * width;
                let before = before.get(range.clone()).unwrap_or_default();
                let (x, g) = (&numbers_of_x[range.clone()], &g[range]);
                let gradients =
                    row_gradient(x, kept, w, g, before, self.centred, gradients, of_weight, of_bias);
                (gradients, ())
            });
            let (first, others) = sums.split_at_mut(2 * width);
            for other in others.chunks_exact(2 * width) {
                for (sum, &x) in first.iter_mut().zip(other) {
                    *sum += x;
                }
            }
            let (of_weight, of_bias) = first.split_at(width);
            Ok([
                Some(new_tensor(gradients, x.shape())?),
                Some(new_tensor(of_weight.to_vec(), &width.into())?),
                Some(new_tensor(of_bias.to_vec(), &width.into())?),
            ])
        })
    }
}

fn row_width(x: &Layout, weight: &Layout) -> Result<usize> {
    let width = x.dim(D::Minus1)?;
    if weight.dims() != [width] || width == 0 {
        bail!(
            "a norm of weight {:?} was given {:?}",
            weight.dims(),
            x.dims()
        )
    }
    Ok(width)
}
