//! Comparison of the algorithms for `f32` with the matrix of windows in `f64`, and of fused operations with others.

use candle_core::{DType, Error, Result, Tensor, Var};

use super::sizes::Conv;
use super::{After, Single, conv2d, conv2d_then};
use crate::kernels::other_instructions::Digest;
use crate::kernels::{Terms, along, has_tiles};
use crate::{PoolKind, Window, Windows, normal_numbers, pool2d, relu, rounded_products};

/// Asserts that two tensors of different types differ only by rounding.
pub(super) fn assert_close(found: &Tensor, exact: &Tensor, what: &str) -> Result<()> {
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
        let conv = Conv::of(given[0].dims(), &given[1], None, window, groups)?;
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
    expect_same_bits([16, 32, 3, 3], 48, (3, 1), 1)?;
    expect_same_bits([16, 20, 9, 9], 20, (3, 1), 20)
}

/// Numbers as they are multiplied.
fn narrow(numbers: &[f32]) -> Vec<f64> {
    let mut words = vec![0.0; numbers.len()];
    along(numbers, 1, (numbers.len(), 1), 1, &mut words);
    let wide = |word: &f32| f64::from(f32::from_bits(word.to_bits() << 16));
    words.iter().map(wide).collect()
}

/// Asserts that sums of products are those of the same factors in `f64`.
fn assert_exact(found: &[f32], exact: &[f64], what: &str) {
    let size = exact.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
    assert_eq!(found.len(), exact.len(), "{what}");
    for (found, exact) in found.iter().zip(exact) {
        let error = (f64::from(*found) - exact).abs();
        assert!(error <= 4e-6 * size, "{what}: off by {error} of {size}");
    }
}

type Rounded = ([usize; 4], usize, [usize; 2], [usize; 2], [usize; 2], usize);

/// Sizes of images, outputs, kernel, stride, padding and groups: odd numbers of channels, outputs and windows, and depths of one tap.
const ROUNDED: [Rounded; 7] = [
    ([3, 3, 12, 11], 33, [3, 3], [1, 1], [1, 1], 1),
    ([2, 17, 9, 10], 40, [3, 2], [2, 2], [1, 2], 1),
    ([5, 1, 14, 14], 32, [5, 5], [1, 1], [0, 0], 1),
    ([2, 16, 8, 9], 32, [1, 1], [2, 2], [0, 0], 1),
    ([2, 42, 6, 16], 66, [3, 3], [1, 2], [1, 1], 2),
    ([9, 32, 8, 8], 64, [1, 1], [1, 1], [0, 0], 1),
    ([3, 17, 16, 14], 41, [1, 1], [1, 1], [0, 0], 1),
];

fn window([kernel, stride, padding]: [[usize; 2]; 3]) -> Window {
    Window {
        kernel: kernel.into(),
        stride: stride.into(),
        padding: padding.into(),
        dilation: (1, 1),
    }
}

#[test]
fn rounded_convolutions_are_those_of_rounded_factors() -> Result<()> {
    if !has_tiles() {
        return Ok(());
    }
    for (dims, outputs, kernel, stride, padding, groups) in ROUNDED {
        let window = window([kernel, stride, padding]);
        let weight = (outputs, dims[1] / groups, kernel[0], kernel[1]);
        let (x, weight) = (normal_numbers(0, &dims)?, normal_numbers(1, weight)?);
        let conv = Conv::of(x.dims(), &weight, None, window, groups)?;
        let g = (dims[0], outputs, conv.image.rows, conv.image.columns);
        let (g, bias) = (normal_numbers(2, g)?, normal_numbers(3, outputs)?);
        let numbers = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<f32>();
        let (x, weight) = (numbers(&x)?, numbers(&weight)?);
        let (g, bias) = (numbers(&g)?, numbers(&bias)?);
        let after = After::default();
        let what = format!("{dims:?} {outputs} {window:?}");
        let single = Single::of(&conv, after, Terms::Pairs);
        let Some(single @ (Single::Pointwise(_) | Single::Direct(_))) = single else {
            panic!("another algorithm for {what}")
        };
        let wide = |numbers: &[f32]| numbers.iter().copied().map(f64::from).collect::<Vec<_>>();
        let (exact, _) = conv.forward(&narrow(&x), &narrow(&weight), Some(&wide(&bias)), after);
        let [exact_x, exact_weight, _] = conv.backward(
            (&narrow(&x), &narrow(&weight)),
            (&exact, &narrow(&g)),
            (after, &[]),
            true,
        );
        let (y, _) = single.forward(&x, &weight, Some(&bias));
        let [of_x, of_weight, of_bias] = single.backward((&x, &weight), (&y, &g), &[], true);
        assert_exact(&y, &exact, &format!("outputs of {what}"));
        assert_exact(&of_x, &exact_x, &format!("inputs of {what}"));
        assert_exact(&of_weight, &exact_weight, &format!("weight of {what}"));
        // The bias's gradient has no factors.
        let [_, _, exact_bias] = conv.backward(
            (&wide(&x), &wide(&weight)),
            (&exact, &wide(&g)),
            (after, &[]),
            true,
        );
        assert_exact(&of_bias, &exact_bias, &format!("bias of {what}"));
    }
    Ok(())
}

#[test]
fn rounded_convolutions_have_the_same_bits_by_other_instructions() -> Result<()> {
    let mut digest = Digest::new();
    for (dims, outputs, kernel, stride, padding, groups) in ROUNDED {
        let window = window([kernel, stride, padding]);
        let weight = (outputs, dims[1] / groups, kernel[0], kernel[1]);
        let var = |tensor: Tensor| Var::from_tensor(&tensor);
        let x = var(normal_numbers(0, &dims)?)?;
        let weight = var(normal_numbers(1, weight)?)?;
        let rounded = rounded_products(true);
        let after = After {
            relu: true,
            pool: true,
        };
        let y = conv2d_then(&x, &weight, None, window, groups, after)?;
        drop(rounded);
        let gradients = y.sqr()?.sum_all()?.backward()?;
        for tensor in [Some(&y), gradients.get(&x), gradients.get(&weight)] {
            let tensor = tensor.expect("a gradient").flatten_all()?;
            digest.add(&tensor.to_vec1::<f32>()?);
        }
    }
    digest.expect_same_with_avx2(
        "operations::conv::comparison::rounded_convolutions_have_the_same_bits_by_other_instructions",
    );
    Ok(())
}
