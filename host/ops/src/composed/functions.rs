//! Element by element, and the linear layer.

use candle_core::{Result, Tensor};

use super::cast::{operand, promoted, widened};
use super::of;
use crate::autograd::custom_gradient::{
    custom_gradient_of_output2, custom_gradient1, custom_gradient2,
};
use crate::autograd::tape::reshape;
use crate::choice::has_kernels;
use crate::options::Function;

/// x · Wᵀ + b over the last dimension, and a function of it.
pub(crate) fn linear(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    function: Option<Function>,
) -> Result<Tensor> {
    let (outputs, inputs) = weight.dims2()?;
    let mut shape = x.dims().to_vec();
    let rows = x.elem_count() / inputs.max(1);
    if let Some(last) = shape.last_mut() {
        *last = outputs;
    }
    let x = reshape(x, (rows, inputs))?;
    let y = product(&*operand(&x)?, &*operand(weight)?)?;
    #[cfg(feature = "cuda")]
    if let Some(bias) = bias
        && let Some(y) = crate::cuda::activation::add_bias(&y, bias, function)?
    {
        return reshape(&y, shape);
    }
    let y = match bias {
        Some(bias) => of([&y, bias], |[y, bias]| {
            y.broadcast_add(&bias.to_dtype(y.dtype())?)
        })?,
        None => y,
    };
    let y = reshape(&y, shape)?;
    function.map_or(Ok(y.clone()), |function| apply(&y, function))
}

/// x · Wᵀ of matrices.
fn product(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let y = x.detach().matmul(&weight.detach().t()?)?;
    custom_gradient2([x, weight], y, |[x, weight], gradient, wanted| {
        let gradient = gradient.contiguous()?;
        let [of_x, of_weight] = wanted;
        Ok([
            of_x.then(|| gradient.matmul(weight)).transpose()?,
            of_weight.then(|| gradient.t()?.matmul(x)).transpose()?,
        ])
    })
}

/// An activation function of every element.
pub(crate) fn apply(x: &Tensor, function: Function) -> Result<Tensor> {
    own_kernel!(crate::cuda::activation::apply(x, function));
    of([x], |[x]| match function {
        Function::Relu => relu(x),
        Function::Gelu => {
            // x · Φ(x), with Φ(x) = (1 + erf(x / √2)) / 2.
            let wide = &*widened(x)?;
            let normal = ((wide * std::f64::consts::FRAC_1_SQRT_2)?.erf()? + 1.0)?;
            ((wide * normal)? * 0.5)?.to_dtype(x.dtype())
        }
        Function::Silu => widened(x)?.silu()?.to_dtype(x.dtype()),
    })
}

/// max(x, 0) with derivative 0 at 0, where candle's is 1.
pub(super) fn relu(x: &Tensor) -> Result<Tensor> {
    let zeros = x.zeros_like()?;
    // What is not at most 0 is kept, so NaN is.
    x.le(&zeros)?.where_cond(&zeros, x)
}

/// The gradient of a maximum with 0 from that of its output `y`.
fn relu_gradient(y: &Tensor, gradient: &Tensor) -> Result<Tensor> {
    own_kernel!(crate::cuda::activation::of_input(
        y,
        Function::Relu,
        gradient
    ));
    let gradient = gradient.to_dtype(y.dtype())?;
    let zeros = y.zeros_like()?;
    y.le(&zeros)?.where_cond(&zeros, &gradient)
}

/// a + b, in the wider of their types. The gradient is handed on as it is, without a pass over it.
pub(crate) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if !has_kernels(a) {
        return of([a, b], sum);
    }
    custom_gradient2([a, b], sum([&a.detach(), &b.detach()])?, handed_on)
}

/// max(a + b, 0), in the wider of their types.
pub(crate) fn add_relu(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if !has_kernels(a) {
        return of([a, b], |terms| relu(&sum(terms)?));
    }
    let y = apply(&sum([&a.detach(), &b.detach()])?, Function::Relu)?;
    custom_gradient_of_output2(
        [a, b],
        y,
        Box::new(|terms, y, gradient, wanted| {
            handed_on(terms, &relu_gradient(y, gradient)?, wanted)
        }),
    )
}

fn sum([a, b]: [&Tensor; 2]) -> Result<Tensor> {
    let (a, b) = promoted(a, b)?;
    &*a + &*b
}

/// Gradients of the terms of a sum, in their types.
fn handed_on(
    [a, b]: [&Tensor; 2],
    gradient: &Tensor,
    [of_a, of_b]: [bool; 2],
) -> Result<[Option<Tensor>; 2]> {
    let of = |term: &Tensor| gradient.to_dtype(term.dtype());
    Ok([
        of_a.then(|| of(a)).transpose()?,
        of_b.then(|| of(b)).transpose()?,
    ])
}

/// Elements times constant factors.
pub(crate) fn masked(x: &Tensor, factors: &Tensor) -> Result<Tensor> {
    let factors = factors.detach().to_dtype(x.dtype())?;
    if !has_kernels(x) {
        return of([x], |[x]| x * factors);
    }
    let y = (x.detach() * &factors)?;
    custom_gradient1(x, y, move |_, gradient, _| {
        let of_x = gradient.to_dtype(factors.dtype())? * &factors;
        Ok([Some(of_x?)])
    })
}
