//! Tests of outputs and gradients against those in `f64`, computed with the matrix of windows, and against direct sums.

use candle_core::Result;

use super::*;
use crate::kernels::has_tiles;
use crate::operations::conv::comparison::compare;

fn window(padding: (usize, usize)) -> Window {
    Window {
        kernel: (3, 3),
        stride: (1, 1),
        padding,
        dilation: (1, 1),
    }
}

#[test]
fn outputs_and_gradients_are_those_of_windows_as_a_matrix() -> Result<()> {
    let of = |dims, outputs, padding| {
        compare(dims, outputs, window(padding), 1, |conv, after| {
            Winograd::of(conv, after).is_some() == has_tiles()
        })
    };
    // More lines of squares than fit at once, of 4 × 4 and of 2 × 2 outputs.
    of([2, 32, 36, 38], 32, (1, 1))?;
    of([1, 32, 30, 30], 32, (1, 1))?;
    // Many small images together, the last ones fewer; odd sizes, and a number of outputs that is not whole panels.
    of([21, 48, 7, 5], 80, (1, 1))?;
    of([21, 48, 5, 7], 32, (1, 1))?;
    of([3, 64, 9, 8], 32, (0, 2))?;
    of([5, 288, 4, 4], 32, (1, 1))?;
    // By panels, of both squares.
    of([3, 192, 5, 6], 128, (1, 1))?;
    of([64, 128, 4, 4], 128, (1, 1))
}

/// The largest error of elements of `found`, as a fraction of the largest element of `exact`.
fn error(found: &[f32], exact: &[f64]) -> f64 {
    let size = exact.iter().fold(0.0, |size: f64, x| size.max(x.abs()));
    let errors = found.iter().zip(exact);
    errors.fold(0.0, |most: f64, (&x, exact)| {
        most.max((f64::from(x) - exact).abs())
    }) / size
}

#[test]
fn errors_are_within_bounds_of_those_of_direct_sums() -> Result<()> {
    if !has_tiles() {
        return Ok(());
    }
    for (dims, outputs) in [([8, 32, 16, 16], 32), ([8, 128, 8, 8], 128)] {
        let x = crate::normal_numbers(0, &dims)?;
        let weight = crate::normal_numbers(1, (outputs, dims[1], 3, 3))?;
        let conv = Conv::of(x.dims(), &weight, None, window((1, 1)), 1)?;
        let g = crate::normal_numbers(2, (dims[0], outputs, dims[2], dims[3]))?;
        let numbers = |tensor: &candle_core::Tensor| tensor.flatten_all()?.to_vec1::<f32>();
        let (x, weight, g) = (numbers(&x)?, numbers(&weight)?, numbers(&g)?);
        let double = |numbers: &[f32]| numbers.iter().copied().map(f64::from).collect::<Vec<_>>();
        let (exact_x, exact_weight, exact_g) = (double(&x), double(&weight), double(&g));
        let after = After::default();
        let (exact, _) = conv.forward(&exact_x, &exact_weight, None, after);
        let [exact_x, exact_weight, _] = conv.backward(
            (&exact_x, &exact_weight),
            (&exact, &exact_g),
            (after, &[]),
            true,
        );
        let Some(direct) = Direct::of(&conv, after) else {
            panic!("an algorithm is missing")
        };
        let (direct_y, _) = direct.forward(&x, &weight, None);
        let [direct_x, direct_weight, _] =
            direct.backward((&x, &weight), (&direct_y, &g), &[], true);
        for (square, most) in [(Square::Two, 1.5), (Square::Four, 4.0)] {
            let Some(winograd) = Winograd::by(square, &conv, after) else {
                panic!("an algorithm is missing")
            };
            let (y, _) = winograd.forward(&x, &weight, None);
            let [of_x, of_weight, _] = winograd.backward((&x, &weight), (&y, &g), &[], true);
            for (what, found, direct, exact) in [
                ("outputs", y, &direct_y, &exact),
                ("inputs", of_x, &direct_x, &exact_x),
                ("weight", of_weight, &direct_weight, &exact_weight),
            ] {
                let (found, direct) = (error(&found, exact), error(direct, exact));
                // Wide registers sum in more parts, which makes direct sums more exact than others.
                assert!(
                    found < most * direct.max(4e-7) && direct < 2e-6,
                    "{what} of {dims:?}, {square:?}: off by {found:e}, direct sums by {direct:e}"
                );
            }
        }
    }
    Ok(())
}
