//! Elements multiplied by constant factors, as in dropout.

use std::mem::MaybeUninit;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor, bail};

use crate::autograd::tape::apply1;
use crate::kernels::fill::{Schedule, UninitRows, fill_parts};
use crate::kernels::{map, region, write_all};
use crate::random::Stream;
use crate::storage::{Number, cpu, for_floats, numbers, ready, stored};
use crate::{composed, vectorised};

/// Elements of `x` times constant factors of the same shape and type, which get no gradient.
pub fn masked(x: &Tensor, factors: &Tensor) -> Result<Tensor> {
    if x.dims() != factors.dims() || x.dtype() != factors.dtype() {
        bail!(
            "factors {:?} of {} for elements {:?} of {}",
            factors.dims(),
            factors.dtype().as_str(),
            x.dims(),
            x.dtype().as_str()
        )
    }
    if composed::is_chosen(x) {
        return composed::masked(x, factors);
    }
    let factors = ready(&factors.detach())?;
    apply1(&ready(x)?, Masked { factors })
}

/// Factors for [`masked`] that drop a fraction `share` of the elements of `like`, from 0 to below 1, and scale the others by
/// 1 / (1 − share): of its shape, type and device. Element i is dropped where the i-th number of a new stream is below `share`,
/// on every device.
pub fn dropout_factors(stream: &Stream, like: &Tensor, share: f64) -> Result<Tensor> {
    let scale = (1.0 / (1.0 - share)) as f32;
    #[cfg(feature = "cuda")]
    if let Some(factors) = crate::cuda::random::dropout_factors(like, stream.key(), share, scale)? {
        return factors.to_dtype(like.dtype());
    }
    let count = like.elem_count();
    let schedule = Schedule::of_size(region::parts(count * DRAWN), count, AT_ONCE);
    let factors = fill_parts(schedule, UninitRows::new(count, 1), |own, factors| {
        let mut stream = stream.after(own.start as u64);
        let draws = std::iter::repeat_with(|| {
            let is_kept = stream.unit() >= share;
            if is_kept { scale } else { 0.0 }
        });
        write_all(factors, draws)
    });
    Tensor::from_vec(factors, like.shape(), like.device())?.to_dtype(like.dtype())
}

/// Cost of a random number in operations, from which the number of threads follows.
const DRAWN: usize = 32;

/// Random numbers that are drawn one after the other.
const AT_ONCE: usize = 8 << 10;

struct Masked {
    factors: Tensor,
}

vectorised! {
    fn products<'a, T: Number>(x: &[T], y: &[T], to: &'a mut [MaybeUninit<T>]) -> &'a mut [T] {
        write_all(to, x.iter().zip(y).map(|(&x, &y)| x * y))
    }
}

impl Masked {
    fn apply(&self, x: &CpuStorage, layout: &Layout) -> Result<CpuStorage> {
        let (guard, factors_layout) = self.factors.storage_and_layout();
        for_floats!(x, T => {
            let factors = numbers::<T>(cpu(&guard)?, factors_layout)?;
            let x = numbers::<T>(x, layout)?;
            Ok(stored(map(x, factors, |x, factors, to| products(x, factors, to))))
        })
    }
}

impl CustomOp1 for Masked {
    fn name(&self) -> &'static str {
        "masked"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((self.apply(storage, layout)?, layout.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, _y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let factors = self.factors.clone();
        Ok(Some(
            ready(gradient)?.apply_op1_no_bwd(&Masked { factors })?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::gradient_check::check_gradients;
    use crate::normal_numbers;

    #[test]
    fn factors_are_drawn_in_order_by_any_number_of_threads() {
        let like = Tensor::zeros((5, 7001), DType::F32, &crate::device::for_tests());
        let stream = crate::random::stream(7, "dropout/a", 1, 2);
        let factors = dropout_factors(&stream, &like.expect("zeros"), 0.25);
        let mut one_by_one = stream;
        let factors = factors.and_then(|factors| factors.flatten_all()?.to_vec1::<f32>());
        for factor in factors.expect("factors") {
            let is_kept = one_by_one.unit() >= 0.25;
            let expected: f32 = if is_kept { 1.0 / 0.75 } else { 0.0 };
            assert_eq!(factor.to_bits(), expected.to_bits());
        }
    }

    #[test]
    fn values_and_gradients_are_right() {
        let x = normal_numbers(1, (3, 5))
            .and_then(|x| x.to_dtype(DType::F64))
            .expect("x");
        let factors = normal_numbers(2, (3, 5))
            .and_then(|x| x.to_dtype(DType::F64))
            .expect("y");
        let rows = |x: Tensor| x.to_vec2::<f64>().expect("rows");
        let found = rows(masked(&x, &factors).expect("products"));
        assert_eq!(found, rows(x.mul(&factors).expect("products")));
        let x = Var::from_tensor(&x).expect("a variable");
        let report = check_gradients(std::slice::from_ref(&x), |inputs| {
            masked(&inputs[0], &factors)?.sqr()
        });
        assert!(report.is_right(), "{report}");
        let other = Tensor::zeros((5, 3), DType::F64, &crate::device::for_tests()).expect("zeros");
        assert!(masked(&x, &other).is_err());
    }
}
