//! Tests of outputs and gradients against those in `f64`, computed with the matrix of windows.

use candle_core::{DType, Device, Result, Tensor, Var};

use super::*;
use crate::{PoolKind, Window, Windows, conv2d, conv2d_then, normal_numbers, pool2d, relu};

/// Asserts that two tensors of different types differ only by rounding.
fn assert_close(found: &Tensor, exact: &Tensor, what: &str) -> Result<()> {
    let found = found.to_dtype(DType::F64)?;
    let error = (found - exact)?.abs()?.max_all()?.to_scalar::<f64>()?;
    let size = exact.abs()?.max_all()?.to_scalar::<f64>()?;
    assert!(error <= 4e-6 * size, "{what}: off by {error} of {size}");
    Ok(())
}

/// Compares outputs and gradients of [`Direct`] in `f32` with those of the matrix of windows in `f64`.
fn compare(dims: [usize; 4], outputs: usize, window: Window, groups: usize) -> Result<()> {
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
        assert_eq!(Direct::of(&conv, after).is_some(), has_tiles());
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

#[test]
fn outputs_and_gradients_are_those_of_windows_as_a_matrix() -> Result<()> {
    let window = |kernel, stride, padding, dilation| Window {
        kernel,
        stride,
        padding,
        dilation,
    };
    compare(
        [5, 1, 28, 28],
        32,
        window((5, 5), (1, 1), (0, 0), (1, 1)),
        1,
    )?;
    compare(
        [3, 32, 12, 12],
        64,
        window((5, 5), (1, 1), (0, 0), (1, 1)),
        1,
    )?;
    compare(
        [2, 3, 11, 13],
        40,
        window((3, 3), (1, 1), (1, 1), (1, 1)),
        1,
    )?;
    compare(
        [2, 40, 9, 10],
        17,
        window((3, 2), (2, 2), (1, 2), (2, 1)),
        1,
    )?;
    compare([2, 36, 8, 7], 34, window((1, 1), (1, 1), (0, 0), (1, 1)), 1)?;
    compare(
        [1, 70, 6, 16],
        96,
        window((3, 3), (1, 2), (1, 1), (1, 1)),
        2,
    )?;
    compare(
        [4, 16, 2, 30],
        16,
        window((1, 3), (1, 1), (0, 1), (1, 1)),
        1,
    )
}

/// A batch whose partial sums would differ in number if that depended on the outputs left by pooling.
#[test]
fn what_follows_does_not_change_a_bit() -> Result<()> {
    let window = Window {
        kernel: (5, 5),
        stride: (1, 1),
        padding: (0, 0),
        dilation: (1, 1),
    };
    let random = |seed, shape: &[usize]| Var::from_tensor(&normal_numbers(seed, shape)?);
    let (x, weight, bias) = (
        random(0, &[64, 16, 10, 10])?,
        random(1, &[112, 16, 5, 5])?,
        random(2, &[112])?,
    );
    let of = |y: Tensor| -> Result<Vec<Vec<u32>>> {
        let factors =
            (Tensor::arange(0.0_f32, y.elem_count() as f32, &Device::Cpu)? * 0.7)?.cos()?;
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
    let together = conv2d_then(&x, &weight, Some(&bias), window, 1, after)?;
    let apart = relu(&conv2d(&x, &weight, Some(&bias), window, 1)?)?;
    let squares = || Windows::sliding(6, 2, 2, 0).expect("room for squares");
    let apart = pool2d(&apart, PoolKind::Max, squares(), squares())?;
    assert!(of(together)? == of(apart)?, "other bits");
    Ok(())
}
