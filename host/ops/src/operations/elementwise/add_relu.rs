//! The sum of two tensors with `ReLU`, as at the end of a residual block.

use std::mem::MaybeUninit;

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor, bail};

use super::relu_gradients;
use crate::autograd::tape::apply2;
use crate::kernels::{map, write_all};
use crate::storage::{Number, cpu, for_floats, new_tensor, numbers, ready, stored};
use crate::{composed, vectorised};

/// max(a + b, 0) for tensors of the same shape, with the bits of [`relu`](crate::relu) after [`add`](crate::add).
///
/// Both have the same gradient, which is computed once.
pub fn add_relu(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.dims() != b.dims() {
        bail!("{:?} and {:?} can't be added", a.dims(), b.dims())
    }
    if composed::is_chosen(a) {
        return composed::add_relu(a, b);
    }
    apply2(&ready(a)?, &ready(b)?, AddRelu)
}

struct AddRelu;

vectorised! {
    fn add_relu_of<'a, T: Number>(a: &[T], b: &[T], y: &'a mut [MaybeUninit<T>]) -> &'a mut [T] {
        let sums = a.iter().zip(b).map(|(&a, &b)| a + b);
        write_all(y, sums.map(|sum| if sum < T::ZERO { T::ZERO } else { sum }))
    }
}

impl CustomOp2 for AddRelu {
    fn name(&self) -> &'static str {
        "add-relu"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        for_floats!(a, T => {
            let (a, b) = (numbers::<T>(a, a_layout)?, numbers::<T>(b, b_layout)?);
            let y = map(a, b, add_relu_of);
            Ok((stored(y), a_layout.shape().clone()))
        })
    }

    /// The outputs' gradient where they are above zero, which is where the sums are.
    fn bwd(
        &self,
        _a: &Tensor,
        _b: &Tensor,
        y: &Tensor,
        gradient: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let gradient = ready(gradient)?;
        let (y_guard, y_layout) = y.storage_and_layout();
        let (gradient_guard, gradient_layout) = gradient.storage_and_layout();
        let storage = cpu(&y_guard)?;
        for_floats!(storage, T => {
            let numbers_of_y = numbers::<T>(storage, y_layout)?;
            let g = numbers::<T>(cpu(&gradient_guard)?, gradient_layout)?;
            let of_sum = new_tensor(map(numbers_of_y, g, relu_gradients), y.shape())?;
            Ok((Some(of_sum.clone()), Some(of_sum)))
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Var;

    use super::*;
    use crate::{add, normal_numbers, relu};

    #[test]
    fn outputs_and_gradients_have_the_bits_of_two_operations() -> Result<()> {
        let random = |seed| Var::from_tensor(&normal_numbers(seed, (3, 7, 50))?);
        let (a, b) = (random(0)?, random(1)?);
        let bits = |y: Tensor| -> Result<Vec<Vec<u32>>> {
            let gradients = (&y * &y)?.sum_all()?.backward()?;
            let of = |var: &Var| gradients.get(var).cloned().expect("a gradient");
            let exactly = |tensor: Tensor| -> Result<Vec<u32>> {
                let numbers = tensor.flatten_all()?.to_vec1::<f32>()?;
                Ok(numbers.into_iter().map(f32::to_bits).collect())
            };
            [y, of(&a), of(&b)].into_iter().map(exactly).collect()
        };
        assert_eq!(bits(add_relu(&a, &b)?)?, bits(relu(&add(&a, &b)?)?)?);
        assert!(add_relu(&a, &normal_numbers(2, (3, 7))?).is_err());
        Ok(())
    }
}
