//! Element by element, and the linear layer.

use candle_core::{Result, Tensor};

use super::cast::{operand, promoted, widened};
use super::of;
use crate::autograd::custom_gradient::{custom_gradient, custom_gradient_of_output};
use crate::autograd::tape::reshape;
use crate::choice::has_kernels;
use crate::options::{Function, WeightOrder};

/// x · Wᵀ + b over the last dimension, and a function of it.
pub(crate) fn linear(
    x: &Tensor,
    (weight, order): (&Tensor, WeightOrder),
    bias: Option<&Tensor>,
    function: Option<Function>,
) -> Result<Tensor> {
    let (inputs, outputs) = order.sizes(weight.dims2()?.into());
    let mut shape = x.dims().to_vec();
    let rows = x.elem_count() / inputs.max(1);
    if let Some(last) = shape.last_mut() {
        *last = outputs;
    }
    let x = reshape(x, (rows, inputs))?;
    let y = product(&*operand(&x)?, &*operand(weight)?, order)?;
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

/// x · Wᵀ of matrices, W being (outputs, inputs) once it is put in that order.
fn product(x: &Tensor, weight: &Tensor, order: WeightOrder) -> Result<Tensor> {
    let y = match order {
        WeightOrder::OutputsInputs => x.detach().matmul(&weight.detach().t()?)?,
        WeightOrder::InputsOutputs => x.detach().matmul(&weight.detach())?,
    };
    custom_gradient([x, weight], y, move |[x, weight], gradient, wanted| {
        let gradient = gradient.contiguous()?;
        let [of_x, of_weight] = wanted;
        let of_x = of_x.then(|| match order {
            WeightOrder::OutputsInputs => gradient.matmul(weight),
            WeightOrder::InputsOutputs => gradient.matmul(&weight.t()?),
        });
        let of_weight = of_weight.then(|| match order {
            WeightOrder::OutputsInputs => gradient.t()?.matmul(x),
            WeightOrder::InputsOutputs => x.t()?.matmul(&gradient),
        });
        Ok([of_x.transpose()?, of_weight.transpose()?])
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
        Function::GeluTanh => {
            // (1 + tanh(u)) / 2 is σ(2 · u), with u = √(2/π) · (x + 0.044715 · x³).
            let wide = &*widened(x)?;
            let twice = ((wide.sqr()? * 0.044_715)? + 1.0)?;
            let twice = ((wide * twice)? * 1.595_769_121_605_730_7)?;
            (wide * sigmoid(&twice)?)?.to_dtype(x.dtype())
        }
        Function::QuickGelu => {
            let wide = &*widened(x)?;
            (wide * sigmoid(&(wide * 1.702)?)?)?.to_dtype(x.dtype())
        }
        Function::Silu => widened(x)?.silu()?.to_dtype(x.dtype()),
        Function::Tanh => widened(x)?.tanh()?.to_dtype(x.dtype()),
        Function::Sigmoid => sigmoid(&*widened(x)?)?.to_dtype(x.dtype()),
    })
}

/// 1 / (1 + e⁻ˣ), by tanh: e⁻ˣ overflows for large negative x.
pub(super) fn sigmoid(x: &Tensor) -> Result<Tensor> {
    ((x * 0.5)?.tanh()? * 0.5)? + 0.5
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
    custom_gradient([a, b], sum([&a.detach(), &b.detach()])?, handed_on)
}

/// max(a + b, 0), in the wider of their types.
pub(crate) fn add_relu(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if !has_kernels(a) {
        return of([a, b], |terms| relu(&sum(terms)?));
    }
    let y = apply(&sum([&a.detach(), &b.detach()])?, Function::Relu)?;
    custom_gradient_of_output(
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
    custom_gradient([x], y, move |_, gradient, _| {
        let of_x = gradient.to_dtype(factors.dtype())? * &factors;
        Ok([Some(of_x?)])
    })
}

/// a · b of one shape, in the wider of their types.
pub(crate) fn multiply(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let product = |[a, b]: [&Tensor; 2]| {
        let (a, b) = promoted(a, b)?;
        &*a * &*b
    };
    if !has_kernels(a) {
        return of([a, b], product);
    }
    let y = product([&a.detach(), &b.detach()])?;
    custom_gradient([a, b], y, |[a, b], gradient, [of_a, of_b]| {
        let of = |wanted: bool, own: &Tensor, other: &Tensor| {
            let product = || (gradient * other.to_dtype(gradient.dtype())?)?.to_dtype(own.dtype());
            wanted.then(product).transpose()
        };
        Ok([of(of_a, a, b)?, of(of_b, b, a)?])
    })
}
