//! Comparison of the algorithms for `f32` with the matrix of windows in `f64`, for tests.

use candle_core::{DType, Device, Result, Tensor, Var};

use super::sizes::Conv;
use super::{After, conv2d_then};
use crate::{Window, normal_numbers};

/// Asserts that two tensors of different types differ only by rounding.
fn assert_close(found: &Tensor, exact: &Tensor, what: &str) -> Result<()> {
    let found = found.to_dtype(DType::F64)?;
    let error = (found - exact)?.abs()?.max_all()?.to_scalar::<f64>()?;
    let size = exact.abs()?.max_all()?.to_scalar::<f64>()?;
    assert!(error <= 4e-6 * size, "{what}: off by {error} of {size}");
    Ok(())
}

/// Compares outputs and gradients in `f32`, by the algorithm that is expected, with those of the matrix of windows in
/// `f64`.
pub(super) fn compare(
    dims: [usize; 4],
    outputs: usize,
    window: Window,
    groups: usize,
    is_expected: impl Fn(&Conv, After) -> bool,
) -> Result<()> {
    let [_, channels, ..] = dims;
    let (down, across) = window.kernel;
    let x = normal_numbers(0, &dims)?;
    let weight = (outputs, channels / groups, down, across);
    let given = [x, normal_numbers(1, weight)?, normal_numbers(2, outputs)?];
    for (relu, pool) in [(false, false), (true, false), (false, true), (true, true)] {
        let after = After { relu, pool };
        let of = |dtype: DType| -> Result<(Tensor, [Tensor; 3])> {
            let mut vars = Vec::new();
            for given in &given {
                vars.push(Var::from_tensor(&given.to_dtype(dtype)?)?);
            }
            let [x, weight, bias] = &vars[..] else {
                unreachable!("three were given")
            };
            let y = conv2d_then(x, weight, Some(bias), window, groups, after)?;
            // Each output has a different weight in the loss.
            let count = y.elem_count() as f64;
            let factors = ((Tensor::arange(0.0, count, &Device::Cpu)? * 0.7)?.cos()? + 0.5)?;
            let factors = factors
                .reshape(y.shape())?
                .to_dtype(DType::F32)?
                .to_dtype(dtype)?;
            let gradients = (&y * factors)?.sum_all()?.backward()?;
            let of = |var: &Var| gradients.get(var).cloned().expect("a gradient");
            Ok((y, [of(x), of(weight), of(bias)]))
        };
        let conv = Conv::of(&given[0], &given[1], None, window, groups)?;
        assert!(
            is_expected(&conv, after),
            "another algorithm for {dims:?}, {window:?}"
        );
        let (found, found_gradients) = of(DType::F32)?;
        let (exact, exact_gradients) = of(DType::F64)?;
        assert_close(&found, &exact, "outputs")?;
        for (index, (found, exact)) in found_gradients.iter().zip(&exact_gradients).enumerate() {
            let of = ["inputs", "weight", "bias"][index];
            assert_close(found, exact, &format!("the gradient of {of}, {after:?}"))?;
        }
    }
    Ok(())
}
