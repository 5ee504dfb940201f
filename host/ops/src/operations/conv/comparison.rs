//! Comparison of the algorithms for `f32` with the matrix of windows in `f64`, and of fused operations with others.

use candle_core::{DType, Error, Result, Tensor, Var};

use super::sizes::Conv;
use super::{After, conv2d, conv2d_then};
use crate::{PoolKind, Window, Windows, normal_numbers, pool2d, relu};

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
            let factors =
                ((Tensor::arange(0.0, count, &crate::device::for_tests())? * 0.7)?.cos()? + 0.5)?;
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

/// Asserts that `ReLU` and pooling in the same operation do not change a bit of outputs and gradients.
fn expect_same_bits(
    dims: [usize; 4],
    outputs: usize,
    (kernel, padding): (usize, usize),
    groups: usize,
) -> Result<()> {
    let window = Window {
        kernel: (kernel, kernel),
        stride: (1, 1),
        padding: (padding, padding),
        dilation: (1, 1),
    };
    let random = |seed, shape: &[usize]| Var::from_tensor(&normal_numbers(seed, shape)?);
    let (x, weight, bias) = (
        random(0, &dims)?,
        random(1, &[outputs, dims[1] / groups, kernel, kernel])?,
        random(2, &[outputs])?,
    );
    let of = |y: Tensor| -> Result<Vec<Vec<u32>>> {
        let factors =
            (Tensor::arange(0.0_f32, y.elem_count() as f32, &crate::device::for_tests())? * 0.7)?
                .cos()?;
        let gradients = (&y * factors.reshape(y.shape())?)?.sum_all()?.backward()?;
        let gradient = |var: &Var| gradients.get(var).cloned().expect("a gradient");
        let all = [y, gradient(&x), gradient(&weight), gradient(&bias)];
        let exactly = |tensor: &Tensor| -> Result<Vec<u32>> {
            let numbers = tensor.flatten_all()?.to_vec1::<f32>()?;
            Ok(numbers.into_iter().map(f32::to_bits).collect())
        };
        all.iter().map(exactly).collect()
    };
    let after = After {
        relu: true,
        pool: true,
    };
    let together = conv2d_then(&x, &weight, Some(&bias), window, groups, after)?;
    let apart = relu(&conv2d(&x, &weight, Some(&bias), window, groups)?)?;
    let squares = || Windows::sliding(apart.dim(2)?, 2, 2, 0).ok_or(Error::Msg("no room".into()));
    let apart = pool2d(&apart, PoolKind::Max, squares()?, squares()?)?;
    assert!(of(together)? == of(apart)?, "other bits for {dims:?}");
    Ok(())
}

#[test]
fn what_follows_does_not_change_a_bit() -> Result<()> {
    // Partial sums would differ in number if that depended on the outputs left by pooling.
    expect_same_bits([64, 16, 10, 10], 112, (5, 0), 1)?;
    expect_same_bits([16, 32, 9, 9], 48, (3, 1), 1)?;
    expect_same_bits([3, 128, 9, 9], 128, (3, 1), 1)?;
    expect_same_bits([16, 32, 8, 8], 48, (1, 0), 1)?;
    expect_same_bits([16, 20, 9, 9], 20, (3, 1), 20)
}
