//! The product of two tensors, as in gated linear units.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};

use super::products;
use crate::autograd::aside::hand_over;
use crate::autograd::tape::apply2;
use crate::composed;
use crate::kernels::map;
use crate::storage::{cpu, for_floats, new_tensor, numbers, ready, stored};

/// a · b of the same shape, element by element.
pub fn multiply(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dims() != b.dims() {
        bail!("{:?} and {:?} can't be multiplied", a.dims(), b.dims())
    }
    if composed::is_chosen(a) {
        return composed::multiply(a, b);
    }
    apply2(&ready(a)?, &ready(b)?, Multiply)
}

struct Multiply;

fn product(a: (&CpuStorage, &Layout), b: (&CpuStorage, &Layout)) -> Result<CpuStorage> {
    let (storage, layout) = a;
    for_floats!(storage, T => {
        let (a, b) = (numbers::<T>(storage, layout)?, numbers::<T>(b.0, b.1)?);
        Ok(stored(map(a, b, |a, b, to| products(a, b, to))))
    })
}

/// A gradient times the other factor, as a tensor.
fn times(gradient: &Tensor, other: &Tensor) -> Result<Tensor> {
    let ((g, g_layout), (other_guard, layout)) =
        (gradient.storage_and_layout(), other.storage_and_layout());
    let product = product((cpu(&g)?, g_layout), (cpu(&other_guard)?, layout))?;
    for_floats!(&product, T => new_tensor(numbers::<T>(&product, g_layout)?.to_vec(), gradient.shape()))
}

impl CustomOp2 for Multiply {
    fn name(&self) -> &'static str {
        "multiply"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let y = product((a, a_layout), (b, b_layout))?;
        Ok((y, a_layout.shape().clone()))
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        _y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let of = |own: &Tensor, other: &Tensor| {
            let of_own = own
                .track_op()
                .then(|| times(&gradient, other))
                .transpose()?;
            Ok::<_, candle_core::Error>(hand_over(own, of_own))
        };
        Ok((of(a, b)?, of(b, a)?))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::gradient_check::check_gradients;
    use crate::normal_numbers;

    #[test]
    fn values_and_gradients_are_right() {
        let var = |seed| {
            let x = normal_numbers(seed, (3, 5)).and_then(|x| x.to_dtype(DType::F64));
            x.and_then(|x| Var::from_tensor(&x)).expect("a variable")
        };
        let both = [var(1), var(2)];
        let rows = |x: Tensor| x.to_vec2::<f64>().expect("rows");
        let found = rows(multiply(&both[0], &both[1]).expect("a product"));
        assert_eq!(found, rows(both[0].mul(&both[1]).expect("a product")));
        let report = check_gradients(&both, |inputs| multiply(&inputs[0], &inputs[1])?.sqr());
        assert!(report.is_right(), "{report}");
        assert!(multiply(&both[0], &both[1].t().expect("another shape")).is_err());
    }
}
