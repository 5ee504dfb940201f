//! Softmax over the last dimension, causal on request; candle's fused one has no gradient.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, D, Layout, Result, Shape, Tensor, WithDType};

use super::{Number, for_floats, numbers, ready};

/// exp(xᵢ) / Σⱼ exp(xⱼ) over the last dimension, of any shape.
///
/// Causal: of (…, queries, keys), query `i` takes part in keys `0 ..= i + keys − queries` alone; the
/// others get exactly 0.
pub fn softmax(x: &Tensor, causal: bool) -> Result<Tensor> {
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    ready(x)?.apply_op1(Softmax { causal })
}

struct Softmax {
    causal: bool,
}

struct SoftmaxGradient {
    width: usize,
}

/// One row: the largest is taken off first, so that no exponential overflows.
fn row<T: Number>(x: &[T], y: &mut [T]) {
    let largest = x
        .iter()
        .fold(T::neg_infinity(), |m, &x| if x > m { x } else { m });
    let mut sum = T::zero();
    for (y, &x) in y.iter_mut().zip(x) {
        *y = (x - largest).exp();
        sum += *y;
    }
    for y in y {
        *y /= sum;
    }
}

impl CustomOp1 for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let width = layout.dim(D::Minus1)?;
        let rows = match layout.dims() {
            [.., rows, _] => *rows,
            _ => 1,
        };
        for_floats!(storage, T => {
            let x = numbers::<T>(storage, layout)?;
            let mut y = vec![T::ZERO; x.len()];
            for (index, (x, y)) in x.chunks(width).zip(y.chunks_mut(width)).enumerate() {
                let seen = if self.causal {
                    (index % rows + 1 + width).saturating_sub(rows).min(width)
                } else {
                    width
                };
                row(&x[..seen], &mut y[..seen]);
            }
            Ok((T::to_cpu_storage_owned(y), layout.shape().clone()))
        })
    }

    fn bwd(&self, _x: &Tensor, y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let width = y.dim(D::Minus1)?;
        let gradient = ready(gradient)?;
        Ok(Some(
            y.apply_op2_no_bwd(&gradient, &SoftmaxGradient { width })?,
        ))
    }
}

impl CustomOp2 for SoftmaxGradient {
    fn name(&self) -> &'static str {
        "softmax-gradient"
    }

    /// y · (g − Σ g · y): the masked ones have y = 0, and so get none.
    fn cpu_fwd(
        &self,
        y: &CpuStorage,
        y_layout: &Layout,
        gradient: &CpuStorage,
        gradient_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for_floats!(y, T => {
            let y = numbers::<T>(y, y_layout)?;
            let gradient = numbers::<T>(gradient, gradient_layout)?;
            let mut slopes = Vec::with_capacity(y.len());
            for (y, g) in y.chunks(self.width).zip(gradient.chunks(self.width)) {
                let mean = y.iter().zip(g).fold(T::ZERO, |sum, (&y, &g)| sum + y * g);
                slopes.extend(y.iter().zip(g).map(|(&y, &g)| y * (g - mean)));
            }
            Ok((T::to_cpu_storage_owned(slopes), y_layout.shape().clone()))
        })
    }
}
