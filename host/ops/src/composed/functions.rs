//! Element by element, and the linear layer.

use candle_core::{Result, Tensor};

use super::of;
use crate::elementwise::Function;

/// x · Wᵀ + b over the last dimension, and a function of it.
pub(crate) fn linear(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    function: Option<Function>,
) -> Result<Tensor> {
    let product = |x: &Tensor, weight: &Tensor| {
        let (outputs, inputs) = weight.dims2()?;
        let mut shape = x.dims().to_vec();
        let rows = x.elem_count() / inputs.max(1);
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        x.reshape((rows, inputs))?
            .matmul(&weight.t()?)?
            .reshape(shape)
    };
    let y = match bias {
        Some(bias) => of([x, weight, bias], |[x, weight, bias]| {
            product(x, weight)?.broadcast_add(bias)
        }),
        None => of([x, weight], |[x, weight]| product(x, weight)),
    }?;
    function.map_or(Ok(y.clone()), |function| apply(&y, function))
}

/// An activation function of every element.
pub(crate) fn apply(x: &Tensor, function: Function) -> Result<Tensor> {
    of([x], |[x]| match function {
        Function::Relu => relu(x),
        Function::Gelu => {
            // x · Φ(x), with Φ(x) = (1 + erf(x / √2)) / 2.
            let normal = ((x * std::f64::consts::FRAC_1_SQRT_2)?.erf()? + 1.0)?;
            (x * normal)? * 0.5
        }
        Function::Silu => x.silu(),
    })
}

/// max(x, 0) with derivative 0 at 0, where candle's is 1.
pub(super) fn relu(x: &Tensor) -> Result<Tensor> {
    let zeros = x.zeros_like()?;
    // What is not at most 0 is kept, so NaN is.
    x.le(&zeros)?.where_cond(&zeros, x)
}

/// a + b.
pub(crate) fn add(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    of([a, b], |[a, b]| a + b)
}

/// max(a + b, 0).
pub(crate) fn add_relu(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    of([a, b], |[a, b]| relu(&(a + b)?))
}

/// Elements times constant factors.
pub(crate) fn masked(x: &Tensor, factors: &Tensor) -> Result<Tensor> {
    of([x], |[x]| x * factors.detach())
}
