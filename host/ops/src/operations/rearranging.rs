//! Parts of tensors put together, taken out, and in another order.

use candle_core::{Result, Tensor, bail};

use crate::autograd::constants::seen;
use crate::autograd::custom_gradient::custom_gradient;
use crate::storage::ready;

/// `a`, then `b` along a dimension; all others are the same.
pub fn concatenated(a: &Tensor, b: &Tensor, axis: usize) -> Result<Tensor> {
    let (a, b) = (ready(a)?, ready(b)?);
    let first = a.dim(axis)?;
    let second = b.dim(axis)?;
    let (of_a, of_b) = (seen(&a).detach(), seen(&b).detach());
    let y = Tensor::cat(&[&of_a, &of_b.to_dtype(of_a.dtype())?], axis)?;
    custom_gradient([&a, &b], y, move |inputs, gradient, wanted| {
        let part = |index: usize, start: usize, length: usize| {
            let part = || {
                let part = gradient.narrow(axis, start, length)?.contiguous()?;
                part.to_dtype(inputs[index].dtype())
            };
            wanted[index].then(part).transpose()
        };
        Ok([part(0, 0, first)?, part(1, first, second)?])
    })
}

/// x (batch, length, width) with the vector `token` (1, 1, width) in front of each sequence: (batch, length + 1, width).
pub fn prepended(x: &Tensor, token: &Tensor) -> Result<Tensor> {
    let (batch, length, width) = x.dims3()?;
    if token.dims() != [1, 1, width] {
        bail!("{:?} can't be put in front of {:?}", token.dims(), x.dims())
    }
    let (x, token) = (ready(x)?, ready(token)?);
    let (of_x, of_token) = (seen(&x).detach(), seen(&token).detach());
    let each = of_token
        .to_dtype(of_x.dtype())?
        .broadcast_as((batch, 1, width))?;
    let y = Tensor::cat(&[&each.contiguous()?, &of_x], 1)?;
    custom_gradient([&x, &token], y, move |[x, token], gradient, wanted| {
        let of_x = || {
            let of_x = gradient.narrow(1, 1, length)?.contiguous()?;
            of_x.to_dtype(x.dtype())
        };
        let of_token = || {
            let of_token = gradient.narrow(1, 0, 1)?.sum_keepdim(0)?;
            of_token.to_dtype(token.dtype())
        };
        Ok([
            wanted[0].then(of_x).transpose()?,
            wanted[1].then(of_token).transpose()?,
        ])
    })
}

/// The vector at a position of each sequence: (batch, length, width) to (batch, width).
pub fn position_at(x: &Tensor, index: usize) -> Result<Tensor> {
    let (batch, length, width) = x.dims3()?;
    if index >= length {
        bail!("there is no position {index} in {:?}", x.dims())
    }
    let x = ready(x)?;
    let y = seen(&x).detach().narrow(1, index, 1)?.force_contiguous()?;
    custom_gradient([&x], y.reshape((batch, width))?, move |[x], gradient, _| {
        let gradient = gradient.to_dtype(x.dtype())?.unsqueeze(1)?;
        Ok([Some(gradient.pad_with_zeros(
            1,
            index,
            length - 1 - index,
        )?)])
    })
}

/// The dimensions after the batch's in another order: for each of the output the one of the input, from 0.
pub fn permuted(x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    let rank = x.rank();
    let mut back = vec![0; rank];
    let forth: Vec<usize> = std::iter::once(0)
        .chain(axes.iter().map(|axis| axis + 1))
        .collect();
    for (to, &from) in forth.iter().enumerate() {
        match back.get_mut(from) {
            Some(back) => *back = to,
            None => bail!("dimensions {axes:?} of {:?}", x.dims()),
        }
    }
    let x = ready(x)?;
    let y = seen(&x).detach().permute(forth)?.force_contiguous()?;
    custom_gradient([&x], y, move |[x], gradient, _| {
        let of_x = gradient.permute(back.clone())?.contiguous()?;
        Ok([Some(of_x.to_dtype(x.dtype())?)])
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
        let (x, y, token) = (var(1, &[2, 3, 4]), var(2, &[2, 2, 4]), var(3, &[1, 1, 4]));
        for report in [
            check_gradients(&[x.clone(), y], |inputs| {
                concatenated(&inputs[0], &inputs[1], 1)?.sqr()
            }),
            check_gradients(&[x.clone(), token], |inputs| {
                prepended(&inputs[0], &inputs[1])?.sqr()
            }),
            check_gradients(std::slice::from_ref(&x), |inputs| {
                position_at(&inputs[0], 1)?.sqr()
            }),
            check_gradients(std::slice::from_ref(&x), |inputs| {
                permuted(&inputs[0], &[1, 0])?.sqr()
            }),
        ] {
            assert!(report.is_right(), "{report}");
        }
    }

    #[test]
    fn elements_are_where_they_belong() -> Result<()> {
        let device = crate::device::for_tests();
        let x = Tensor::arange(0.0_f64, 6.0, &device)?.reshape((1, 3, 2))?;
        let token = Tensor::new(&[[[8.0, 9.0]]], &device)?;
        let rows = |x: &Tensor| x.squeeze(0)?.to_vec2::<f64>();
        let all = prepended(&x, &token)?;
        assert_eq!(
            rows(&all)?,
            [[8.0, 9.0], [0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
        );
        assert_eq!(rows(&concatenated(&token, &x, 1)?)?, rows(&all)?);
        assert_eq!(position_at(&x, 2)?.to_vec2::<f64>()?, [[4.0, 5.0]]);
        assert_eq!(
            rows(&permuted(&x, &[1, 0])?)?,
            [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
        );
        assert!(position_at(&x, 3).is_err());
        assert!(permuted(&x, &[1, 2]).is_err());
        assert!(prepended(&x, &x).is_err());
        Ok(())
    }
}
