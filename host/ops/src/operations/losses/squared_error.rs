//! Mean squared error as one operation.

use std::mem::MaybeUninit;

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, WithDType, bail};

use crate::autograd::tape::apply2;
use crate::kernels::fill::{Rows, Schedule, fill_parts};
use crate::kernels::math::{number, sum};
use crate::kernels::{map, region, write_all};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::{composed, vectorised};

/// Elements summed at a time: the same sums for any number of threads.
const CHUNK: usize = 4096;

/// Cost of an element in operations, from which the number of threads follows.
const EACH: usize = 4;

/// Mean of (x − y)² over all elements, of one shape and type: a scalar, 0 if there are none.
pub fn mean_squared_error(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.dims() != y.dims() || x.dtype() != y.dtype() {
        bail!(
            "a squared error wants two tensors of one shape and type, found {:?} of {} and {:?} of {}",
            x.dims(),
            x.dtype().as_str(),
            y.dims(),
            y.dtype().as_str()
        )
    }
    if composed::is_chosen(x) {
        return composed::mean_squared_error(x, y);
    }
    apply2(&ready(x)?, &ready(y)?, SquaredError)
}

struct SquaredError;

vectorised! {
    /// Σ (x − y)².
    fn squares<T: Number>(x: &[T], y: &[T]) -> T {
        sum([x, y], |[x, y]| (x - y) * (x - y))
    }
}

vectorised! {
    /// factor · (x − y).
    fn differences<'a, T: Number>(
        x: &[T],
        y: &[T],
        factor: T,
        to: &'a mut [MaybeUninit<T>],
    ) -> &'a mut [T] {
        write_all(to, x.iter().zip(y).map(|(&x, &y)| factor * (x - y)))
    }
}

fn total<T: Number>(x: &[T], y: &[T]) -> f64 {
    let chunks = x.len().div_ceil(CHUNK);
    let mut sums = vec![0.0_f64; chunks];
    let schedule = Schedule::per_thread(region::parts(x.len() * EACH), chunks, 1);
    fill_parts(schedule, Rows::new(&mut sums, 1), |range, sums| {
        for (chunk, sum) in range.clone().zip(sums) {
            let range = chunk * CHUNK..x.len().min((chunk + 1) * CHUNK);
            *sum = WithDType::to_f64(squares(&x[range.clone()], &y[range]));
        }
    });
    sums.iter().fold(0.0, |total, sum| total + sum)
}

impl CustomOp2 for SquaredError {
    fn name(&self) -> &'static str {
        "mean-squared-error"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        y: &CpuStorage,
        y_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for_floats!(x, T => {
            let (x, y) = (numbers::<T>(x, x_layout)?, numbers::<T>(y, y_layout)?);
            let mean = total(x, y) / x.len().max(1) as f64;
            Ok((stored(vec![number::<T>(mean)]), ().into()))
        })
    }

    fn bwd(
        &self,
        x: &Tensor,
        y: &Tensor,
        _mean: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let (x_guard, x_layout) = x.storage_and_layout();
        let (y_guard, y_layout) = y.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&x_guard)?;
        for_floats!(storage, T => {
            let numbers_of_x = numbers::<T>(storage, x_layout)?;
            let numbers_of_y = numbers::<T>(cpu(&y_guard)?, y_layout)?;
            let gradient = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let factor = WithDType::to_f64(gradient[0]) * 2.0 / numbers_of_x.len().max(1) as f64;
            let of = |x: &[T], y: &[T]| {
                new_tensor(map(x, y, |x, y, to| differences(x, y, number(factor), to)), x_layout.shape())
            };
            let of_x = if x.track_op() { Some(of(numbers_of_x, numbers_of_y)?) } else { None };
            let of_y = if y.track_op() { Some(of(numbers_of_y, numbers_of_x)?) } else { None };
            Ok((of_x, of_y))
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::gradient_check::check_gradients;
    use crate::normal_numbers;

    #[test]
    fn values_are_the_definitions() {
        let x = normal_numbers(1, (7, 1234)).expect("x");
        let y = normal_numbers(2, (7, 1234)).expect("y");
        let found = mean_squared_error(&x, &y).and_then(|mean| mean.to_scalar::<f32>());
        let pairs = |x: &Tensor| x.flatten_all().and_then(|x| x.to_vec1::<f32>());
        let (x, y) = (pairs(&x).expect("x"), pairs(&y).expect("y"));
        let squares = x
            .iter()
            .zip(&y)
            .map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2));
        let expected = squares.sum::<f64>() / x.len() as f64;
        let found = f64::from(found.expect("a mean"));
        assert!(
            (found - expected).abs() < 1e-6 * expected,
            "{found} {expected}"
        );
        let nothing =
            Tensor::zeros((0, 3), DType::F32, &crate::device::for_tests()).expect("nothing");
        let mean = mean_squared_error(&nothing, &nothing).and_then(|mean| mean.to_scalar::<f32>());
        assert_eq!(mean.expect("a mean").to_bits(), 0.0_f32.to_bits());
        let other =
            Tensor::zeros((3, 0), DType::F32, &crate::device::for_tests()).expect("nothing");
        assert!(mean_squared_error(&nothing, &other).is_err());
    }

    #[test]
    fn gradients_are_right() {
        let var = |seed| {
            let numbers = normal_numbers(seed, (3, 5)).and_then(|x| x.to_dtype(DType::F64));
            numbers
                .and_then(|x| Var::from_tensor(&x))
                .expect("a variable")
        };
        let report = check_gradients(&[var(3), var(4)], |inputs| {
            mean_squared_error(&inputs[0], &inputs[1])
        });
        assert!(report.is_right(), "{report}");
    }
}
