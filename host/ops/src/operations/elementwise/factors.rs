//! Factors for each column, or for each channel of images.

use candle_core::{D, Result, Tensor, bail};

use crate::autograd::constants::seen;
use crate::autograd::custom_gradient::custom_gradient;
use crate::storage::ready;

/// Elements of x (…, width) times factors (width).
pub fn columns_times(x: &Tensor, factors: &Tensor) -> Result<Tensor> {
    let width = factors.dims1()?;
    if x.dims().last() != Some(&width) {
        bail!("{width} factors for the columns of {:?}", x.dims())
    }
    times(x, factors, factors.dims(), move |product| {
        product.reshape(((), width))?.sum(0)
    })
}

/// Elements of images x (batch, channels, height, width) times factors (batch, channels).
pub fn channels_times(x: &Tensor, factors: &Tensor) -> Result<Tensor> {
    let (batch, channels, ..) = x.dims4()?;
    if factors.dims() != [batch, channels] {
        bail!(
            "factors {:?} for the channels of {:?}",
            factors.dims(),
            x.dims()
        )
    }
    times(x, factors, &[batch, channels, 1, 1], |product| {
        product.flatten_from(2)?.sum(D::Minus1)
    })
}

/// Elements of `x` times factors that are seen in `shape`; `sums` adds up their gradients, given those of each element.
fn times(
    x: &Tensor,
    factors: &Tensor,
    shape: &[usize],
    sums: impl Fn(Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    let (x, factors) = (ready(x)?, ready(factors)?);
    let shape = shape.to_vec();
    let stretched = {
        let shape = shape.clone();
        move |factors: &Tensor, like: &Tensor| factors.to_dtype(like.dtype())?.reshape(&shape[..])
    };
    let (of_x, of_factors) = (seen(&x).detach(), seen(&factors).detach());
    let y = of_x.broadcast_mul(&stretched(&of_factors, &of_x)?)?;
    custom_gradient([&x, &factors], y, move |[x, factors], gradient, wanted| {
        let of_x = || {
            let of_x = gradient.broadcast_mul(&stretched(factors, gradient)?)?;
            of_x.to_dtype(x.dtype())
        };
        let of_factors = || {
            let product = gradient.mul(&x.to_dtype(gradient.dtype())?)?;
            sums(product)?
                .reshape(factors.shape())?
                .to_dtype(factors.dtype())
        };
        Ok([
            wanted[0].then(of_x).transpose()?,
            wanted[1].then(of_factors).transpose()?,
        ])
    })
}

#[cfg(test)]
mod tests {
    use candle_core::{DType, Var};

    use super::*;
    use crate::gradient_check::check_gradients;
    use crate::normal_numbers;

    fn var(seed: u64, shape: &[usize]) -> Var {
        let x = normal_numbers(seed, shape).and_then(|x| x.to_dtype(DType::F64));
        x.and_then(|x| Var::from_tensor(&x)).expect("a variable")
    }

    #[test]
    fn gradients_are_right() {
        let columns = [var(1, &[2, 3, 4]), var(2, &[4])];
        let report = check_gradients(&columns, |inputs| {
            columns_times(&inputs[0], &inputs[1])?.sqr()
        });
        assert!(report.is_right(), "{report}");
        let channels = [var(3, &[2, 3, 2, 2]), var(4, &[2, 3])];
        let report = check_gradients(&channels, |inputs| {
            channels_times(&inputs[0], &inputs[1])?.sqr()
        });
        assert!(report.is_right(), "{report}");
        assert!(columns_times(&columns[0], &var(5, &[3])).is_err());
        assert!(channels_times(&channels[0], &var(6, &[3])).is_err());
    }
}
