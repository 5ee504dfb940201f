//! Tests of outputs and gradients against those in `f64`, computed with the matrix of windows.

use candle_core::{Device, Result, Tensor, Var};

use super::*;
use crate::conv::comparison;
use crate::{PoolKind, Window, Windows, conv2d, conv2d_then, normal_numbers, pool2d, relu};

/// Compares outputs and gradients of [`Direct`] with those in `f64`.
fn compare(dims: [usize; 4], outputs: usize, window: Window, groups: usize) -> Result<()> {
    comparison::compare(dims, outputs, window, groups, |conv, after| {
        Direct::of(conv, after).is_some() == has_tiles()
    })
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
