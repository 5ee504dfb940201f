//! Softmax over the last dimension, causal on request; candle's fused one has no gradient.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, D, Layout, Result, Shape, Tensor, WithDType};

use crate::autograd::tape::apply1;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts};
use crate::kernels::math::{largest, sum};
use crate::kernels::region;
use crate::kernels::{write_rows, zeros};
use crate::storage::{Number, for_floats, numbers, ready};
use crate::{composed, vectorised};

/// exp(xᵢ) / Σⱼ exp(xⱼ) over the last dimension, of any shape.
///
/// With `causal`, of (…, queries, keys), query `i` attends only to keys `0 ..= i + keys − queries`; the others get
/// exactly 0.
pub fn softmax(x: &Tensor, causal: bool) -> Result<Tensor> {
    if x.elem_count() == 0 {
        return Ok(x.clone());
    }
    if composed::is_chosen(x) {
        return composed::softmax(x, causal);
    }
    apply1(&ready(x)?, Softmax { causal })
}

struct Softmax {
    causal: bool,
}

struct SoftmaxGradient {
    width: usize,
}

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 16;

vectorised! {
    /// Softmax of one row; the largest element is subtracted first, so that no exponential overflows.
    fn softmax_row<T: Number>(x: &[T], y: &mut [T]) {
        let most = largest(x);
        for (y, &x) in y.iter_mut().zip(x) {
            *y = (x - most).fast_exp::<FUSED>();
        }
        let size = T::one() / sum([&*y], |[y]| y);
        for y in y {
            *y *= size;
        }
    }
}

vectorised! {
    /// Gradient of a row, y · (g − Σ g · y): masked elements have y = 0, so theirs is 0.
    fn row_gradient<T: Number>(y: &[T], g: &[T], gradients: &mut [T]) {
        let mean = sum([y, g], |[y, g]| y * g);
        for ((gradient, &y), &g) in gradients.iter_mut().zip(y).zip(g) {
            *gradient = y * (g - mean);
        }
    }
}

/// Calls `work(index, row of zeros)` for every row of this width, in parallel, and returns all rows.
fn each_row<T: Number>(
    count: usize,
    width: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) -> Vec<T> {
    let rows = count / width;
    let schedule = Schedule::per_thread(region::parts(count * EACH), rows, 1);
    fill_parts(schedule, UninitRows::new(rows, width), |rows, slots| {
        write_rows(slots, rows, |index, slots| {
            let row = zeros(slots);
            work(index, row);
            row
        })
    })
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
            let y = each_row(x.len(), width, |index, y| {
                let seen = if self.causal {
                    (index % rows + 1 + width).saturating_sub(rows).min(width)
                } else {
                    width
                };
                let x = &x[index * width..][..seen];
                softmax_row(x, &mut y[..seen]);
            });
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
            let gradients = each_row(y.len(), self.width, |index, gradients| {
                let range = index * self.width..(index + 1) * self.width;
                row_gradient(&y[range.clone()], &gradient[range], gradients);
            });
            Ok((T::to_cpu_storage_owned(gradients), y_layout.shape().clone()))
        })
    }
}
