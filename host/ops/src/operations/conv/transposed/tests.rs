//! Tests of transposed convolutions.

use candle_core::{DType, Var};

use super::*;
use crate::gradient_check::check_gradients;
use crate::normal_numbers;
use crate::operations::conv::comparison::assert_close;
use crate::operations::conv::unfold::{fold_by_indices, fold2d, unfold2d};

#[test]
fn gradients_are_right_in_groups_and_with_what_is_added() {
    let var = |seed, shape: &[usize]| {
        let x = normal_numbers(seed, shape).and_then(|x| x.to_dtype(DType::F64));
        x.and_then(|x| Var::from_tensor(&x)).expect("a variable")
    };
    for (groups, stride, padding, dilation, added) in [
        (1, (2, 3), (1, 0), (1, 1), (1, 0)),
        (2, (1, 1), (0, 1), (2, 1), (0, 0)),
    ] {
        let window = Window {
            kernel: (3, 2),
            stride,
            padding,
            dilation,
        };
        let inputs = [
            var(1, &[2, 4, 3, 2]),
            var(2, &[4, 3 / groups.min(1), 3, 2]),
            var(3, &[3 * groups]),
        ];
        let report = check_gradients(&inputs, |of| {
            conv_transpose2d(&of[0], &of[1], Some(&of[2]), window, groups, added)?.sqr()
        });
        assert!(report.is_right(), "{report}");
        let y = conv_transpose2d(&inputs[0], &inputs[1], None, window, groups, added);
        assert_eq!(y.expect("y").dim(1).expect("channels"), 3 * groups);
    }
}

/// Compares outputs and gradients in `f32` with those of the composed form in `f64`.
fn compare(
    dims: [usize; 4],
    outputs: usize,
    window: Window,
    groups: usize,
    added: (usize, usize),
) -> Result<()> {
    let (high, wide) = window.kernel;
    let given = [
        normal_numbers(0, &dims)?,
        normal_numbers(1, (dims[1], outputs / groups, high, wide))?,
        normal_numbers(2, outputs)?,
    ];
    let of = |dtype: DType| -> Result<[Tensor; 4]> {
        let var = |given: &Tensor| Var::from_tensor(&given.to_dtype(dtype)?);
        let [x, kernel, bias] = &given;
        let (x, kernel, bias) = (var(x)?, var(kernel)?, var(bias)?);
        let y = conv_transpose2d(&x, &kernel, Some(&bias), window, groups, added)?;
        // Each output has a different weight in the loss.
        let factors = normal_numbers(3, y.dims())?.to_dtype(dtype)?;
        let gradients = (&y * factors)?.sum_all()?.backward()?;
        let of = |var: &Var| gradients.get(var).cloned().expect("a gradient");
        Ok([y, of(&x), of(&kernel), of(&bias)])
    };
    let (found, exact) = (of(DType::F32)?, of(DType::F64)?);
    for (index, (found, exact)) in found.iter().zip(&exact).enumerate() {
        let what = ["outputs", "inputs", "kernel", "bias"][index];
        assert_eq!(found.dims(), exact.dims());
        assert_close(found, exact, &format!("{what} of {dims:?} by {window:?}"))?;
    }
    Ok(())
}

#[test]
fn kernels_give_what_the_composed_form_gives() -> Result<()> {
    let window = |kernel, stride, padding, dilation| Window {
        kernel,
        stride,
        padding,
        dilation,
    };
    let (once, none) = ((1, 1), (0, 0));
    let fourfold = window((4, 4), (2, 2), (1, 1), once);
    compare([3, 32, 8, 8], 16, fourfold, 1, none)?;
    compare([2, 16, 9, 7], 3, fourfold, 1, (1, 1))?;
    compare(
        [5, 40, 3, 6],
        12,
        window((3, 2), (3, 2), (1, 0), once),
        2,
        (2, 0),
    )?;
    compare(
        [2, 19, 5, 5],
        20,
        window((3, 3), once, none, (2, 1)),
        1,
        none,
    )?;
    compare(
        [2, 17, 4, 5],
        7,
        window((2, 3), (3, 1), (0, 1), once),
        1,
        (1, 0),
    )?;
    compare(
        [1, 24, 6, 4],
        40,
        window((5, 1), (2, 3), (2, 0), (1, 2)),
        1,
        (0, 2),
    )?;
    // By the kernel turned around: Winograd's algorithm, single pixels, taps apart, each channel by itself.
    let same = window((3, 3), once, once, once);
    compare([2, 32, 8, 9], 48, same, 1, none)?;
    compare([2, 16, 4, 8], 24, window(once, once, none, once), 1, none)?;
    compare(
        [2, 6, 7, 5],
        9,
        window((3, 5), once, (2, 2), (2, 1)),
        3,
        none,
    )?;
    compare([2, 6, 7, 5], 6, same, 6, none)?;
    // Composed: rows of too few windows, too few inputs, and one more window than there are inputs.
    compare([4, 20, 1, 1], 16, window((4, 4), once, none, once), 1, none)?;
    compare([2, 3, 6, 6], 8, fourfold, 1, none)
}

#[test]
fn folding_by_indices_is_folding() -> Result<()> {
    let window = Window {
        kernel: (2, 3),
        stride: (2, 1),
        padding: (1, 1),
        dilation: (1, 2),
    };
    let image = [2, 3, 5, 6];
    let x = normal_numbers(1, &image[..])?;
    let windows = unfold2d(&x, window)?;
    let counts = window.counts(5, 6).expect("windows");
    let found = fold_by_indices(&windows, image, counts, window)?;
    let wanted = fold2d(&windows, image, window)?;
    let apart = (found - wanted)?.abs()?.max_all()?.to_scalar::<f32>()?;
    assert!(apart < 1e-5, "{apart}");
    Ok(())
}
